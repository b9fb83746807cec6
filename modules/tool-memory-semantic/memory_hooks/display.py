"""A line for the person."""

import logging
from typing import Any

from memory_semantic import one_line

logger = logging.getLogger(__name__)

# How much of a memory a line shows: the longest sentence that anybody says.
SHOWN_CHARS = 200


def quoted(text: str) -> str:
    """`text` on one line in quotation marks, cut if it is long. Amplifier would take [words] for
    markup, so an invisible joiner follows each bracket.
    """
    text = one_line(text)
    text = text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
    return f'"{text}"'.replace("[", "[\u2060")


def show(coordinator: Any, line: str, source: str, *, warning: bool = False) -> None:
    """Show `line` to the person, as coming from the module `source`. A `warning` is logged if the
    host cannot display it.

    Not by `HookResult.user_message`: the kernel drops it if nothing is injected.
    """
    display = coordinator.display_system
    try:
        if display:
            return display.show_message(line, "warning" if warning else "info", source)
    except Exception as error:  # raised by the host
        logger.warning("A message could not be shown: %s", type(error).__name__)
    if warning:
        logger.warning("%s", line)
