"""What the short list costs a model: the figures in the documentation are those of the real definitions."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.catalog.describe.servers import whole_words
from aggregator.catalog.pages import render
from aggregator.config.server_config import ServerConfig
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.list_servers import lines_of
from aggregator.gateway.meta.registry import UNLISTED, load_meta_tools

ROOT = Path(__file__).parents[2]
# `estimate` is within this share of cl100k, in which the documentation counts.
OFF = 0.05
FIGURES = {
    "README.md": r"`aggregator\.json` the list has five meta tools and costs (\d+)",
    "docs/what-models-see.md": r"the list costs (\d+) tokens",
}


def cost_of_list() -> int:
    tools = load_meta_tools()
    listed = [tool for name, tool in tools.items() if name not in UNLISTED and name not in ("read_tool", "report_tool")]
    return sum(estimate(render(tool.record, "canonical").decode()) for tool in listed)


@pytest.mark.parametrize(("page", "pattern"), FIGURES.items())
def test_the_cost_in_the_documentation_is_the_real_one(page: str, pattern: str) -> None:
    """Proves: F5. The budget is 320 tokens with `read_result`."""
    (said,) = re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"))
    assert max(int(said), cost_of_list()) <= 320
    assert abs(cost_of_list() / int(said) - 1) < OFF


def test_read_result_costs_little() -> None:
    assert estimate(render(load_meta_tools()["read_result"].record, "canonical").decode()) <= 50


def test_what_no_list_names_is_accepted_and_checked() -> None:
    """An unlisted argument has its schema, and a listed one keeps its own beside the bounds."""
    tools = load_meta_tools()
    search = tools["search_tools"].accepted.definition["inputSchema"]["properties"]
    assert search["max_tokens"] == {"type": "integer"}
    assert search["limit"] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert "max_tokens" not in tools["search_tools"].record.definition["inputSchema"]["properties"]
    assert tools["search_tools"].accepted.version != tools["search_tools"].record.version
    assert set(tools["read_result"].accepted.definition["inputSchema"]["properties"]) == {
        *("handle", "offset", "path", "grep", "limit", "context", "case", "count", "columns", "where"),
    }
    assert tools["call_tool"].accepted is tools["call_tool"].record


def seen(name: str, description: str = "", state: str = "ready") -> Any:
    config = ServerConfig(id=name, key=name, prefix=name, type="stdio", command="none", description=description or name)
    return SimpleNamespace(
        config=config, name=name, state=state, tools=12, resources=0, prompts=0, skills=0, instructions="",
        health=SimpleNamespace(problem=str), reason="the process ended", answered_by=(), notes=(), since=0.0,
        start_fault=None,
    )  # fmt: skip


def tools_of(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def test_the_lines_of_many_servers_are_short_and_of_whole_words() -> None:
    """Proves: F5. The state is said of servers that are not ready, and every server is named."""
    servers = [seen(f"server-{at}") for at in range(92)] + [seen("lost", "Pays invoices", "starting")]
    tools = {one.config.id: tools_of("get_invoice", "list_invoices", "create_payment_order") for one in servers}
    text = lines_of(servers, tools)
    assert estimate(text) <= 1_150
    assert "…" not in text
    lines = text.splitlines()
    assert len(lines) == 94
    assert "list_servers" in lines[0]
    assert lines[1].startswith("server-0 (12): invoice")
    assert lines[-1].startswith("lost (12, starting)")
    assert lines[-1].endswith("[the process ended]")


def test_the_lines_of_few_servers_say_all() -> None:
    tools = {
        "one": tools_of("get_invoice", "list_orders", "get_order"),
        "few": tools_of("get_current_time", "convert_time"),
    }
    text = lines_of([seen("one"), seen("two", "Pays invoices"), seen("few")], tools)
    assert text.splitlines() == [
        "one (ready, 12 tools): tools for order, invoice",
        "two (ready, 12 tools): Pays invoices",
        "few (ready, 12 tools): get_current_time, convert_time",
    ]


@pytest.mark.parametrize(
    ("purpose", "limit", "short"),
    [
        ("issue, pull request, branch and more", 40, "issue, pull request, branch and more"),
        ("issue, pull request, branch and more", 20, "issue, pull request"),
        ("issue, pull request, branch and more", 6, "issue"),
        ("pull request, branch", 6, ""),
        ("查天气；查路线；查地点 等", 14, "查天气；查路线"),
        ("Reads a thing and writes it back", 0, ""),
        ("Reads a thing and writes it back to the place it came from", 20, "Reads a thing"),
    ],
)
def test_a_purpose_in_few_columns(purpose: str, limit: int, short: str) -> None:
    assert whole_words(purpose, limit) == short
