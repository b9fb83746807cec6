"""The models of `memory_models`, an optional package: imported only where one of them is asked for,
which shows in the form of its name.
"""

from types import ModuleType

from ..limits import LOCAL_MODEL

_SHORT_NAMES = ("english", "multilingual")


def is_optional(model: str, base_url: str | None) -> bool:
    """Whether a setting of this name, with this `base_url`, means a model of `memory_models`."""
    return not (base_url or "").strip() and ("/" in model or model.lower() in _SHORT_NAMES)


def english_only(model: str) -> bool:
    """Whether this model, by its real name, cannot read Korean, Chinese or Japanese."""
    return model == LOCAL_MODEL or ("/" in model and optional_models().english_only(model))


def optional_models() -> ModuleType:
    """The package."""
    import memory_models

    return memory_models
