"""Truncate a result to the size that the policy allows, and note in it what is left out."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.policy.limits import ResultLimit
from aggregator.wire.codec import encode

TRUNCATED_KEY: Final = "aggregator/truncated"


def bounded(result: dict[str, Any], limit: ResultLimit | None) -> dict[str, Any]:
    """The result, or as much of its content as fits in `limit` bytes and a notice; nothing else of it comes through."""
    if limit is None:
        return result
    size = len(encode(result))
    if size <= limit.most:
        return result
    blocks = result.get("content")
    kept, space = [], limit.most
    for block in blocks if isinstance(blocks, list) else []:
        part = _fitting(block, space)
        if part is not None:
            kept.append(part)
            space -= len(encode(part))
        if part is not block:
            break
    notice = (
        f"[The aggregator cut this result: it has {size} bytes, and the policy allows {limit.most}. "
        "Ask for less, or for a part of it.]"
    )
    cut: dict[str, Any] = {
        "content": [*kept, {"type": "text", "text": notice}],
        "_meta": {TRUNCATED_KEY: {"bytes": size, "limit": limit.most}},
    }
    # Without its structured part the answer of a tool that declares an output schema is only valid as an error.
    if result.get("isError") is True or "structuredContent" in result:
        cut["isError"] = True
    return cut


def _fitting(block: Any, space: int) -> Any:
    """The block, the start of it if it is text, or None."""
    if len(encode(block)) <= space:
        return block
    if not isinstance(block, Mapping) or block.get("type") != "text" or not isinstance(block.get("text"), str):
        return None
    spare = space - len(encode({**block, "text": ""}))
    text = block["text"].encode("utf-8", "replace")[: max(spare, 0)].decode("utf-8", "ignore")
    while text and len(encode({**block, "text": text})) > space:
        text = text[: len(text) * 9 // 10]
    return {**block, "text": text} if text else None
