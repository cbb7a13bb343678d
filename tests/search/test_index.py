"""The index as a value: who may see what, and servers that come and go in any order."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.search.index import Hit, SearchIndex, search
from aggregator.catalog.search.visible import Allowed
from aggregator.domain.records import ToolRecord
from tests.search.sample_index import build_index, everything, found, names, tool

_WORDS = (
    "create",
    "issue",
    "list",
    "repository",
    "image",
    "delete",
    "branch",
    "weather",
    "天气",
    "查询",
    "pump",
    "air",
)
_TEXTS = st.lists(st.sampled_from(_WORDS), max_size=5).map(" ".join)
_NAMES = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=2).map("_".join)
_INDEXES = st.dictionaries(st.sampled_from("abcd"), st.dictionaries(_NAMES, _TEXTS, max_size=5), max_size=4)
_QUERIES = st.one_of(_TEXTS, _NAMES, st.sampled_from(["isue", "repositry", "creat", "pictures", "wether", "删除"]))


def _records(server: str, tools: dict[str, str]) -> tuple[ToolRecord, ...]:
    return tuple(tool(f"{server}.{name}", text) for name, text in tools.items())


def _built(shelves: dict[str, dict[str, str]]) -> SearchIndex:
    return SearchIndex.of((server, server, _records(server, tools)) for server, tools in shelves.items())


def _answer(index: SearchIndex, query: str, allowed: Allowed = everything) -> list[tuple[str, float]]:
    return [(hit.tool.name, hit.score) for hit in index.search(query, allowed, 50)]


@given(_INDEXES, _QUERIES, st.sets(st.integers(0, 19)))
def test_only_what_is_allowed_is_found_and_the_rest_changes_nothing(
    shelves: dict[str, dict[str, str]], query: str, hidden: set[int]
) -> None:
    """The answer is that of an index which holds the allowed tools only, scores included."""
    every = sorted(f"{server}.{name}" for server, tools in shelves.items() for name in tools)
    allowed = frozenset(name for at, name in enumerate(every) if at not in hidden)
    hits = _built(shelves).search(query, allowed, 50)
    assert all(hit.tool.name in allowed for hit in hits)
    seen = {
        server: {name: text for name, text in tools.items() if f"{server}.{name}" in allowed}
        for server, tools in shelves.items()
    }
    assert [(hit.tool.name, hit.score) for hit in hits] == _answer(_built(seen), query)


@given(_INDEXES, _QUERIES, st.randoms(use_true_random=False))
def test_incremental_is_the_same_as_rebuilt(shelves: dict[str, dict[str, str]], query: str, dice: Random) -> None:
    """Servers that come, change, go and come back in any order leave no trace."""
    index = SearchIndex()
    steps = [*shelves, *shelves, "x", *shelves]
    dice.shuffle(steps)
    for server in steps:
        text = {"left": "create issue 天气", **shelves.get(server, {})}
        index = index.with_server(server, server, _records(server, text))
        if server == "x":
            index = index.without([server]).without([server])
    for server, tools in shelves.items():
        index = index.with_server(server, server, _records(server, tools))
    rebuilt = _built(shelves)
    allowed = frozenset(f"{server}.{name}" for server, tools in shelves.items() for name in tools)
    for seen in (everything, allowed):
        assert _answer(index, query, seen) == _answer(rebuilt, query, seen)
    # The slots of tools that went count for no one, though tools of these names came back.
    assert index.visible_to(allowed).count == rebuilt.visible_to(allowed).count == len(allowed)
    assert len(index) == len(rebuilt)
    assert _parts_of(repr(index)) == _parts_of(repr(rebuilt))
    assert _ends_of(index) == _ends_of(rebuilt), "nothing of them is left for other spellings either"


def _ends_of(index: SearchIndex) -> dict[str, set[str]]:
    return {key: {*terms} for key, terms in index._postings.ends.items()}


def _parts_of(text: str) -> str:
    return text.partition("servers, ")[2]


def test_a_snapshot_stays_as_it_was() -> None:
    before = build_index(tool("a.report", "Writes a report."))
    after = before.with_server("b", "b", (tool("b.report", "Reads a report."),)).without(["a"])
    assert found(before, "report") == ["a.report"]
    assert found(after, "report") == ["b.report"]
    assert after.without(["zzz"]) is after


def test_slots_of_servers_that_left_are_taken_back() -> None:
    index = build_index(tool("a.report", "Writes a report."), tool("c.note", "Writes a note."))
    for turn in range(100):
        index = index.with_server("b", "b", tuple(tool(f"b.report_{turn}_{at}", "A report.") for at in range(9)))
    assert len(index) == 11
    assert len(index.visible_to(everything).mask) < 600
    assert set(found(index, "report")) == {"a.report", *(f"b.report_99_{at}" for at in range(9))}
    assert found(index, "note")[0] == "c.note"


def test_names_verdicts_and_sights_agree() -> None:
    index = build_index(tool("a.report", "Writes."), tool("a.report_daily", "Writes."), tool("b.report", "Reads."))
    allowed = frozenset({"a.report_daily", "b.report"})
    expected = ["b.report", "a.report_daily"]

    def verdict(record: ToolRecord) -> bool:
        return record.name in allowed

    def same(hits: list[Hit]) -> bool:
        return names(hits) == expected

    assert same(index.search("report", allowed, 5))
    assert same(index.search("report", verdict, 5))
    sight = index.visible_to(allowed)
    assert same(search(sight, "report", 5))
    assert same(search(sight, "report", 5))
    assert search(sight, "report", 5) == search(sight, "report", 5)
    assert index.search("report", frozenset(), 5) == []


def test_a_name_nobody_may_see_is_no_hint_for_slips() -> None:
    index = build_index(tool("a.zepqelin", "Secret."), tool("b.zepqelim", "Known."))
    assert set(found(index, "zepqelix")) == {"a.zepqelin", "b.zepqelim"}
    assert names(index.search("zepqelin", frozenset({"b.zepqelim"}), 5)) == ["b.zepqelim"]


@given(_INDEXES, _QUERIES, st.integers(1, 4))
def test_an_index_that_grew_part_by_part_answers_as_one_that_was_made_at_once(
    shelves: dict[str, dict[str, str]], query: str, size: int
) -> None:
    """However many parts there were; each of them can be searched."""
    grown = SearchIndex()
    for server, tools in shelves.items():
        records = _records(server, tools)
        for start in range(0, len(records), size):
            grown = grown.with_more({server: (server, records[start : start + size])}, lambda: None)
            assert len(grown.search(query, everything, 50)) <= len(grown)
    assert _answer(grown, query) == _answer(_built(shelves), query)
    for server in shelves:
        grown = grown.without([server])
    assert len(grown) == 0


@given(_INDEXES, _QUERIES, st.sets(st.integers(0, 5)))
def test_servers_that_come_or_go_together_do_so_as_one_after_the_other(
    shelves: dict[str, dict[str, str]], query: str, places: set[int]
) -> None:
    together = SearchIndex().with_more({one: (one, _records(one, tools)) for one, tools in shelves.items()}, _go_on)
    assert _answer(together, query) == _answer(_built(shelves), query)
    gone = [server for at, server in enumerate(shelves) if at in places]
    left = {server: tools for server, tools in shelves.items() if server not in gone}
    assert _answer(together.without(gone), query) == _answer(_built(left), query)
    assert len(together.without(gone)) == len(_built(left))


def _go_on() -> None:
    """Pause for nothing."""
