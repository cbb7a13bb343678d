"""Good lines from bad descriptions, in English and Chinese."""

import pytest

from aggregator.catalog.describe.first_sentence import first_sentence, summary
from aggregator.catalog.describe.levels import LABELS, level1
from aggregator.catalog.describe.truncate import truncate
from tests.levels.records import record, schema_of

SAID = [
    ("Reads one file.", "Reads one file"),
    ("This tool allows you to read one file", "Read one file"),
    ("Use this tool to read one file.", "Read one file"),
    ("Use this tool when you need to read one file.", "Read one file"),
    ("This tool is used for reading one file.", "Reading one file"),
    ("A tool that reads one file.", "Reads one file"),
    ("This is a simple tool to read one file.", "Read one file"),
    ("The file read command reads one file.", "Reads one file"),
    ("get: Reads one file.", "Reads one file"),
    ("Description: Reads one file.", "Reads one file"),
    ("# Read\n\nReads one file from disk.", "Reads one file from disk"),
    ("## Overview\nReads one file.\n\n## Usage\nCall it.", "Reads one file"),
    ("**Overview:**\n\nReads one file.", "Reads one file"),
    ("Read\n====\n\nReads one file.", "Reads one file"),
    ("```python\nget('x')\n```\nReads one file.", "Reads one file"),
    ("```\nnever closed\nReads nothing.", "Get"),
    ("<usecase>Reads one file.</usecase><example>get x y</example>", "Reads one file"),
    ("<!-- internal -->Reads one file.", "Reads one file"),
    ("- Reads one file from a disk\n- Writes another file to it", "Reads one file from a disk"),
    ("This command will:\n- read models\n- run tests", "Read models, run tests"),
    ("| a | b |\n|---|---|\n| 1 | 2 |\n\nReads one file.", "Reads one file"),
    ("Reads **one** `file` from [the disk](https://example.org/x).", "Reads one file from the disk"),
    ("![logo](x.png) Reads one file.", "Reads one file"),
    ("Calls __init__ of my_module.", "Calls __init__ of my_module"),
    ("Reads <owner>/<repo> from the hub.", "Reads owner/repo from the hub"),
    ("Reads one file, e.g. a text. Then closes it.", "Reads one file, e.g. a text"),
    ("Reads version 1.2.3 of a file. Then more.", "Reads version 1.2.3 of a file"),
    ("NOTE: needs a key. Reads one file.", "Reads one file"),
    ("IMPORTANT: Always ask first!\n\nReads one file.", "Reads one file"),
    ("(Beta. Not for all.) Reads one file.", "Reads one file"),
    ("🚨 Reads one file ✨", "Reads one file"),
    ("Reads one\nfile that was\nwrapped.", "Reads one file that was wrapped"),
    ("Reads\u200b one \u202efile\u202c\x07.\x00", "Reads one file"),
    ("Reads one file &amp; closes it.", "Reads one file & closes it"),
    ("Once the file is there, the user must call this tool to read one file.", "Read one file"),
    ("After all files are written, this tool reads one file.", "Reads one file"),
    ("Given a path, return one file. In such a case, ask the user first.", "Return one file"),
    ("**Requires a plan.** Files are only available on some plans. Reads one file.", "Reads one file"),
    ("Reads one file.\\n\\nUse this tool when it is there.", "Reads one file"),
    ("Reads C:\\new\\notes, one file.", "Reads C:\\new\\notes, one file"),
    ("The path must contain a disk, as in `a:x`.", "Get"),
    ("The path is required for this endpoint. If not given, ask.", "Get"),
    ("Args:\n  path: where to read", "Get"),
    ("", "Get"),
    ("   \n\n ", "Get"),
    ("***", "Get"),
    (None, "Get"),
    (17, "Get"),
    ("Get", "Get"),
    ("查询指定城市的天气信息。", "查询指定城市的天气信息"),
    ("该工具用于查询指定城市的天气。", "查询指定城市的天气"),
    ("这个工具可以用来查询天气情况", "查询天气情况"),
    ("使用此工具可以查询天气情况。", "查询天气情况"),
    ("一个用于查询天气情况的工具。", "查询天气情况"),
    ("功能描述：查询天气情况。\n参数：city 城市", "查询天气情况"),
    ("## 功能\n\n查询天气情况。", "查询天气情况"),
    ("注意：先登录。查询天气情况。", "查询天气情况"),
    ("- 查询\n  天气", "查询天气"),
    ("查询天\n气情况", "查询天气情况"),
]


