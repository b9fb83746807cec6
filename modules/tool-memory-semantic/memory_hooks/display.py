"""A line for the person."""

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)


def show(coordinator: Any, message: str, level: Literal["info", "warning"], *, source: str) -> bool:
    """Show `message` where the host has a place for it, as coming from the module `source`, and
    tell whether it has one.

    Not by `HookResult.user_message`: the kernel drops it where nothing is injected.
    """
    display = coordinator.display_system
    try:
        if display:
            display.show_message(message, level, source)
    except Exception as error:  # the host's
        logger.warning("A message could not be shown: %s", type(error).__name__)
        return False
    return bool(display)
