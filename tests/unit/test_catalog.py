"""The catalog: every spelling finds the tool, and the pages together are the list."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.catalog import pages as pages_module
from aggregator.catalog.catalog import Catalog
from aggregator.catalog.pages import PAGE_BYTES
from aggregator.catalog.validate import validate_tools
from aggregator.domain.errors import INVALID_PARAMS, HostError, UnknownTool
from aggregator.domain.names import DEFAULT_NAME_LIMIT, Style, shadowed
from aggregator.domain.records import ToolRecord

from .strategies import ANY_TEXT, server, tool

# What a client may refuse in one server-sent event.
MEBIBYTE = 2**20
STYLES: tuple[Style, ...] = ("canonical", "compatible")


def _records(harness: dict[str, Sequence[str | dict[str, Any]]]) -> list[ToolRecord]:
    ambiguous = shadowed(harness)
    records: list[ToolRecord] = []
    for prefix, tools in harness.items():
        definitions = [tool(t) if isinstance(t, str) else t for t in tools]
        found, _ = validate_tools(
            server(prefix), definitions, ambiguous=prefix in ambiguous, name_limit=DEFAULT_NAME_LIMIT
        )
        records += found
    return records


def _walk(catalog: Catalog, style: Style) -> list[list[dict[str, Any]]]:
    pages, cursor = [], None
    while True:
        page, cursor = catalog.page(style, cursor)
        pages.append(json.loads(bytes(page)))
        if cursor is None:
            return pages
        assert len(pages) <= len(catalog), "it pages for ever"


def _names(catalog: Catalog, style: Style) -> list[str]:
    return [definition["name"] for page in _walk(catalog, style) for definition in page]


SERVERS = Catalog(
    _records(
        {
            "github": ["create_issue", "search", "a.dotted.one", "with__two", "w/slash", "c:olon", "查询"],
            "a_b": ["c", "x" * 90],
            "a": ["b_c", "search"],
        }
    )
)


def _resolve(name: str) -> ToolRecord:
    """Return what answers a call of the name: the likeliest tool, or the error that names the nearest."""
    readings = list(SERVERS.candidates(name))
    if not readings:
        raise UnknownTool(name, SERVERS.nearest(name))
    return readings[0]


@pytest.mark.parametrize(
    ("meta", "only"),
    [
        ({"ui": {"visibility": ["app"]}}, True),
        ({"ui": {"visibility": ["app", "model"]}}, False),
        ({"ui": {"visibility": []}}, False),
        # Values of another form than the extension has say nothing.
        *(({"ui": {"visibility": other}}, False) for other in ("app", 7, True, {"app": 1}, None)),
        *(({"ui": other}, False) for other in ("app", ["app"], None)),
        ({}, False),
    ],
)
def test_a_tool_for_apps_says_so_in_its_meta(meta: dict[str, Any], only: bool) -> None:
    (record,) = _records({"a": [tool("x", _meta=meta)]})
    assert record.only_for_apps == only


@pytest.mark.parametrize(
    "record",
    SERVERS.tools,
    ids=lambda record: f"{record.prefix}-{record.own_name[:12].encode('unicode_escape').decode()}",
)
def test_a_call_finds_its_tool_in_every_spelling(record: ToolRecord) -> None:
    """Proves: F2, B5"""
    for name in (record.name, *record.listed.values()):
        assert _resolve(name) is record
    for separator in (".", "__", "/", ":"):
        assert _resolve(f"{record.prefix}{separator}{record.own_name}") is record


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("github.create_isue", "github.create_issue"),
        ("github__create_isue", "github.create_issue"),
        ("create_issue", "github.create_issue"),
        ("GitHub.create_issue", "github.create_issue"),
    ],
)
def test_a_miss_says_what_may_have_been_meant(name: str, nearest: str) -> None:
    """Proves: F2"""
    with pytest.raises(UnknownTool, match="Did you mean") as caught:
        _resolve(name)
    assert caught.value.code == INVALID_PARAMS
    assert nearest in caught.value.data["nearest"]
    assert repr(nearest) in caught.value.message


def test_an_own_name_of_several_servers_suggests_them_all() -> None:
    with pytest.raises(UnknownTool) as caught:
        _resolve("search")
    assert caught.value.data["nearest"] == ["github.search", "a.search"]


def test_a_miss_with_nothing_like_it() -> None:
    with pytest.raises(UnknownTool) as caught:
        _resolve("zzzzzzzzzzzz")
    assert caught.value.message == "Unknown tool: 'zzzzzzzzzzzz'."


@given(ANY_TEXT)
def test_any_text_either_finds_a_tool_or_is_unknown(name: str) -> None:
    with suppress(UnknownTool):
        assert _resolve(name) in SERVERS.tools


@pytest.mark.parametrize("style", STYLES)
def test_a_definition_as_listed_is_the_upstreams_own_but_for_the_name(style: Style) -> None:
    """Proves: C6, F2"""
    definition = tool("t", title="T", annotations={"readOnlyHint": True}, vendor={"n": 10**29, "s": None, "e": "é"})
    catalog = Catalog(_records({"s": [definition]}))
    ((listed,),) = _walk(catalog, style)
    assert listed == {**definition, "name": catalog.tools[0].listed[style]}
    assert list(listed) == list(definition), "the order of the keys changed"


@pytest.mark.parametrize("style", STYLES)
def test_an_empty_catalog_has_one_empty_page(style: Style) -> None:
    assert _walk(Catalog(), style) == [[]]


def test_three_thousand_tools_reach_clients_that_take_a_mebibyte_at_most() -> None:
    """Proves: C5"""
    definitions = [tool(f"t{n}", description="d" * 1_800) for n in range(3_000)]
    catalog = Catalog(_records({"s": definitions}))
    pages = _walk(catalog, "canonical")
    assert [d["name"] for page in pages for d in page] == [f"s.t{n}" for n in range(3_000)]
    cursor: str | None = None
    total = 0
    for _ in pages:
        page, cursor = catalog.page("canonical", cursor)
        assert len(bytes(page)) < MEBIBYTE * 3 // 4
        total += len(bytes(page))
    assert cursor is None
    assert total > 5 * MEBIBYTE


def test_pages_of_very_many_tiny_tools_stay_below_the_limit_too() -> None:
    catalog = Catalog(_records({"s": [f"t{n}" for n in range(20_000)]}))
    page, cursor = catalog.page("compatible", None)
    assert cursor is not None
    assert len(bytes(page)) < MEBIBYTE * 3 // 4


def test_a_tool_larger_than_a_page_has_one_of_its_own() -> None:
    catalog = Catalog(_records({"s": ["a", tool("huge", description="d" * (PAGE_BYTES + 1)), "b", "c"]}))
    assert [[d["name"] for d in page] for page in _walk(catalog, "canonical")] == [["s.a"], ["s.huge"], ["s.b", "s.c"]]


SIZES = st.lists(st.integers(0, 700), max_size=15)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, style=st.sampled_from(STYLES))
def test_the_pages_together_are_all_tools_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], style: Style
) -> None:
    """Proves: C5"""
    monkeypatch.setattr(pages_module, "PAGE_BYTES", 600)
    catalog = Catalog(_records({"s": [tool(f"t{n}", d="d" * size) for n, size in enumerate(sizes)]}))
    pages = _walk(catalog, style)
    assert [d["name"] for page in pages for d in page] == [record.listed[style] for record in catalog.tools]
    for page in pages:
        written = sum(len(json.dumps(d, separators=(",", ":"))) for d in page)
        assert written <= 600 or len(page) == 1
    assert all(pages) or not sizes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.integers(2, 12),
    at_page=st.integers(0, 20),
    gone=st.sets(st.integers(0, 11)),
    added=st.lists(st.integers(0, 12), max_size=4),
)
def test_a_cursor_survives_the_coming_and_going_of_other_tools(
    monkeypatch: pytest.MonkeyPatch, before: int, at_page: int, gone: set[int], added: list[int]
) -> None:
    monkeypatch.setattr(pages_module, "PAGE_BYTES", 100)
    old = Catalog(_records({"s": [f"t{n}" for n in range(before)]}))
    cursors: list[str] = []
    cursor: str | None = None
    while True:
        _, cursor = old.page("canonical", cursor)
        if cursor is None:
            break
        cursors.append(cursor)
    if not cursors:
        return
    last_seen = cursors[at_page % len(cursors)]
    own = last_seen.removeprefix("s.")
    names = [f"t{n}" for n in range(before) if n not in gone or f"t{n}" == own]
    for number, place in enumerate(added):
        names.insert(place, f"new{number}")
    new = Catalog(_records({"s": names}))
    rest: list[str] = []
    cursor = last_seen
    while cursor is not None:
        page, cursor = new.page("canonical", cursor)
        rest += [definition["name"] for definition in json.loads(bytes(page))]
    assert rest == [f"s.{name}" for name in names[names.index(own) + 1 :]]


@pytest.mark.parametrize("cursor", ["", "nonsense", "s.gone", "s__t0", "地\ud800"])
def test_a_cursor_that_is_not_ours_or_whose_tool_is_gone(cursor: str) -> None:
    catalog = Catalog(_records({"s": ["t0", "t1"]}))
    with pytest.raises(HostError, match="list again") as caught:
        catalog.page("canonical", cursor)
    assert caught.value.code == INVALID_PARAMS


def test_a_page_is_rendered_once() -> None:
    catalog = Catalog(_records({"s": ["t0", "t1"]}))
    first, _ = catalog.page("canonical", None)
    again = Catalog(catalog.tools)
    assert catalog.tools[0].rendered["canonical"] is again.tools[0].rendered["canonical"]
    assert bytes(again.page("canonical", None)[0]) == bytes(first)
    assert _names(again, "compatible") == ["s__t0", "s__t1"]
