"""Score how well tools fit a query as a whole: matching terms, words covered, actions, spelling."""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.terms.four_grams import similarity
from aggregator.catalog.search.terms.language import LOOKING
from aggregator.catalog.search.weighted_query import WeightedQuery

# The gain of a tool that covers the whole query, and of one whose server does.
COVERED = 0.2
SERVER_COVERED = 0.1
# The gain of a tool whose name has the action asked for; if that is only to look, this share of the gain.
DOES = 0.35
LOOKS = 0.5
# The loss of a tool whose name has another action.
DOES_OTHER = 0.2
# The gain of the tool with the most similar spelling, as a share of the best score.
SPELLED = 0.25


@dataclass(slots=True)
class _Score:
    """The score of one tool, and the places of the query's words that the tool has."""

    score: float
    covered: frozenset[int]


def scores(weighted: WeightedQuery, documents: Mapping[int, Document]) -> dict[int, float]:
    """Return a score for each of the tools, by slot, to compare with each other only."""
    found = {slot: _matched(weighted, document) for slot, document in documents.items()}
    _reward_coverage(weighted, documents, found)
    for slot, document in documents.items():
        found[slot].score *= _action_factor(weighted.query.actions, document.actions)
    spellings = {
        slot: similarity(weighted.query.four_grams, documents[slot].four_grams)
        for slot, fit in found.items()
        if fit.score
    }
    most = max(spellings.values(), default=0.0)
    if most:
        best = max(fit.score for fit in found.values())
        for slot, share in spellings.items():
            found[slot].score += SPELLED * best * share / most
    return {slot: fit.score for slot, fit in found.items()}


def _matched(weighted: WeightedQuery, document: Document) -> _Score:
    impacts = document.impacts
    score = 0.0
    covered: list[int] = []
    for at, word in enumerate(weighted.words):
        best = max([gain * impacts.get(term, 0) for term, gain in word])
        if best:
            score += best
            covered.append(at)
    for term, gain in weighted.extra:
        if term in impacts:
            score += gain * impacts[term]
    return _Score(score, frozenset(covered))


def _reward_coverage(weighted: WeightedQuery, documents: Mapping[int, Document], found: Mapping[int, _Score]) -> None:
    """Raise the score of tools that answer more words of the query, themselves or with the rest of their server."""
    worth = [max(gain for _, gain in word) for word in weighted.words]
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


def _action_factor(wanted: Mapping[int, float], has: frozenset[int]) -> float:
    if not wanted or not has:
        return 1.0
    both = [number for number in wanted if number in has]
    if not both:
        return 1 - DOES_OTHER * max(wanted.values())
    return 1 + DOES * max(wanted[number] * (LOOKS if number == LOOKING else 1.0) for number in both)
