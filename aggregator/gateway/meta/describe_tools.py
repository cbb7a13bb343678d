"""The meta tool `describe_tools`: tools by name, at a chosen level of detail."""

from typing import Any, Final

from aggregator.catalog.describe.levels import level1
from aggregator.domain.errors import CallRefused, UnknownTool, UpstreamError
from aggregator.domain.records import ItemRecord
from aggregator.gateway.meta.name_resolution import WrittenNames, several
from aggregator.gateway.meta.rendering import rendered
from aggregator.gateway.meta.tool import MetaTool, MetaToolCall, meta_record
from aggregator.skills.finder import as_tool
from aggregator.skills.meta_tools import described
from aggregator.wire.codec import Raw, encode

_MOST: Final = 50
# Characters of an unknown name that are repeated.
_LONGEST: Final = 200

_RECORD: Final = meta_record(
    "describe_tools",
    "Show the parameters of tools: 2 in brief, 3 as JSON Schema",
    {
        "names": {"type": "array", "items": {"type": "string"}},
        "level": {"enum": [1, 2, 3], "default": 3},
    },
    ("names",),
)
_UNLISTED: Final = {"names": {"maxItems": _MOST}, "offset": {"type": "integer", "minimum": 0}}


async def describe_tools(asking: MetaToolCall) -> str:
    """Return lines (level 1) or compact JSON (levels 2 and 3), in the order asked; unknown names come with
    the reason. With `offset` the rest of long descriptions, from that character on.
    """
    level = asking.arguments.get("level", 3)
    render = rendered(asking.finder, asking.view, level, asking.arguments.get("offset", 0))
    held_to = await asking.finder.tools_by_name(asking.view)
    found: list[str] = []
    missing: dict[str, str] = {}
    names = WrittenNames(asking.finder, asking.resolver, asking.view)
    shown: set[str] = set()
    skills: list[ItemRecord] = []
    for name in dict.fromkeys(await _parted(names, asking.arguments["names"])):
        skill = await asking.finder.skills.named(asking.view, name)
        if skill is not None:
            skills.append(skill)
            continue
        try:
            meant = await names.read(name)
            if len(meant.tools) > 1:
                raise several("describe_tools", name, meant.tools)
            tool = await asking.resolver.resolve(asking.view, meant.name, "canonical", to_call=False)
            if tool.only_for_apps:
                raise UnknownTool(name, [])
        except UnknownTool as error:
            missing[name[:_LONGEST]] = names.server(name) or error.message
        except (CallRefused, UpstreamError) as error:
            missing[name[:_LONGEST]] = error.message
        else:
            if tool.name not in shown:
                shown.add(tool.name)
                found.append(render(held_to.get(tool.name, tool)))
    if not skills and not missing:
        asking.keep()
    if level == 1:
        return "\n".join([*found, *(level1(as_tool(skill)) for skill in skills), *missing.values()])
    body: dict[str, Any] = {"tools": [Raw(item.encode()) for item in found]}
    if skills:
        body["skills"] = [described(skill) for skill in skills]
    if missing:
        body["missing"] = missing
    return encode(body).decode()


async def _parted(names: WrittenNames, asked: list[str]) -> list[str]:
    """Return the names between the blanks of a single one, if each is a tool's and the whole is none's."""
    parts = asked[0].split() if len(asked) == 1 else []
    if not 1 < len(parts) <= _MOST or (await names.read(asked[0])).tools:
        return asked
    for part in parts:
        if not (await names.read(part)).tools:
            return asked
    return parts


TOOL: Final = MetaTool(_RECORD, describe_tools, _UNLISTED)
