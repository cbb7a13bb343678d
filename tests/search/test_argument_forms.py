"""Arguments that show by their form what they are: the key of an issue, an address, a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.search.explain import reasons
from aggregator.catalog.search.needs import needs
from aggregator.catalog.search.query import read
from aggregator.catalog.search.terms.forms import formed_arguments
from tests.search.sample_index import build_index, everything, found, tool

TOOLS = (
    tool("track.remove_watcher", "Stops notifications of an issue."),
    tool("track.stop_sprint", "Stops a sprint."),
    tool("web.map", "Lists each URL of a website."),
    tool("web.list_addresses", "Lists postal addresses."),
    tool("net.find_ip", "Finds the owner of an IP address."),
    tool("net.find_owner", "Finds the owner of a device."),
    tool("sheet.open", "Opens an Excel workbook."),
    tool("door.open", "Opens a door."),
)
INDEX = build_index(*TOOLS)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("stop telling me about PROJ-88", "track.remove_watcher"),
        ("all there is on acme.com", "web.map"),
        ("who sits behind 10.2.3.4", "net.find_ip"),
        ("open budget.xlsx", "sheet.open"),
        ("打开预算.xlsx", "sheet.open"),
    ],
)
def test_a_tool_is_found_by_the_form_of_an_argument(query: str, first: str) -> None:
    assert found(INDEX, query)[0] == first


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("move PAY-31 and OPS2-7", ["PAY-31 (issue)", "OPS2-7 (issue)"]),
        ("把PROJ-88转给小王", ["PROJ-88 (issue)"]),
        ("UTF-8, SHA-256, ISO-8601, proj-88, A-1, PROJ-88-x, pre-PROJ-88", []),
        (
            "A1:B2 PAY-31 OPS2-7 10.2.3.4 a.docx",
            ["10.2.3.4 (IP address)", "A1:B2 (cells)", "PAY-31 (issue)", "OPS2-7 (issue)"],
        ),
        ("read https://acme.com/a?b=1 please", ["https://acme.com/a?b=1 (page)"]),
        ("bob@acme.com, acme.toolbox, 3.11.7", []),
        ("10.0.0.0/16 or 10.2.3.4", ["10.0.0.0/16 (network)", "10.2.3.4 (IP address)"]),
        ("near 31.2304, 121.4737", ["31.2304, 121.4737 (coordinates)"]),
        ("sum A1:B20", ["A1:B20 (cells)"]),
        ("revert 3f2a9bc, not deadbeef nor 1234567", ["3f2a9bc (commit)"]),
        ("is CVE-2024-12345 mended", ["CVE-2024-12345 (vulnerability)"]),
        ("a.docx b.png c.mp3 d.apk", ["a.docx (Word file)", "b.png (picture)", "c.mp3 (recording)", "d.apk (app)"]),
        ("main.py for Node.js and next.js", ["main.py (file)"]),
    ],
)
def test_forms(text: str, kinds: list[str]) -> None:
    assert [argument.key for argument in formed_arguments(text)] == kinds


def test_an_argument_is_one_need_that_says_little() -> None:
    text = "mute PROJ-88"
    of_issue = {need.shown: need for need in needs(text, read(text))}
    assert [*of_issue] == ["PROJ-88", "mute"]
    assert of_issue["PROJ-88"].worth < of_issue["mute"].worth


def test_a_hit_is_explained_by_the_argument() -> None:
    said = reasons(INDEX.visible_to(everything), "stop telling me about PROJ-88", {"track.remove_watcher"}, {})
    assert "PROJ-88 (issue)" in [term.asked for term in said["track.remove_watcher"].matched]


@given(st.text(alphabet="aA1.-/:@ ,#fx\u6253", max_size=300) | st.text(max_size=100))
def test_any_text_has_a_few_arguments_that_do_not_overlap(text: str) -> None:
    arguments = [argument.text for argument in formed_arguments(text)]
    assert len(arguments) <= 4
    assert sum(map(len, arguments)) <= len(text)
    assert all(argument in text for argument in arguments)
