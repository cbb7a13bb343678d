"""Explain a hit: which words of the query matched which field of the tool, and how much each adds to its score.

Law: terms, gains and fields come from the ranking itself; nothing is scored a second time here.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.catalog.search.document import Document, add_field, fields_of
from aggregator.catalog.search.fit import action_factor
from aggregator.catalog.search.query import Query, read
from aggregator.catalog.search.terms.everyday import everyday
from aggregator.catalog.search.terms.four_grams import similarity
from aggregator.catalog.search.terms.language import translations, words_in
from aggregator.catalog.search.terms.synonyms import wider_synonyms
from aggregator.catalog.search.terms.words import chunks, terms, unspaced
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery, weigh

# Words shown of one field.
_SHOWN: Final = 4

# A field in the index: its label, its words, and the terms and meanings it has.
_ReadField = tuple[str, list[tuple[str, frozenset[str]]], Container[str]]

Match = Literal["word", "like it", "abbreviation", "translation", "in a row", "meaning"]


@dataclass(frozen=True, slots=True)
class MatchedTerm:
    """A word of the query in one field of a tool.

    `asked` is of the query; `found` has the words of the field; `field` is the label of the field; `match` says how
    they relate; `points` what all fields with this term add to the score.
    """

    asked: str
    found: tuple[str, ...]
    field: str
    match: Match
    points: float


@dataclass(frozen=True, slots=True)
class HitReasons:
    """The reasons for one hit: the matched terms, those worth most first.

    `action` is the factor for the action that its name says, 1 for none; `spelling` how alike the spellings are, 0 for
    not at all.
    """

    matched: tuple[MatchedTerm, ...]
    action: float
    spelling: float


def reasons(
    visible: VisibleTools, text: str, names: Container[str], server_texts: Mapping[str, str]
) -> dict[str, HitReasons]:
    """Return the reasons for hits by canonical name; takes some milliseconds a hit, so run it in a thread.

    `server_texts` maps each server to the text indexed with its tools.
    """
    query = read(text)
    weighted = weigh(query, visible)
    spoken, words = _words_by_term(text), _FieldWords()
    found = {}
    for slot, name in enumerate(visible.postings.names):
        if visible.mask[slot] and name in names:
            document = visible.document(slot)
            found[name] = _reasons(weighted, document, spoken, server_texts.get(document.tool.server, ""), words)
    return found


def _reasons(
    weighted: WeightedQuery, document: Document, spoken: Mapping[str, str], server_text: str, known: "_FieldWords"
) -> HitReasons:
    query, fields = weighted.query, _terms_by_field(document, server_text, known)
    matched: list[MatchedTerm] = []
    for asked, term, points, match in _scored(weighted, document.impacts):
        said = _asked(query, asked, spoken)
        for label, words, has in fields:
            if term in has:
                matched.append(MatchedTerm(said, _words_with(words, term), label, match, round(points, 3)))
    matched.sort(key=lambda one: -one.points)
    # A word may have several meanings that it shares with the same words of the tool.
    matched = list({(one.asked, one.found, one.field, one.match): one for one in reversed(matched)}.values())[::-1]
    action = action_factor(query.actions, document.actions) if query.actions else 1.0
    return HitReasons(tuple(matched), round(action, 3), round(similarity(query.four_grams, document.four_grams), 3))


def _scored(weighted: WeightedQuery, impacts: Mapping[str, int]) -> Iterator[tuple[str, str, float, Match]]:
    """Yield what counts in the score, as `fit.scores` adds it up: the word of the query, the term, points, and how."""
    for asked, word in zip(weighted.asked, weighted.words, strict=True):
        best = max(((gain * impacts[term], term) for term, gain in word if term in impacts), default=None)
        if best is not None:
            points, term = best
            yield asked, term, points, _match(weighted.query, asked.lstrip("@"), term)
    for term, gain in weighted.extra:
        if term in impacts:
            yield term, term, gain * impacts[term], "in a row" if term in weighted.query.pairs else "meaning"


def _match(query: Query, asked: str, term: str) -> Match:
    """Tell how a word of the query and another term go together."""
    if term == asked:
        return "word"
    if not asked.isascii():
        return "translation"
    if " " in asked or term in everyday().get(asked, ()):
        return "meaning"
    return "abbreviation" if term in dict(query.words[asked]) else "like it"


def _terms_by_field(document: Document, server_text: str, field_words: "_FieldWords") -> list[_ReadField]:
    found: list[_ReadField] = []
    for field, text in fields_of(document.tool, server_text):
        totals: dict[str, float] = {}
        meanings: dict[str, float] = {}
        add_field(field, text, totals, meanings)
        found.append((field.label, field_words.of(text), totals.keys() | meanings.keys()))
    return found


def _asked(query: Query, asked: str, spoken: Mapping[str, str]) -> str:
    """Return the words of the query that a term or a meaning is from."""
    if asked in query.words or " " in asked:
        return " ".join(spoken.get(part, part) for part in asked.lstrip("@").split(" "))
    of = wider_synonyms().of
    said = [word for term, word in spoken.items() if asked in of.get(term, ())]
    return ", ".join(dict.fromkeys(said)) or asked


def _words_by_term(text: str) -> dict[str, str]:
    """Return the words of a text by their terms."""
    table, words = wider_synonyms(), dict[str, str]()
    for chunk in chunks(text[:2_000]):
        for term in (*terms(chunk), *table.words_in(chunk)):
            words.setdefault(term, chunk)
    for pair in table.phrases:
        if pair[0] in words and pair[1] in words:
            words.setdefault(table.phrases[pair], f"{words[pair[0]]} {words[pair[1]]}")
    return words


class _FieldWords:
    """The words of fields by their terms and meanings; each word is computed once for all hits."""

    def __init__(self) -> None:
        self._says: dict[str, frozenset[str]] = {}

    def of(self, text: str) -> list[tuple[str, frozenset[str]]]:
        """Return the words of a text, each once, in lower case, with their terms and meanings."""
        return [(chunk.lower()[:80], self._said(chunk)) for chunk in dict.fromkeys(chunks(text))]

    def _said(self, chunk: str) -> frozenset[str]:
        said = self._says.get(chunk)
        if said is None:
            table = wider_synonyms()
            own = [*terms(chunk), *table.words_in(chunk)] if unspaced(chunk) else terms(chunk)
            said = frozenset(own).union(*(table.of.get(term, ()) for term in own))
            if unspaced(chunk):
                said = said.union(*(translations().stems[word] for word in words_in(chunk, translations().stems)))
            self._says[chunk] = said
        return said


def _words_with(words: Sequence[tuple[str, frozenset[str]]], term: str) -> tuple[str, ...]:
    """Return the first words that have a term, belong to a pair, or have a meaning."""
    parts = term.split(" ")
    if len(parts) == 1:
        return tuple(dict.fromkeys(word for word, says in words if term in says))[:_SHOWN]
    return tuple(dict.fromkeys(word for word, says in words if not says.isdisjoint(parts)))[:_SHOWN]