@pytest.mark.parametrize(("description", "line"), SAID, ids=range(len(SAID)))
def test_the_first_useful_sentence(description: object, line: str) -> None:
    """B2: level 1 from what servers really say."""
    assert first_sentence({"name": "get", "description": description}) == line


@pytest.mark.parametrize(
    "label",
    [
        *("Description", "Key features", "When to use this tool", "How to use", "Use cases", "Best for"),
        *("Tool description", "What it does", "MCP tool", "功能描述", "使用场景", "注意"),
    ],
)
def test_a_label_is_no_sentence(label: str) -> None:
    """B2: it says nothing about the tool, however a server marks it."""
    assert (
        first_sentence({"name": "get", "description": f"{label}\n\nAll names of a folder"}) == "All names of a folder"
    )
    assert first_sentence({"name": "get", "description": f"## {label}"}) == "Get"


CUTS = [
    ("Creates an issue in a repository of an organisation you own", 50, "Creates an issue in a repository…"),
    ("Deletes a name; formulas that use it show an error then", 30, "Deletes a name"),
    ("Creates a thing (which may take a good while)", 30, "Creates a thing"),
    ("Set widths, heights, hidden lines, panes, filters, colours", 40, "Set widths, heights, hidden lines…"),
    ("Get detailed information about a specific customer account", 50, "Get details about a customer account"),
    ("x" * 80, 10, f"{'x' * 9}…"),
    ("查询指定城市的天气信息并返回未来七天的预报", 30, "查询指定城市的天气信息…"),
    ("查询天气信息，返回未来七天的预报和空气质量", 20, "查询天气信息…"),
    ("根据城市名称或者 adcode 查询天气", 20, "根据城市名称…"),
]


@pytest.mark.parametrize(("text", "room", "left"), CUTS, ids=range(len(CUTS)))
def test_cut_at_a_clause_or_a_word(text: str, room: int, left: str) -> None:
    """B2: budgets count Chinese characters twice."""
    assert truncate(text, room) == left


def test_without_a_description_there_are_title_name_and_parameters() -> None:
    schema = schema_of({"user_id": {}, "fields": {}})
    assert first_sentence({"name": "getUserByID", "title": "Fetch a person"}) == "Fetch a person"
    assert first_sentence({"name": "getUserByID", "annotations": {"title": "Fetch a person"}}) == "Fetch a person"
    assert first_sentence({"name": "getUserByID", "inputSchema": schema}) == "Get user by id: takes user_id, fields"
    assert (
        first_sentence({"name": "getUserByID", "inputSchema": schema}, 60, "zh")
        == "Get user by id：参数 user_id, fields"
    )


def test_a_label_as_the_seed_has_it() -> None:
    """B2: the label and its language are parameters."""
    weather = record("get", "weather", description="查询指定城市的天气信息")
    assert level1(weather, label=LABELS["zh"]) == "[工具] weather.get: 查询指定城市的天气信息"
    assert level1(weather) == "weather.get: 查询指定城市的天气信息"
    assert level1(weather, 10) == "weather.get: 查询指定…"


def test_a_name_that_no_line_should_hold_is_shown_as_listed() -> None:
    odd = record("a\nb: c ", description="Reads.")
    assert level1(odd).startswith(f"{odd.listed['canonical']}: ")
    assert record("天气").name == level1(record("天气", description="查询天气")).split(":")[0] == "srv.天气"


def test_more_room_takes_more_sentences() -> None:
    definition = {"name": "get", "description": "Reads one file. Keeps it open. Note: slow."}
    assert summary(definition, 100) == "Reads one file. Keeps it open"
    assert summary(definition, 20) == "Reads one file"
    assert summary({"name": "get", "description": "查询天气。返回七天。"}, 100) == "查询天气。返回七天"
