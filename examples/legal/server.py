"""The MCP server of the legal example: three read-only tools over the bundled data."""

from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from examples.legal.library import load_library
from examples.legal.tools import LegalTools

_INSTRUCTIONS = (
    "离线的法律知识示例服务：法条检索、示例案例检索、文书模板。"
    "每个回答都带 source 和 updated_at；案例全部虚构（sample 为 true）。"
)


def build_server() -> MCPServer[Any]:
    """A server ready to run on any transport of the SDK."""
    tools = LegalTools(load_library())
    server: MCPServer[Any] = MCPServer(
        "legal-example", title="法律知识（示例）", version="1.0.0", instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    server.add_tool(
        tools.search_statutes,
        title="法条检索",
        description=f"按关键词检索法律条文，按相关度排序，给出全文和命中片段。收录：{tools.law_choices()}（部分条文）。",
        annotations=_read_only(),
    )
    server.add_tool(
        tools.search_cases,
        title="案例检索",
        description="按关键词检索示例案例（全部虚构，只作演示），给出事实、理由、结果和引用的法条。",
        annotations=_read_only(),
    )
    server.add_tool(
        tools.get_document_template,
        title="文书模板",
        description=f"取一份文书模板的正文和待填项。可用：{tools.template_choices()}。",
        annotations=_read_only(),
    )
    return server


def _read_only() -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
