"""To come."""

from typing import Any


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Nothing yet."""
