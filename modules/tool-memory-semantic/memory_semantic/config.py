"""The settings, by the names that they have in a bundle or in settings.yaml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .models import LOCK_SECONDS, MAX_RESULTS, clean_base_url


class StorageConfig(BaseModel):
    """Where memories are kept, what embeds them, how many a search may return.

    `embedding_model` is `local` or a model's name at the service; None lets a new store choose.
    `base_url` is the address of an OpenAI-compatible service, `dimensions` a vector length to ask
    it for, `lock_timeout` the seconds that a call waits for other calls on the same memory.
    `mask_secrets` is for the tools: whether they mask credentials.
    """

    # Defaults are validated too: the home is that of the moment.
    model_config = ConfigDict(validate_default=True, str_strip_whitespace=True)

    storage_root: str = "~/.amplifier/memory"
    embedding_model: str | None = None
    base_url: str | None = None
    dimensions: int | None = Field(default=None, ge=1)
    max_query_results: int = Field(default=MAX_RESULTS, ge=1, le=MAX_RESULTS)
    lock_timeout: float = Field(default=LOCK_SECONDS, ge=0)
    mask_secrets: bool = True

    @field_validator("storage_root")
    @classmethod
    def _folder(cls, root: str) -> str:
        try:
            folder = Path(root).expanduser().absolute()
        except RuntimeError:
            raise ValueError("there is no such user's home") from None
        if "\0" in root or "${" in root:
            raise ValueError("it cannot be a folder, or a variable in it was not expanded")
        return str(folder)

    @field_validator("base_url")
    @classmethod
    def _address(cls, base_url: str | None) -> str | None:
        return clean_base_url(base_url)

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
