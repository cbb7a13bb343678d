"""Turn the result of a tool into the content of a message to a model: text and images; other content is described.

Law: nothing here fails, and the same result always gives the same content. The result itself is kept beside it, whole.
"""

from collections.abc import Mapping
from typing import Any

from aggregator.domain.errors import ERROR_META_KEY, RpcError
from aggregator.wire.codec import encode

Content = str | list[str | dict[str, Any]]


def content_of(result: Mapping[str, Any]) -> Content:
    """Return the content blocks of a `tools/call` result; a single text block as a plain text.

    LangChain turns a whole list into one text as soon as it holds a kind of block it does not know in tool messages
    (`TOOL_MESSAGE_BLOCK_TYPES`), and models refuse most files there: so images are the only data among the blocks.
    """
    listed = result.get("content")
    blocks = [_block(block) for block in listed] if isinstance(listed, list) else []
    if not blocks and "structuredContent" in result:
        return _json(result["structuredContent"])
    if all(block["type"] == "text" for block in blocks) and len(blocks) < 2:
        return "".join(block["text"] for block in blocks)
    return list(blocks)


def as_result(error: RpcError) -> dict[str, Any]:
    """Return a protocol error as a result that a model can act on, so that the agent's loop continues."""
    return {
        "content": [{"type": "text", "text": error.message}],
        "isError": True,
        "_meta": {ERROR_META_KEY: error.to_wire()},
    }


def text_of(result: Mapping[str, Any]) -> str:
    """Return the texts of a result, for the message of an exception."""
    content = content_of(result)
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if isinstance(block, dict) and "text" in block)


def _block(block: Any) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return _text(text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return _image(data, kind)
        case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
            return _text(f"[{kind}, {_bytes(data)} bytes]")
        case {"type": "resource_link", "uri": str(uri)}:
            said = [block[key] for key in ("title", "name", "description", "mimeType") if block.get(key)]
            return _text(f"[{uri}] {'; '.join(map(str, said))}".rstrip())
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return _text(f"[{uri}]\n{text}")
        case {"type": "resource", "resource": {"blob": str(data), "mimeType": str(kind)}} if kind.startswith("image/"):
            return _image(data, kind)
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data), **rest}}:
            return _text(f"[{uri}] {rest.get('mimeType', 'data')}, {_bytes(data)} bytes")
    return _text(_json(block))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(data: str, kind: str) -> dict[str, Any]:
    return {"type": "image", "base64": data, "mime_type": kind}


def _bytes(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _json(value: Any) -> str:
    return encode(value).decode("utf-8", "replace")
