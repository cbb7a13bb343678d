"""Check relevance: count the tools found that fit, and tell whether even the best fits too little.

Law: every number here counts only the tools that the agent sees.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aggregator.catalog.search.agent_query import AgentQuery, asked
from aggregator.catalog.search.document import SCALE, Document
from aggregator.catalog.search.needs import QueryNeed, named_products, needs
from aggregator.catalog.search.query import Query, read
from aggregator.catalog.search.terms.words import chunks, terms
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery, rareness

# A tool fits if it has this share of the best score.
FITS: Final = 0.5
# What speaks for the best tool, and from which sum on it counts as fitting: see `features`. Found by regression over
# requests with a tool and without one; measured in docs/what-models-see.md.
HAS, COVERS, SAYS, DOES, LONG = 2.5, 3.8, 2.5, 1.8, 3.0
ENOUGH = 4.4
# The same with embeddings: a similarity from -1 to 1 counts this much beside the words.
LIKE, ENOUGH_WITH_LIKENESS = 10.0, 7.0
# The similarity from which a tool counts as fitting, if the words of the query say nothing.
ENOUGH_LIKENESS = 0.22
# Told with an answer that finds little: most tools are described in English.
ENGLISH: Final = "English words find most."
# How many of the best tools are examined.
EXAMINED: Final = 3
# Words of a long query: a user who describes something uses many that no tool has.
_LONG: Final = 12
# So many things that a tool has are enough, however long the query is.
_MANY: Final = 3
# A thing counts as one that a tool has if it says this much about the tool; one that says less counts in proportion.
_WELL: Final = 0.3
# Of a weak answer so many tools count as fitting at most: the best ones, in case it is one of them after all.
_AT_MOST: Final = 5
# A name of more letters may be the beginning of another word for it.
_SHORT: Final = 4
_SHOWN: Final = 4
# Tools scored; if all of these fit, there may be more.
_SCORED: Final = 64
# English, German and Chinese, with a product and a saying.
_OF_EACH_TABLE: Final = "how high is the k8s quota? Lösche die Datei bei Trello 查天气"


@dataclass(frozen=True, slots=True)
class Relevance:
    """The fit of an answer: the first `fitting` tools of it; `weak`, for a reader, or empty: why even the best hardly
    fits.
    """

    fitting: int
    weak: str = ""


@dataclass(frozen=True, slots=True)
class ToolLikeness:
    """The similarity of tools to a query, by the model that judges whether one fits.

    similarities: by canonical name, from -1 to 1.
    alone: words do not count, since the tools are described in another language than the query.
    """

    similarities: Mapping[str, float]
    alone: bool = False


class _NeedWords(NamedTuple):
    """The words for one need: those that tools have, each with a share up to 1, and its meanings.

    `says`: what the need says by its language alone; `worth`: the same by how rare it is among the tools too; `action`:
    see `QueryNeed`.
    """

    action: bool
    says: float
    worth: float
    known: Sequence[tuple[str, float]]
    meanings: Sequence[str]


class _NeedCoverage(NamedTuple):
    """The part of one need that a tool has.

    `action`, `says`, `worth`: as in `_NeedWords`; `said`: 0 to 1, how much the word says of the tool; `meant`: the same
    for a word of its meaning; `unknown`: no tool has the word.
    """

    action: bool
    says: float
    worth: float
    said: float
    meant: float
    unknown: bool


def read_tables() -> None:
    """Read the tables for queries, once; takes some 100 ms."""
    needs(_OF_EACH_TABLE, read(_OF_EACH_TABLE))
    named_products(_OF_EACH_TABLE)


def check_relevance(
    visible: VisibleTools,
    text: str,
    names: Sequence[str],
    likeness: ToolLikeness | None = None,
    scores: Mapping[str, float] | None = None,
) -> Relevance:
    """Judge the tools found for a query, given by name, best first; takes about as long as the search.

    `likeness`: of the best of them, if a model judges. `scores`: what the tools are ordered by, if not by keywords.
    """
    query = asked(visible, text)
    slots = query.slots(visible, names[:_SCORED])
    if not slots:
        return Relevance(0)
    fitting = _count_fitting(visible, query, slots, scores)
    weak = _weakness(visible, query, names, slots, likeness)
    return Relevance(min(fitting, _AT_MOST) if weak else fitting, weak)


def check_weakness(visible: VisibleTools, text: str, names: Sequence[str], likeness: ToolLikeness | None = None) -> str:
    """Tell, as `Relevance.weak` does, why the best of these tools hardly fits a query; empty if it fits."""
    query = asked(visible, text)
    slots = query.slots(visible, names[:_SCORED])
    return _weakness(visible, query, names, slots, likeness) if slots else ""


def _count_fitting(
    visible: VisibleTools, query: AgentQuery, slots: Sequence[int], scores: Mapping[str, float] | None
) -> int:
    if scores is None:
        scored = query.scores(visible, slots)
    else:
        scored = {slot: scores.get(visible.postings.names[slot], 0.0) for slot in slots}
    least = FITS * max(scored.values())
    return sum([slot in query.named or score >= least for slot, score in scored.items()])


def _weakness(
    visible: VisibleTools,
    query: AgentQuery,
    names: Sequence[str],
    slots: Sequence[int],
    likeness: ToolLikeness | None,
) -> str:
    if not query.named.keys().isdisjoint(slots):
        return ""
    best = [visible.document(slot) for slot in slots[:EXAMINED]]
    lacking = [name for name in query.products if not any(_serves(tool, name) for tool in best)]
    if lacking:
        return f"weak matches: no tool that fits has {_listed(lacking)}. {ENGLISH}"
    alike = 0.0
    if likeness is not None:
        alike = max(likeness.similarities.get(name, 0.0) for name in names[:EXAMINED])
        if likeness.alone:
            return "" if alike >= ENOUGH_LIKENESS else f"weak matches: no tool is much like this request. {ENGLISH}"
    best = [tool for tool in best if all(_serves(tool, name) for name in query.products)] or best
    needed = query.needs
    words = [_words_for(visible, query.weighted, need) for need in needed]
    had = [[_had(one, tool) for one in words] for tool in best]
    speaks = max(evidence(query.query, tool, own) for tool, own in zip(best, had, strict=True))
    enough = ENOUGH if likeness is None else ENOUGH_WITH_LIKENESS
    return "" if speaks + LIKE * alike >= enough else _why(needed, had)


def evidence(query: Query, tool: Document, had: Sequence[_NeedCoverage]) -> float:
    """Return how much speaks for a tool: the words it has, how many, how well it has the best one, and its action.

    An action counts by the name of the tool: `cancel` and `approve` in a text say little about the thing.
    """
    weights = HAS, COVERS, SAYS, DOES, LONG
    return sum(weight * one for weight, one in zip(weights, features(query, tool, had), strict=True))


def features(query: Query, tool: Document, had: Sequence[_NeedCoverage]) -> tuple[float, ...]:
    """Return what speaks for a tool, in the order of the weights, each from 0 to 1, but the action from -1."""
    things = [one for one in had if not one.action] or had
    return (
        sum([one.worth for one in had if one.said]) / (sum([one.worth for one in had]) or 1.0),
        min(sum([min(1.0, one.said / _WELL) for one in things]), _MANY) / _MANY,
        max([one.said * one.says for one in things], default=0.0),
        _agreement(query, tool),
        min(1.0, len(had) / _LONG),
    )


def _agreement(query: Query, tool: Document) -> int:
    """Return 1 if the name of a tool has an action that the query asks for, -1 if only others, else 0."""
    if not query.actions or not tool.actions:
        return 0
    return -1 if tool.actions.isdisjoint(query.actions) else 1


def _words_for(visible: VisibleTools, weighted: WeightedQuery, need: QueryNeed) -> _NeedWords:
    known = [
        pair for key, word in zip(weighted.asked, weighted.words, strict=True) if key in need.keys for pair in word
    ]
    meanings = [mark for mark in need.meanings if mark[0] != "~" and visible.frequency(mark)]
    everything = math.log(1 + (visible.count + 0.5) / 0.5)
    rare = [rareness(visible, term) for term, _ in known] or [rareness(visible, mark) for mark in meanings]
    most = max([gain for _, gain in known], default=1.0)
    worth = need.worth * max(rare, default=everything) / everything
    return _NeedWords(need.action, need.worth, worth, [(term, gain / most) for term, gain in known], meanings)


def _had(need: _NeedWords, tool: Document) -> _NeedCoverage:
    impacts = tool.impacts
    return _NeedCoverage(
        need.action,
        need.says,
        need.worth,
        max([share * impacts.get(term, 0) for term, share in need.known], default=0.0) / SCALE,
        max([impacts.get(mark, 0) for mark in need.meanings], default=0) / SCALE,
        not need.known,
    )


def _serves(tool: Document, product: str) -> bool:
    """Tell whether a tool or its server has the name of a product, or a word that begins with it: PostgreSQL."""
    return all(
        term in tool.impacts or any(other.startswith(term) for other in tool.impacts if len(term) > _SHORT)
        for chunk in chunks(product)
        for term in terms(chunk)[-1:]
    )


def _why(asked: Sequence[QueryNeed], had: Sequence[Sequence[_NeedCoverage]]) -> str:
    """Return the words that are missing, for a reader; `had`: what each of the best tools has."""
    nowhere = [need.shown for need, one in zip(asked, had[0], strict=True) if one.unknown and not one.meant]
    if nowhere:
        return f"weak matches: no tool has {_listed(nowhere)}. {ENGLISH}"
    # If each word is in one of the tools, the words that the first one lacks.
    for tools in (had, had[:1]):
        lacked = [need.shown for need, *by in zip(asked, *tools, strict=True) if not any(one.said for one in by)]
        if lacked:
            return f"weak matches: no tool that fits has {_listed(lacked)}. {ENGLISH}"
    return f"weak matches: no tool says much of these words. {ENGLISH}"


def _listed(words: Sequence[str]) -> str:
    quoted = [f'"{word[:40]}"' for word in words[:_SHOWN]]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
