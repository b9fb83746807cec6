"""What of a text is kept in the chunks that are searched and shown."""

CHUNK_CHARS = 3_000
CHUNKS = 8  # of one event; what is longer is kept whole aside
LAST_CHUNKS = 2  # of those, from the end, where a text says what came of it
HEAD = 0.75  # of a tool's result; the rest is from its end


def chunked(text: str, kind: str, event_id: str, excerpt_chars: int) -> tuple[list[str], bool]:
    """The chunks of an event's text, and whether they leave out some of it.

    A tool's result is one chunk of at most `excerpt_chars` characters and a line that says what
    is missing; other text is cut at blank lines into up to 8 chunks of 3,000.
    """
    if kind == "tool_result":
        if len(text) <= excerpt_chars:
            return [text], False
        head = int(excerpt_chars * HEAD)
        tail = excerpt_chars - head
        gap = _gap(len(text) - excerpt_chars, event_id)
        return [f"{text[:head]}{gap}{text[-tail:]}"], True
    chunks = _cut(text)
    if len(chunks) <= CHUNKS:
        return chunks, False
    first, last = chunks[: CHUNKS - LAST_CHUNKS], chunks[-LAST_CHUNKS:]
    missing = sum(len(chunk) for chunk in chunks[CHUNKS - LAST_CHUNKS : -LAST_CHUNKS])
    return [*first[:-1], first[-1] + _gap(missing, event_id), *last], True


def _gap(missing: int, event_id: str) -> str:
    return f"\n[{missing:,} characters left out: get_artifact {event_id}]\n"


def _cut(text: str) -> list[str]:
    chunks = []
    while len(text) > CHUNK_CHARS:
        # At a blank line, else a line's end, else a blank; never for a chunk of almost nothing.
        ends = (text.rfind(gap, CHUNK_CHARS // 3, CHUNK_CHARS) for gap in ("\n\n", "\n", " "))
        end = next((end for end in ends if end > 0), CHUNK_CHARS)
        chunks.append(text[:end])
        text = text[end:].lstrip("\n")
    return [*chunks, text] if text.strip() or not chunks else chunks
