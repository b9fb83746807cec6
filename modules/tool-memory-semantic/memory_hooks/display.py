"""A line for the person, beside the log, which Amplifier's command line hides."""

import logging
from typing import Any, Literal

logger = logging.getLogger(__name__)


def show(coordinator: Any, message: str, level: Literal["info", "warning"], *, source: str) -> None:
    """Show `message` where the host has a place for it, as coming from the module `source`.

    Not by `HookResult.user_message`: the kernel drops it where nothing is injected.
    """
    try:
        if coordinator.display_system:
            coordinator.display_system.show_message(message, level, source)
    except Exception as error:  # the host's
        logger.warning("A message could not be shown: %s", type(error).__name__)
