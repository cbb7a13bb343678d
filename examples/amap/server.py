"""The MCP server of the AMap example: lists the catalog, checks arguments by hand and answers in JSON text."""

import json
from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from examples.amap.atlas import Atlas, load_atlas
from examples.amap.catalog import CATALOG, Entry
from examples.amap.refusals import Refusal, near

_NOTICE = "演示数据：固定内容，不是高德的实时结果。"


def build_server() -> Server[Any]:
    """A server ready to run on any transport of the SDK."""
    atlas = load_atlas()
    entries = {entry.name: entry for entry in CATALOG}
    listing = ListToolsResult(tools=[entry.tool() for entry in CATALOG])

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return listing

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        entry = entries.get(params.name)
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return answer(atlas, entry, params.arguments or {})

    return Server(
        "amap-example",
        title="地图（示例）",
        version="1.0.0",
        instructions=f"{_NOTICE}工具的名称和参数与高德地图服务一致。",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def answer(atlas: Atlas, entry: Entry, arguments: dict[str, Any]) -> CallToolResult:
    """Return the tool's answer as one JSON text; a mistake in the arguments is an `isError` text with the fix."""
    try:
        _check(entry, arguments)
        given = {name: value for name, value in arguments.items() if value.strip() or name not in entry.optional}
        content = entry.answer(atlas, **given)
    except Refusal as refusal:
        return CallToolResult(content=[TextContent(type="text", text=f"{refusal}（{_NOTICE}）")], is_error=True)
    marked = {**content, "demo": True, "notice": _NOTICE, "source": atlas.source, "updated_at": atlas.updated_at}
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(marked, ensure_ascii=False, indent=2))])


def _check(entry: Entry, arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if name not in entry.parameters:
            raise Refusal(f"{entry.name} 没有参数 {name}。{near(name, entry.parameters)}")
        if not isinstance(value, str):
            raise Refusal(f'参数 {name} 要写成字符串，例如 "{value}"。')
    missing = [name for name in entry.required if not str(arguments.get(name, "")).strip()]
    if missing:
        raise Refusal("".join(f"缺少参数 {name}：{entry.parameters[name]}。" for name in missing))
