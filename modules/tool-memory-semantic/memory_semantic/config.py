"""The settings, by the names that they have in a bundle or in settings.yaml."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from .models import LOCK_SECONDS, MAX_RESULTS


class StorageConfig(BaseModel):
    """Where memories are kept, what embeds them, how many a search may return.

    `embedding_model` is `local` or a model's name at the service; None lets a new store choose.
    `base_url` is the address of an OpenAI-compatible service, `dimensions` a vector length to ask
    it for, `lock_timeout` the seconds that a call waits for other processes. `mask_secrets` is the
    tools' own: whether they mask credentials.
    """

    storage_root: str = "~/.amplifier/memory"
    embedding_model: str | None = None
    base_url: str | None = None
    dimensions: int | None = Field(default=None, ge=1)
    max_query_results: int = Field(default=MAX_RESULTS, ge=1, le=MAX_RESULTS)
    lock_timeout: float = Field(default=LOCK_SECONDS, ge=0)
    mask_secrets: bool = True

    @classmethod
    def parse(cls, config: Mapping[str, Any] | None) -> "StorageConfig":
        """The settings in `config`; other keys are ignored, and so are blank texts, because
        Amplifier expands an unset `${VAR}` to one. Raises ValueError for a value that is wrong.
        """
        given = {
            key: value
            for key, value in (config or {}).items()
            if value is not None and not (isinstance(value, str) and not value.strip())
        }
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"The setting {first['loc'][0]} is wrong: {first['msg']}.") from None
