"""Score how well tools fit a query as a whole: matching terms, words covered, actions, spelling."""

from collections import Counter
from collections.abc import Mapping, Sequence

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.query import WeightedTerms
from aggregator.catalog.search.terms.four_grams import similarity
from aggregator.catalog.search.terms.language import LOOKING
from aggregator.catalog.search.weighted_query import WeightedQuery

# The gain of a tool that covers the whole query, and of one whose server does.
COVERED = 0.2
SERVER_COVERED = 0.1
# The gain of a tool whose name has the requested action; for an action that only looks, this share of the gain.
DOES = 0.35
LOOKS = 0.5
# The loss of a tool whose name has another action.
DOES_OTHER = 0.2
# The gain of the tool with the most similar spelling, as a share of the best score.
SPELLED = 0.25


def scores(weighted: WeightedQuery, documents: Mapping[int, Document]) -> dict[int, float]:
    """Return a score for each of the tools, by slot, to compare with each other only."""
    found: dict[int, float] = {}
    covered: dict[int, int] = {}
    words, extra = _joined(weighted.words), weighted.extra
    for slot, document in documents.items():
        found[slot], covered[slot] = _matched(words, extra, document.impacts)
    if len(weighted.words) > 1:
        _reward_coverage(words, documents, found, covered)
    wanted = weighted.query.actions
    if wanted:
        for slot, document in documents.items():
            found[slot] *= action_factor(wanted, document.actions)
    spelled = weighted.query.four_grams
    spellings = {slot: similarity(spelled, documents[slot].four_grams) for slot, score in found.items() if score}
    most = max(spellings.values(), default=0.0)
    if most:
        best = max(found.values())
        for slot, share in spellings.items():
            found[slot] += SPELLED * best * share / most
    return found


def _joined(words: Sequence[WeightedTerms]) -> Sequence[WeightedTerms]:
    """Return the words with those that are equal, such as two sayings for one thing, as one with their gains together.

    The scores stay the same, and take less time.
    """
    counts = Counter(words)
    if len(counts) == len(words):
        return words
    return [tuple([(term, gain * times) for term, gain in word]) for word, times in counts.items()]


def _matched(words: Sequence[WeightedTerms], extra: WeightedTerms, impacts: Mapping[str, int]) -> tuple[float, int]:
    """Return the score of a tool, and the words of the query that it has, as a number with a bit for each."""
    score = 0.0
    covered = 0
    bit = 1
    for word in words:
        best = 0.0
        for term, gain in word:
            if term in impacts:
                worth = gain * impacts[term]
                if worth > best:
                    best = worth
        if best:
            score += best
            covered |= bit
        bit <<= 1
    for term, gain in extra:
        if term in impacts:
            score += gain * impacts[term]
    return score, covered


def _reward_coverage(
    words: Sequence[WeightedTerms],
    documents: Mapping[int, Document],
    found: dict[int, float],
    covered: Mapping[int, int],
) -> None:
    """Raise the score of tools that answer more words of the query, themselves or with the rest of their server."""
    worth = [max([gain for _, gain in word]) for word in words]
    whole = sum(worth)
    shares: dict[int, float] = {}

    def share(bits: int) -> float:
        known = shares.get(bits)
        if known is None:
            known = shares[bits] = sum([gain for at, gain in enumerate(worth) if bits >> at & 1]) / whole
        return known

    server_of = {slot: document.tool.server for slot, document in documents.items()}
    servers: dict[str, int] = {}
    for slot, bits in covered.items():
        server = server_of[slot]
        servers[server] = servers.get(server, 0) | bits
    for slot, bits in covered.items():
        found[slot] *= 1 + COVERED * share(bits) + SERVER_COVERED * share(servers[server_of[slot]])


def action_factor(wanted: Mapping[int, float], has: frozenset[int]) -> float:
    """Return the factor for the actions asked for (`Query.actions`), of a tool whose name has these actions."""
    if not has:
        return 1.0
    both = [number for number in wanted if number in has]
    if not both:
        return 1 - DOES_OTHER * max(wanted.values())
    return 1 + DOES * max(wanted[number] * (LOOKS if number == LOOKING else 1.0) for number in both)
