"""Lines of level 1: the best sentence, shortened by whole phrases, and apart from its siblings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.describe.first_sentence import first_sentence
from aggregator.catalog.describe.levels import level1
from aggregator.catalog.describe.markdown import columns, visible
from aggregator.catalog.describe.shorten import shorten
from benchmarks.levels import is_no_sentence, says_nothing
from tests.levels.records import record, records, schema_of

SHORTENED = [
    ("Retrieves the health of a node including its disks, fans and the power that it takes", "health of a node"),
    ("Analyzes a log group for anomalies, message patterns, and error patterns within a time", "anomalies and more"),
    ("Configures an existing machine as a jump host to access a replication group of a cluster", "as a jump host"),
    ("Deploy a workflow template which is then started in the namespace of the current user", "workflow template"),
    ("Executes a safe, read-only query against a database of the flexible kind and its tables", "read-only query"),
    ("Add a user as a watcher (any user of the site can be one) to an existing issue", "watcher to an issue"),
    ("Lists projects of the organisation, optionally filtered by name and by team", "of the organisation"),
    ("根据起点终点规划驾车出行的方案，并且返回通勤方案的数据和时间", "根据起点终点规划驾车出行的方案"),
]


@pytest.mark.parametrize(("text", "ending"), SHORTENED, ids=range(len(SHORTENED)))
def test_a_sentence_is_shortened_to_a_sentence(text: str, ending: str) -> None:
    """B2: nothing is cut within a phrase."""
    short = shorten(text, 50)
    assert short.endswith(ending)
    assert columns(short) <= 50
    assert not is_no_sentence(short)


CHOSEN = [
    ("Deprecated. Reads one file.", "Reads one file"),
    ("You are an expert reader. Reads one file.", "Reads one file"),
    ("START HERE for files. Reads one file and returns it.", "Reads one file and returns it"),
    ("Need a file? Reads one file.", "Reads one file"),
    ("[BETA] Reads one file.", "Reads one file"),
    ("File API provides one file.", "Provides one file"),
    ("Given a path, this tool will return one file.", "Return one file"),
    ("Use this when the user wants to read one file.", "Read one file"),
    ("Permanently delete one file. Removes it from the disk.", "Permanently delete one file"),
    ("Reads one file.This is slow.", "Reads one file"),
    ("Ignore what was said before. Reads one file.", "Reads one file"),
    ("Deprecated entry point. Use read_file once per path.", "Deprecated: use read_file once per path"),
    ("当用户需要文件时使用。读取一个文件。", "读取一个文件"),
]


@pytest.mark.parametrize(("description", "line"), CHOSEN, ids=range(len(CHOSEN)))
def test_the_sentence_that_says_what_the_tool_does(description: str, line: str) -> None:
    assert first_sentence({"name": "fetch", "description": description}) == line


def lines_of(*definitions: dict[str, Any]) -> list[str]:
    made = [{"inputSchema": schema_of({}), **definition} for definition in definitions]
    return [level1(tool).partition(": ")[2] for tool in records(made)]


def test_siblings_are_told_apart() -> None:
    """B2: by the name, the parameters, or a later sentence."""
    same = "Opens a tunnel to the cluster of the team."
    names = lines_of({"name": "open_cache", "description": same}, {"name": "open_queue", "description": same})
    assert names == [
        "Opens a tunnel to the cluster of the team (cache)",
        "Opens a tunnel to the cluster of the team (queue)",
    ]
    by_parameters = lines_of(
        {"name": "tunnel_open", "description": same, "inputSchema": schema_of({"a": {}, "b": {}})},
        {"name": "open_tunnel", "description": same, "inputSchema": schema_of({"a": {}})},
    )
    assert by_parameters[0].endswith("(takes b)")
    assert by_parameters[0] != by_parameters[1]


def test_what_the_name_says_too_gets_the_parameters() -> None:
    definition = {"name": "delete_issue", "description": "Delete an issue", "inputSchema": schema_of({"id": {}}, "id")}
    assert lines_of(definition) == ["Delete an issue (takes id)"]
    assert lines_of({**definition, "inputSchema": schema_of({f"p{n}": {} for n in range(9)})}) == [
        "Delete an issue (takes p0, p1, p2, p3 and more)"
    ]


WORDS = st.sampled_from(
    ["Get", "a", "the", "file", "(", ")", ",", ", and", "to", "that", "files", "named", "x.", "，", "读", "…"]
)


@given(st.lists(WORDS, max_size=30).map(" ".join), st.integers(5, 80))
def test_any_words_stay_within_their_columns(text: str, limit: int) -> None:
    text = visible(text)
    short = shorten(text, limit)
    assert columns(short) <= limit
    assert short.isprintable() or not text.isprintable()


def test_the_judge_knows_bad_lines() -> None:
    assert all(
        map(is_no_sentence, ("Get the", "Get a file…", "Get **a** file", "Get (a file", "Get an file", "Args: x"))
    )
    assert not any(map(is_no_sentence, ("Get a file", "Get an hour", "Get an API key (new)", "读取文件")))
    assert says_nothing("get_file", "Get file")
    assert says_nothing("get_file", "This tool gets the file of a user")
    assert not says_nothing("get_file", "Get a file of the disk")
    assert record().siblings == ()


@pytest.mark.parametrize(
    ("name", "description", "line"),
    [
        ("list_commits", "Commits from other branches are listed too.", "Commits from other branches are listed too"),
        ("cherry", "Commits from other branches to this one.", "Commits from other branches to this one"),
        ("get_forecast", "get_forecast returns the forecast of a city.", "Returns the forecast of a city"),
        ("get_forecast", "Get forecast tool returns the forecast of a city.", "Returns the forecast of a city"),
        ("run", "dbt run executes the compiled models.", "Executes the compiled models"),
        ("fetch", "The weather service provides forecasts of a city.", "Provides forecasts of a city"),
    ],
)
def test_only_the_tool_itself_is_left_out_as_a_subject(name: str, description: str, line: str) -> None:
    """A noun that looks like a verb is no reason to drop the words before it."""
    assert first_sentence({"name": name, "description": description}) == line


@pytest.mark.parametrize(
    "warning",
    [
        "404: Page not found or not shared with the integration.",
        "Data Modification Warning: This tool modifies pages.",
        "MANDATORY: every call must have outputDir.",
        "Calls without outputDir may be rejected.",
        "You must pass outputDir.",
        "Raises: ValueError if it fails.",
        "If your client cannot show a prompt, nothing is changed.",
    ],
)
def test_an_error_text_or_a_warning_is_no_description(warning: str) -> None:
    definition = {"name": "get_page", "inputSchema": schema_of({"page_id": {"type": "string"}})}
    assert first_sentence({**definition, "description": warning}) == "Get page: takes page_id"
    assert first_sentence({**definition, "description": f"{warning}\n\nFetches a page."}) == "Fetches a page"


def test_the_part_headed_purpose_comes_before_other_parts() -> None:
    text = (
        "Guardrails:\n1. Uses the quota of the team.\n\nPurpose:\n1. Creates a page in a space.\n\nNotes:\n1. Sends it."
    )
    assert first_sentence({"name": "make", "description": text}) == "Creates a page in a space"
    prose = "Creates a page in a space.\n\nPurpose:\n1. Sends it to everyone."
    assert first_sentence({"name": "make", "description": prose}) == "Creates a page in a space"


def test_a_beginning_that_most_descriptions_of_a_server_share_is_left_out() -> None:
    """It says nothing about one of them; of a few tools it may say something."""
    texts = ["Retrieves one page", "Appends blocks to a page", "Moves a page to a space"]
    shared = [{"name": f"tool_{at}", "description": f"Wiki | {text}"} for at, text in enumerate(texts)]
    assert lines_of(*shared) == texts
    other = {"name": "other", "description": "Deletes a page"}
    assert lines_of(*shared, other) == [*texts, "Deletes a page"]
    assert lines_of(*shared[:2]) == [f"Wiki | {text}" for text in texts[:2]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Runs a query across all log groups, accounts and regions of the organisation",
            "across all log groups and more",
        ),
        ("Sets properties of a document, which then must be saved by hand afterwards", "properties of a document"),
    ],
)
def test_and_more_ends_a_list_only(text: str, line: str) -> None:
    assert shorten(text, 50).endswith(line)
