"""Render a result of `tools/call` as the text of a message: texts unchanged, other content described."""

from collections.abc import Iterator, Mapping
from typing import Any

from aggregator.results.read.repeated import repeats
from aggregator.wire.codec import TooDeep, encode


def as_text(result: Mapping[str, Any]) -> str:
    """Return the text blocks and embedded texts in order, with one line for each other block.

    Structured content is JSON at the beginning if there is no text, and at the end if the texts do not repeat it, as
    they should (S/server/tools).
    """
    blocks = result.get("content")
    parts = [part for block in blocks if (part := _part(block)) is not None] if isinstance(blocks, list) else []
    shown = [text for text, _ in parts]
    structured, texts = result.get("structuredContent"), [text for text, is_text in parts if is_text]
    if structured is not None and not texts:
        shown.insert(0, as_json(structured))
    elif structured is not None and not _repeats(texts, structured):
        shown.append(as_json(structured))
    return "\n".join(shown)


def _repeats(texts: list[str], structured: Any) -> bool:
    try:
        return repeats(texts, structured)
    except TooDeep:
        return False


def as_json(value: Any) -> str:
    """Return any value of a server as JSON text."""
    try:
        return encode(value).decode("utf-8", "replace")
    except TooDeep:
        return "[content that is nested too deeply]"


def _part(block: Any) -> tuple[str, bool] | None:
    """Return a block as text, and whether the text is the server's own; None for an invalid block."""
    if not isinstance(block, Mapping):
        return None
    kind, text = block.get("type"), block.get("text")
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        inner = resource.get("text")
        named = _placeholder("resource", resource)
        return (f"{named}\n{inner}", True) if isinstance(inner, str) else (named, False)
    if kind == "text" and isinstance(text, str):
        return text, True
    return _placeholder(str(kind).replace("_", " "), block), False


def _placeholder(kind: str, block: Mapping[str, Any]) -> str:
    """Return a description such as `[image: image/png, 1024 bytes]`."""
    return f"[{kind}: {', '.join(_facts(block))}]" if any(_facts(block)) else f"[{kind}]"


def _facts(block: Mapping[str, Any]) -> Iterator[str]:
    for key in ("name", "uri", "mimeType"):
        value = block.get(key)
        if isinstance(value, str) and value:
            yield value
    size = block.get("size")
    data = block.get("data", block.get("blob"))
    if isinstance(data, str):
        # Base64 has four characters for three bytes, less the padding.
        size = len(data) * 3 // 4 - data[-2:].count("=")
    if isinstance(size, int) and not isinstance(size, bool):
        yield f"{size} bytes"
