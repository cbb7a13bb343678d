"""Sayings: several everyday words that together mean what tools call by one."""

import pytest

from aggregator.catalog.search.explain import reasons
from aggregator.catalog.search.index import search
from aggregator.catalog.search.needs import needs
from aggregator.catalog.search.query import read
from aggregator.catalog.search.relevance import check_relevance
from aggregator.catalog.search.terms.everyday import sayings_in
from aggregator.catalog.search.terms.language import actions
from aggregator.catalog.search.terms.tables import lines
from tests.search.sample_index import build_index, everything, found, tool

TOOLS = (
    tool("maps.elevation", "Returns the altitude of a place."),
    tool("maps.search_places", "Searches for places by name."),
    tool("sky.forecast", "Tells the weather of the next days."),
    tool("track.add_watcher", "Adds a person to the watchers of an issue."),
    tool("track.get_issue", "Gets an issue, with its high and low points."),
    tool("track.delete_issue", "Deletes an issue."),
    tool("track.get_ticket_eye", "Gets the eye of the ticket that its owner keeps."),
    tool("audio.isolate", "Removes noise from a recording."),
    tool("code.get_file_blame", "Tells the author of each line."),
    tool("code.get_job_artifacts", "Downloads artifacts."),
    tool("flows.validate_workflow", "Validates nodes and connections."),
    tool("flows.search_templates", "Searches templates."),
    tool("lab.create_test_case", "Adds a case to a suite."),
    tool("net.path_trace", "Traces a path through subnets."),
    tool("page.hover", "Hovers over an element."),
)
INDEX = build_index(*TOOLS)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("how high is the Eiger", "maps.elevation"),
        ("will it rain at noon", "sky.forecast"),
        ("get rid of this issue", "track.delete_issue"),
        ("get the background noise out", "audio.isolate"),
        ("who last touched this line", "code.get_file_blame"),
        ("put the pointer over it without clicking", "page.hover"),
        ("let me have the files that the build made", "code.get_job_artifacts"),
        ("what a tester has to do", "lab.create_test_case"),
        ("why cant it reach the other side", "net.path_trace"),
    ],
)
def test_a_tool_is_found_by_a_saying(query: str, first: str) -> None:
    assert found(INDEX, query)[0] == first


def test_the_words_of_a_saying_stand_in_order_and_near_each_other() -> None:
    def said(text: str) -> list[tuple[str, ...]]:
        return [saying.words for saying, _ in sayings_in(text.split())]

    assert said("get rid") == said("get that old rid") == [("get", "rid")]
    assert said("rid get") == said("get one of these rid") == []


def test_the_verb_of_a_saying_is_no_action_of_its_own() -> None:
    table = actions()
    assert set(read("get rid of it").actions) == set(table["delet"])
    assert set(read("get it").actions) == set(table["get"])


def test_a_saying_is_one_need_and_counts_by_what_it_means() -> None:
    text = "how high is the Eiger"
    assert [need.shown for need in needs(text, read(text))] == ["how high is", "Eiger"]
    visible = INDEX.visible_to(everything)
    names = [hit.tool.name for hit in search(visible, text, 5)]
    assert not check_relevance(visible, text, names).weak
    others = INDEX.visible_to(lambda tool: tool.name != "sky.forecast")
    text = "will it rain on the track"
    assert '"will rain"' in check_relevance(others, text, [hit.tool.name for hit in search(others, text, 5)]).weak


def test_a_reason_shows_the_saying_that_was_asked() -> None:
    visible = INDEX.visible_to(everything)
    matched = reasons(visible, "how high is the Eiger", {"maps.elevation"}, {"maps": "maps"})["maps.elevation"].matched
    assert {(one.asked, one.match) for one in matched} == {("how high is", "meaning")}


def test_a_pasted_text_has_a_bounded_number_of_sayings() -> None:
    many = " ".join(f"get rid of n{number} then how high is it" for number in range(40))
    assert sum(" " in key for key in read(many).words) <= 8
    assert needs(many, read(many))


def test_the_table_is_whole() -> None:
    """A line has what tools say and sayings; a saying has at least two words, or they go into the everyday table."""
    for line in lines("sayings.txt"):
        called, colon, said = line.partition(":")
        assert colon, line
        assert called.split(), line
        assert all(len(saying.split()) > 1 for saying in said.split(",")), line
