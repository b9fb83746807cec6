"""A line for the person."""

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)


def show(coordinator: Any, message: str, level: Literal["info", "warning"], *, source: str) -> bool:
    """Show `message` as coming from the module `source`, if the host can display it; returns
    whether it can.

    Not by `HookResult.user_message`: the kernel drops it if nothing is injected.
    """
    display = coordinator.display_system
    try:
        if display:
            display.show_message(message, level, source)
    except Exception as error:  # raised by the host
        logger.warning("A message could not be shown: %s", type(error).__name__)
        return False
    return bool(display)
