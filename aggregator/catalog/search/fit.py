"""How well tools fit a question as a whole: what they say of it, how much of it, what they do, how they are spelled."""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.terms.four_grams import alike
from aggregator.catalog.search.terms.language import LOOKING
from aggregator.catalog.search.weighted_query import WeightedQuery

# How much better a tool is that covers the whole question, and one whose server does.
COVERED = 0.2
SERVER_COVERED = 0.1
# How much better one is whose name says that it does what is asked; if that is only to look, by this share of it.
DOES = 0.35
LOOKS = 0.5
# How much worse one is whose name says that it does something else.
DOES_OTHER = 0.2
# What the tool that is spelled most like the question gains, as a share of the best score.
SPELLED = 0.25


@dataclass(slots=True)
class _Fit:
    """`covered`: the words of the question, by place, that the tool says."""

    score: float
    covered: frozenset[int]


def fits(question: WeightedQuery, documents: Mapping[int, Document]) -> dict[int, float]:
    """A score for each of the tools, by slot, to compare with each other only."""
    found = {slot: _said(question, document) for slot, document in documents.items()}
    _cover(question, documents, found)
    for slot, document in documents.items():
        found[slot].score *= _does(question.query.actions, document.does)
    like = {slot: alike(question.query.letters, documents[slot].letters) for slot, fit in found.items() if fit.score}
    most = max(like.values(), default=0.0)
    if most:
        best = max(fit.score for fit in found.values())
        for slot, share in like.items():
            found[slot].score += SPELLED * best * share / most
    return {slot: fit.score for slot, fit in found.items()}


def _said(question: WeightedQuery, document: Document) -> _Fit:
    said = document.said
    score = 0.0
    covered: list[int] = []
    for at, word in enumerate(question.words):
        best = max([gain * said.get(term, 0) for term, gain in word])
        if best:
            score += best
            covered.append(at)
    for term, gain in question.beside:
        if term in said:
            score += gain * said[term]
    return _Fit(score, frozenset(covered))


def _cover(question: WeightedQuery, documents: Mapping[int, Document], found: Mapping[int, _Fit]) -> None:
    """Favour those that answer to more of the question, themselves or with the rest of their server."""
    worth = [max(gain for _, gain in word) for word in question.words]
    if len(worth) < 2:
        return
    servers: dict[str, frozenset[int]] = {}
    for slot, fit in found.items():
        server = documents[slot].tool.server
        servers[server] = servers.get(server, frozenset()) | fit.covered

    def share(covered: frozenset[int]) -> float:
        return sum(worth[at] for at in sorted(covered)) / sum(worth)

    shared = {server: share(covered) for server, covered in servers.items()}
    for slot, fit in found.items():
        own = share(fit.covered)
        fit.score *= 1 + COVERED * own + SERVER_COVERED * shared[documents[slot].tool.server]


def _does(asked: Mapping[int, float], does: frozenset[int]) -> float:
    if not asked or not does:
        return 1.0
    both = [number for number in asked if number in does]
    if not both:
        return 1 - DOES_OTHER * max(asked.values())
    return 1 + DOES * max(asked[number] * (LOOKS if number == LOOKING else 1.0) for number in both)
