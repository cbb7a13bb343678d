"""Search at its edges: names that look alike, long lists, tools beyond those that are scored, nested parameters."""

import pytest

from aggregator.catalog.search import rank
from aggregator.catalog.search.index import search
from aggregator.catalog.search.relevance import check_relevance
from tests.search import test_rank
from tests.search.sample_index import build_index, everything, found, tool

ALIKE = ("a.get-thing", "a.get_thing", "a.getThing")


@pytest.mark.parametrize("hidden", [*ALIKE, ""])
def test_a_tool_is_judged_by_its_own_name_among_names_that_are_spelled_alike(hidden: str) -> None:
    """A hidden one has no slot, and none stands in for it."""
    index = build_index(*(tool(name, f"Number {at}.") for at, name in enumerate(ALIKE)), tool("b.getthing", "Other."))
    visible = index.visible_to(lambda record: record.name != hidden)
    slots = {name: visible.slot(name) for name in (*ALIKE, "b.getthing", "a.getthing", "")}
    named = {name: visible.document(slot).canonical for name, slot in slots.items() if slot is not None}
    assert named == {name: name for name in (*ALIKE, "b.getthing") if name != hidden}


_NAMED = build_index(
    tool("a.get_podcast", "Plays it."), tool("a.podium", "A place."), tool("b.pod", "Lists a pod."), tool("c.get", "?")
)


@pytest.mark.parametrize(
    ("query", "degrees"),
    [
        # The beginning of a name counts if it is written like a name, or ends in no known word.
        ("get_pod", {"a.get_podcast": 1}),
        ("getPod", {"a.get_podcast": 1}),
        ("get pod", {}),
        ("get podc", {"a.get_podcast": 1}),
        ("get_podc", {"a.get_podcast": 1}),
        ("pod", {"b.pod": 3}),
        ("podi", {"a.podium": 1}),
        ("podcast", {}),
        # The name of the server and the words after it; the server alone is no name of a tool.
        ("a.get_pod", {"a.get_podcast": 2}),
        ("a get podc", {"a.get_podcast": 2}),
        ("a.", {}),
        ("a.podium", {"a.podium": 4}),
    ],
)
def test_what_counts_as_a_name(query: str, degrees: dict[str, int]) -> None:
    hits = search(_NAMED.visible_to(everything), query, 10)
    assert {hit.tool.name: hit.name_match for hit in hits if hit.name_match} == degrees


def test_a_tool_that_is_named_fits_however_little_it_scores() -> None:
    """Another tool may say the words of its name much better."""
    said = "Deploy the release now: deploy a release."
    index = build_index(
        tool("a.deploy_release_notes_of_each_product_line_in_long_words", ""),
        tool("b.ship", said, title="Deploy release"),
        tool("b.deploy", said, {"deploy": said, "release": said}),
    )
    visible = index.visible_to(everything)
    hits = search(visible, "deploy release", 10)
    scores = {hit.tool.name: hit.score for hit in hits}
    named = hits[0].tool.name
    assert named.startswith("a.deploy_release_notes")
    assert scores[named] < max(scores.values()) / 2
    judged = check_relevance(visible, "deploy release", [hit.tool.name for hit in hits])
    assert judged.fitting == sum(score >= max(scores.values()) / 2 for score in scores.values()) + 1
    assert not judged.weak


@pytest.mark.parametrize("entries", [0, 1, 49, 50, 51, 100, 149, 150, 151, 400])
@pytest.mark.parametrize("query", ["note", "note place", "place note of other", "writes a note of a place"])
def test_long_lists_of_common_words_are_left_out(query: str, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """But never the most telling one, and a short one after a long one counts."""
    monkeypatch.setattr(rank, "_ENTRIES", entries)
    monkeypatch.setattr(test_rank, "ENTRIES", entries)
    for limit in (10, 200):
        test_rank.check(test_rank.MANY, query, frozenset({"a.note_00"}), limit)


def test_a_short_list_counts_after_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number says less than the common word before it, and few tools have it."""
    said = {0: "A zebra.", 1: "Of 77.", 2: "Of 77.", **dict.fromkeys(range(3, 48), "A quokka.")}
    index = build_index(*(tool(f"a.tool_{at:03}", said.get(at, "Other.")) for at in range(200)))
    for entries, expected in ((10, {0, 1, 2}), (48, {*range(48)})):
        monkeypatch.setattr(rank, "_ENTRIES", entries)
        monkeypatch.setattr(test_rank, "ENTRIES", entries)
        assert {*found(index, "zebra quokka 77", 200)} >= {f"a.tool_{at:03}" for at in expected}
        test_rank.check(index, "zebra quokka 77", frozenset(), 200)


def test_no_tool_beyond_those_that_are_scored_has_a_better_score() -> None:
    """A word that is read as several has all of them in the first sum, and the best of them in the score."""
    words = "qwertyac qwertyad qwertyae qwertyaf"
    index = build_index(*(tool(f"a.tool_{at:03}", words) for at in range(80)), tool("b.other", "qwertyac"))
    scores = [hit.score for hit in index.search("qwertyab", everything, 200)]
    assert len(scores) == 81
    assert scores == sorted(scores, reverse=True)
    test_rank.check(index, "qwertyab", frozenset(), 200)


def _nested(levels: int, *, listed: bool) -> dict[str, object]:
    """Return a schema with a parameter `zebra` below as many others, each of them an object or a list of objects."""
    schema: dict[str, object] = {"type": "object", "properties": {"zebra": {"description": "A giraffe."}}}
    for _ in range(levels):
        inner = {"type": "array", "items": schema} if listed else schema
        schema = {"type": "object", "properties": {"rows": inner}}
    return schema


@pytest.mark.parametrize(
    ("levels", "listed", "is_read"),
    [(0, False, True), (1, False, True), (2, False, True), (3, False, False), (0, True, True), (1, True, True),
     (2, True, False)],
)  # fmt: skip
def test_parameters_inside_of_parameters_are_found(levels: int, listed: bool, is_read: bool) -> None:
    """Down to the third level, of which the items of a list are one."""
    index = build_index(tool("a.add", "Adds.", inputSchema=_nested(levels, listed=listed)), tool("b.other", "Other."))
    expected = ["a.add"] if is_read else []
    assert found(index, "zebra") == expected
    assert found(index, "giraffe") == expected


@pytest.mark.parametrize("at", [0, 19, 20])
def test_the_options_of_a_parameter_are_found(at: int) -> None:
    """The first twenty of them; what is no text is none."""
    options: list[object] = ["ox"] * 30
    options[at] = "zebra"
    options[at + 1] = ["giraffe"]
    schema = {"type": "object", "properties": {"kind": {"enum": options}}}
    index = build_index(tool("a.add", "Adds.", inputSchema=schema), tool("b.other", "Other."))
    assert found(index, "zebra") == (["a.add"] if at < 20 else [])
    assert found(index, "giraffe") == []
