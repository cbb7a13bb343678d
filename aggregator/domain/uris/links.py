"""The URIs inside an upstream's messages, in their exposed form: in results, in read contents, in the UI of a tool.

Law: nothing else is changed, and an unchanged value is returned as the same object.

`elsewhere` tells whether an unwrapped URI (`https:`) would lead to another server. Then it is spelled so that it leads
back to its own server.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from aggregator.domain.uris.exposed import aliased, with_server, wrapped

# Content blocks that name a resource (S/schema, ContentBlock).
_LINK: Final = "resource_link"
_EMBEDDED: Final = "resource"
# The member of a tool or result that names its UI (ext-apps), and the older spelling.
_UI: Final = "ui"
_UI_URI: Final = "resourceUri"
_FLAT_UI_URI: Final = "ui/resourceUri"

# Tells whether a URI would lead to another server than the one whose result it stands in.
LeadsElsewhere = Callable[[str], bool]


M = TypeVar("M", bound=Mapping[str, Any])


def nowhere_else(uri: str) -> bool:
    """Return False: for a single server, no URI leads to another one."""
    return False


def in_result(prefix: str, result: dict[str, Any], elsewhere: LeadsElsewhere = nowhere_else) -> dict[str, Any]:
    """Return a `tools/call` result with its URIs as hosts see them."""
    if not prefix:
        return result
    content = result.get("content")
    if type(content) is list:
        blocks = _blocks(prefix, content, elsewhere)
        if blocks is not content:
            result = {**result, "content": blocks}
    return in_meta(prefix, result) if "_meta" in result else result


def in_prompt(prefix: str, result: dict[str, Any], elsewhere: LeadsElsewhere = nowhere_else) -> dict[str, Any]:
    """Return a `prompts/get` result with its URIs as hosts see them."""
    messages = result.get("messages")
    if not prefix or type(messages) is not list:
        return result
    made = [_message(prefix, message, elsewhere) for message in messages]
    same = all(one is other for one, other in zip(made, messages, strict=True))
    return result if same else {**result, "messages": made}


def in_contents(
    prefix: str, result: dict[str, Any], own: str, requested: str, elsewhere: LeadsElsewhere = nowhere_else
) -> dict[str, Any]:
    """Return a `resources/read` result: contents under `own` come back under the `requested` URI."""
    contents = result.get("contents")
    if type(contents) is not list:
        return result
    made = [
        {**one, "uri": requested} if type(one) is dict and one.get("uri") == own else _with_uri(prefix, one, elsewhere)
        for one in contents
    ]
    return {**result, "contents": made}


def in_meta(prefix: str, holder: M) -> M:
    """Return a definition or a result with the resource of a UI in its `_meta` as hosts see it."""
    meta = holder.get("_meta")
    if not prefix or type(meta) is not dict:
        return holder
    made = meta
    if type(ui := meta.get(_UI)) is dict and type(uri := ui.get(_UI_URI)) is str and uri:
        made = {**made, _UI: {**ui, _UI_URI: wrapped(prefix, uri)}}
    if type(uri := meta.get(_FLAT_UI_URI)) is str and uri:
        made = {**made, _FLAT_UI_URI: wrapped(prefix, uri)}
    return holder if made is meta else {**holder, "_meta": made}  # type: ignore[return-value]


def in_skill(prefix: str, entry: M) -> M:
    """Return an entry of a skill with the URIs of its files as hosts see them; its own `uri` is that already."""
    resources = entry.get("resources")
    if not prefix or type(resources) is not list:
        return entry
    made = [{**one, "uri": with_server(prefix, one["uri"])} for one in resources]
    return {**entry, "resources": made}  # type: ignore[return-value]


def _message(prefix: str, message: Any, elsewhere: LeadsElsewhere) -> Any:
    if type(message) is not dict:
        return message
    content = message.get("content")
    made = _blocks(prefix, content, elsewhere) if type(content) is list else _block(prefix, content, elsewhere)
    return message if made is content else {**message, "content": made}


def _blocks(prefix: str, blocks: list[Any], elsewhere: LeadsElsewhere) -> list[Any]:
    for block in blocks:
        # Most results contain text alone: they are scanned, not copied.
        if type(block) is dict and block.get("type") in (_LINK, _EMBEDDED):
            return [_block(prefix, one, elsewhere) for one in blocks]
    return blocks


def _block(prefix: str, block: Any, elsewhere: LeadsElsewhere) -> Any:
    if type(block) is not dict:
        return block
    kind = block.get("type")
    if kind == _LINK:
        return _with_uri(prefix, block, elsewhere)
    if kind == _EMBEDDED:
        held = block.get("resource")
        made = _with_uri(prefix, held, elsewhere)
        return block if made is held else {**block, "resource": made}
    return block


def _with_uri(prefix: str, holder: Any, elsewhere: LeadsElsewhere) -> Any:
    if type(holder) is not dict:
        return holder
    uri = holder.get("uri")
    if type(uri) is not str or not uri:
        return holder
    exposed = wrapped(prefix, uri)
    if exposed == uri and prefix and elsewhere(uri):
        exposed = aliased(prefix, uri)
    return holder if exposed == uri else {**holder, "uri": exposed}
