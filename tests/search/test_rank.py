"""The order and the scores of hits, beside a plain statement of both that looks at every tool."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.catalog.search import fit
from aggregator.catalog.search.document import Document
from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.name_match import name_matches
from aggregator.catalog.search.query import read
from aggregator.catalog.search.terms.four_grams import four_grams, similarity
from aggregator.catalog.search.terms.language import LOOKING
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery, weigh
from tests.laws import examples
from tests.search.sample_index import build_index, gate, tool

# Tools that are scored as a whole, and entries of lists that are added up (`rank.py`).
BEST, ENTRIES = 64, 6_000
Expected = list[tuple[str, float, int]]


def plainly_ranked(visible: VisibleTools, text: str, limit: int) -> Expected:
    """Rank every visible tool, one by one."""
    query = read(text)
    weighted = weigh(query, visible)
    seen = {slot: visible.document(slot) for slot, seen in enumerate(visible.mask) if seen}
    added: dict[str, float] = {}
    entries = 0
    for term, gain in weighted.terms().items():
        frequency = visible.frequency(term)
        if not entries or entries + frequency <= ENTRIES:
            added[term] = gain
            entries += frequency
    named = name_matches(visible, query)
    totals = {slot: 0.0 for slot in seen}
    for slot, document in seen.items():
        for term, gain in added.items():
            totals[slot] += gain * document.impacts.get(term, 0)

    def place(slot: int, score: float) -> tuple[int, float, tuple[str, str]]:
        return -named.get(slot, 0), -score, seen[slot].key

    found = sorted((slot for slot in seen if totals[slot] or slot in named), key=lambda slot: place(slot, totals[slot]))
    by_name = [slot for slot in found if slot in named]
    best = by_name[:BEST]
    if len(by_name) <= BEST:
        best += [slot for slot in found if slot not in named][:BEST]
    scored = plainly_scored(weighted, {slot: seen[slot] for slot in best})
    ordered = sorted(best, key=lambda slot: place(slot, scored[slot]))
    lowest = min(scored.values(), default=0.0)
    rest = {slot: min(lowest, totals[slot]) for slot in found if slot not in scored}
    all_scores = scored | rest
    return [(seen[slot].canonical, all_scores[slot], named.get(slot, 0)) for slot in (*ordered, *rest)][:limit]


def plainly_scored(weighted: WeightedQuery, documents: dict[int, Document]) -> dict[int, float]:
    scored: dict[int, float] = {}
    covered: dict[int, set[int]] = {}
    worth = [max(gain for _, gain in word) for word in weighted.words]
    for slot, document in documents.items():
        answers = [max(gain * document.impacts.get(term, 0) for term, gain in word) for word in weighted.words]
        covered[slot] = {at for at, answer in enumerate(answers) if answer}
        scored[slot] = 0.0
        for answer in answers:
            scored[slot] += answer
        for term, gain in weighted.extra:
            scored[slot] += gain * document.impacts.get(term, 0)
    for slot, document in documents.items():
        if len(worth) > 1:
            others = [other for other in documents if documents[other].tool.server == document.tool.server]
            of_server = set().union(*(covered[other] for other in others))
            own, whole = (sum([worth[at] for at in sorted(words)]) / sum(worth) for words in (covered[slot], of_server))
            scored[slot] *= 1 + fit.COVERED * own + fit.SERVER_COVERED * whole
        wanted, has = weighted.query.actions, document.actions
        does = [wanted[number] * (fit.LOOKS if number == LOOKING else 1.0) for number in wanted if number in has]
        if wanted and has:
            scored[slot] *= 1 + fit.DOES * max(does) if does else 1 - fit.DOES_OTHER * max(wanted.values())
    alike = {
        slot: similarity(weighted.query.four_grams, document.four_grams)
        for slot, document in documents.items()
        if scored[slot]
    }
    most, best = max(alike.values(), default=0.0), max(scored.values(), default=0.0)
    for slot, share in alike.items():
        scored[slot] += fit.SPELLED * best * share / most if most else 0.0
    return scored


@pytest.mark.parametrize(
    ("query", "text", "alike"),
    [("weather", "weather", True), ("weather", "whether", True), ("weather", "", False), ("", "weather", False),
     ("", "", False), ("!?", "…", False), ("天气", "查询天气", True)],
)  # fmt: skip
def test_texts_are_compared_whatever_is_in_them(query: str, text: str, alike: bool) -> None:
    """B5: also texts without a word."""
    score = similarity(four_grams(query), four_grams(text))
    assert (score > 0) == alike


def check(index: SearchIndex, query: str, hidden: frozenset[str], limit: int) -> None:
    visible = index.visible_to(lambda record: record.name not in hidden)
    hits = [(hit.tool.name, hit.score, hit.name_match) for hit in search(visible, query, limit)]
    assert hits == plainly_ranked(visible, query, limit)


SERVERS, QUESTIONS = gate()
GATE = SearchIndex.of(SERVERS)
NAMES = sorted(record.name for _, _, tools in SERVERS for record in tools)
WORDS = sorted({word for question, _ in QUESTIONS for word in question.split()} | set(NAMES))
# Equal texts under many names: more tools of one sum than are scored, and more that are asked for by name.
MANY = build_index(
    *(tool(f"{server}.note_{at:02}", "Writes a note.") for server in "ba" for at in range(50)),
    *(tool(f"c.other_{at:02}", "Writes a note." if at % 3 else "Reads a note of a place.") for at in range(50)),
)


@pytest.mark.parametrize("limit", [1, 10, 64, 200])
def test_the_questions_of_the_gate_are_ranked_as_stated(limit: int) -> None:
    for question, _ in QUESTIONS:
        check(GATE, question, frozenset(NAMES[::3]) if limit == 10 else frozenset(), limit)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.frozensets(st.sampled_from(NAMES)),
    st.integers(0, 80),
)
def test_any_words_are_ranked_as_stated(query: str, hidden: frozenset[str], limit: int) -> None:
    check(GATE, query, hidden, limit)


@pytest.mark.parametrize("query", ["note", "note_1", "a note", "writes", "place", "note of a place", "a.note_0", "zzz"])
@pytest.mark.parametrize("limit", [0, 1, 63, 64, 65, 100, 149, 1000])
def test_tools_that_fit_equally_are_ranked_by_name(query: str, limit: int) -> None:
    check(MANY, query, frozenset(), limit)
    check(MANY, query, frozenset({"a.note_00", "a.note_49", "c.other_00"}), limit)
