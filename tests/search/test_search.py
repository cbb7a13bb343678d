"""What is found, and in which order."""

from dataclasses import replace
from typing import Any

import pytest

from aggregator.catalog.search.index import SearchIndex
from tests.search.sample_index import build_index, everything, found, tool

INDEX = build_index(
    tool("forge.create_issue", "Open a new issue in a repository."),
    tool("forge.createIssueComment", "Write a comment on an issue."),
    tool("forge.delete_branch", "Removes a branch of a repository."),
    tool("forge.get_user_by_id", "Who somebody is.", {"id": "Number of the user"}),
    tool("lens.image_resize", "Make an image smaller or larger."),
    tool("lens.takeScreenshot", "Photograph the screen."),
    tool("maps.weather", "根据城市名称查询指定城市的天气", {"city": "城市名称"}),
    tool("maps.geocode", "将地址转换为坐标", {"address": "地址"}),
    tool("clock.now", "What time it is.", {"timezone": "IANA name of the time zone"}, title="World clock"),
    tool("forum.haulingbuddies", "Rides for cattle."),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("forge.create_issue", "forge.create_issue"),
        ("forge__create_issue", "forge.create_issue"),
        ("forge/create-issue", "forge.create_issue"),
        ("create_issue", "forge.create_issue"),
        ("createIssue", "forge.create_issue"),
        ("CREATE ISSUE", "forge.create_issue"),
        ("create_issue_comment", "forge.createIssueComment"),
        ("getUserByID", "forge.get_user_by_id"),
        ("getuserbyid", "forge.get_user_by_id"),
        ("takeScr", "lens.takeScreenshot"),
        ("take screenshot", "lens.takeScreenshot"),
    ],
)
def test_names_come_first_in_any_spelling(query: str, first: str) -> None:
    assert found(INDEX, query)[0] == first


def test_a_name_beats_what_says_it_more_often() -> None:
    index = build_index(
        tool("a.report", "Nothing to see."),
        tool("b.list_reports", "Report, report, report: every report of every report."),
        tool("b.report_daily", "Report of a day."),
    )
    assert found(index, "report") == ["a.report", "b.report_daily", "b.list_reports"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("repositry isssue", "forge.create_issue"),
        ("deleet brnach", "forge.delete_branch"),
        ("screenshto", "lens.takeScreenshot"),
        ("geocod", "maps.geocode"),
        ("hauling", "forum.haulingbuddies"),
        ("buddies", "forum.haulingbuddies"),
    ],
)
def test_slips_and_parts_of_words(query: str, first: str) -> None:
    assert found(INDEX, query)[0] == first


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("erase a git branch", "forge.delete_branch"),
        ("new bug in the repo", "forge.create_issue"),
        ("scale a pic", "lens.image_resize"),
        ("天气", "maps.weather"),
        ("帮我查一下北京的天气", "maps.weather"),
        ("will it rain in Paris?", "maps.weather"),
        ("coordinates of a place", "maps.geocode"),
        ("删除分支", "forge.delete_branch"),
        ("现在几点，什么时区", "clock.now"),
    ],
)
def test_words_that_mean_the_same_and_other_languages(query: str, first: str) -> None:
    assert found(INDEX, query)[0] == first


@pytest.mark.parametrize("query", ["world clock", "IANA name", "timezone"])
def test_titles_and_parameters_are_read(query: str) -> None:
    assert found(INDEX, query)[0] == "clock.now"


def test_the_text_of_the_server_is_read() -> None:
    index = SearchIndex().with_server("a", "ornithology 观鸟", (tool("a.look", "Look."),))
    index = index.with_server("b", "geology", (tool("b.look", "Look."),))
    assert found(index, "ornithology") == ["a.look"]
    assert found(index, "观鸟") == ["a.look"]


def test_one_word_of_many_is_enough() -> None:
    assert found(INDEX, "kindly resize zyxgwq qwertzu for the brochure")[0] == "lens.image_resize"


def test_who_covers_the_question_is_favoured() -> None:
    index = build_index(
        tool("a.pump", "Pump pump pump pump."),
        tool("b.pump_manual", "Manual of a pump."),
        tool("c.manual", "Manual manual manual manual."),
    )
    assert found(index, "manual for my pump")[0] == "b.pump_manual"


def test_a_server_that_covers_the_question_is_favoured() -> None:
    index = build_index(
        tool("b.vessel", "Finds a vessel."), tool("a.vessel", "Finds a vessel."), tool("b.anchor", "Drops an anchor.")
    )
    assert found(index, "vessel with an anchor")[:2] == ["b.vessel", "a.vessel"]


@pytest.mark.parametrize("query", ["", " ", "?!", "zyxgwq", "啊"])
def test_nothing_said_nothing_found(query: str) -> None:
    assert found(INDEX, query) == []


def test_small_words_count_if_there_are_no_others() -> None:
    assert found(build_index(tool("a.who_am_i", "Who you are.")), "who am i") == ["a.who_am_i"]


def test_the_limit_only_cuts() -> None:
    index = build_index(
        *(tool(f"a.note_{at:03}", "Writes a note.") for at in range(150)), tool("a.other", "A note too.")
    )
    whole = found(index, "note", 1000)
    assert len(whole) == 151
    assert all(found(index, "note", limit) == whole[:limit] for limit in (0, 1, 63, 64, 65, 150))
    assert found(index, "note", -1) == []


def test_many_common_words_are_bounded_and_still_ranked() -> None:
    """Lists above the bound on entries count for the best only, and these are still the right ones."""
    many = [tool(f"s.item_{at}", "Get list update of record value in store.") for at in range(2500)]
    index = build_index(*many, tool("s.special", "Get list update of zebra record value in store."))
    assert found(index, "get the list and update of the zebra record value in the store", 1) == ["s.special"]


def test_odd_definitions_are_read_as_far_as_they_go() -> None:
    record = tool("a.odd")
    schema = {"properties": {"x": True, "deep": {"type": "array", "items": {"properties": {"leafword": {}}}}}}
    odd = tool("a.odd", inputSchema=schema, annotations={"title": "Peculiar"}, title=None)
    assert found(build_index(odd), "leafword") == found(build_index(odd), "peculiar") == ["a.odd"]
    values: tuple[Any, ...] = (None, 7, [], {"properties": []}, {"properties": {"a": {"enum": [1, "oneword"]}}})
    for value in values:
        broken = replace(record, definition={"name": "odd", "inputSchema": value, "description": value})
        assert found(build_index(broken), "odd") == [record.name]


def test_reprs_tell_the_size() -> None:
    assert repr(INDEX).startswith("<Index 10 tools of 5 servers, ")
    assert repr(INDEX.visible_to(frozenset({"maps.weather"}))) == "<VisibleTools 1 of 10 tools>"
    assert repr(INDEX.visible_to(everything)) == "<VisibleTools 10 of 10 tools>"
