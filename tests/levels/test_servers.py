"""What a server is for, where its operator does not say: from its instructions, else from its tools."""

import pytest

from aggregator.catalog.describe.servers import own_purpose, tools_purpose


@pytest.mark.parametrize(
    ("instructions", "line"),
    [
        ("This server manages tickets of a team. Be kind.", "Manages tickets of a team"),
        ("Use this MCP server to search the archive of a town.", "Search the archive of a town"),
        ("# Tickets\n\nCall login first.\n\nManages tickets of a team.", "Manages tickets of a team"),
        ("查询城市的天气。请先登录。", "查询城市的天气"),
        ("Call describe_workbook first.", ""),
        ("Hello!", ""),
        ("", ""),
        ("\x1b[31m\u202e", ""),
    ],
)
def test_the_best_sentence_of_its_instructions(instructions: str, line: str) -> None:
    assert own_purpose(instructions) == line


@pytest.mark.parametrize(
    ("server", "tools", "line"),
    [
        ("hub", ["create_issue", "list_issues", "get_pull_request", "hub_get_team"], "issue, pull request, team"),
        ("fs", ["read_file", "write_file", "listDirectories"], "file, directory"),
        ("n", [f"get_thing{chr(97 + n)}" for n in range(8)], "thinga, thingb, thingc, thingd, thinge, thingf and more"),
        ("empty", [], ""),
    ],
)
def test_what_its_tools_are_about(server: str, tools: list[str], line: str) -> None:
    assert tools_purpose([{"name": name} for name in tools], server) == line


def test_of_chinese_tools_what_they_do() -> None:
    tools = [
        {"name": f"t{n}", "description": text} for n, text in enumerate(("查询天气。", "规划路线。", "搜索地点。"))
    ]
    assert tools_purpose(tools, "map") == "查询天气；规划路线；搜索地点"
