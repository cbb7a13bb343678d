"""The index document of a tool: how much each term says about it, from 0 to 255, its actions, its spelling.

Law: a document depends on its own tool and server only, so that no tool's rank moves with what others say.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

from aggregator.catalog.search.terms.four_grams import four_grams
from aggregator.catalog.search.terms.language import actions, plain_words, translations, words_in
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.synonyms import wider_synonyms
from aggregator.catalog.search.terms.words import chunks, folded, split, terms, unspaced
from aggregator.domain.records import ToolRecord


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a tool, with its parameters of BM25F.

    `label` for readers; `weight`; `length_counts`: how much its length matters; `usual`: the length that counts as
    usual; `most`: the most terms read. `paired`: two words in a row count too, since the field names the tool;
    `meanings`: the meanings of its words count too.
    """

    label: str
    weight: float
    length_counts: float
    usual: float
    most: int
    paired: bool = False
    meanings: bool = True


NAME: Final = Field("own name", 2.5, 0.6, 3, 40, paired=True)
TITLE: Final = Field("title", 1.2, 0.6, 4, 40, paired=True)
SERVER: Final = Field("server", 0.9, 0.5, 12, 120)
FIRST: Final = Field("first sentence", 1.5, 0.5, 12, 60, paired=True)
DESCRIPTION: Final = Field("description", 0.8, 0.6, 40, 80)
PARAMETERS: Final = Field("parameter", 0.8, 0.6, 8, 40)
DETAILS: Final = Field("text of a parameter", 0.25, 0.6, 60, 40, meanings=False)
_SATURATION: Final = 4.0
# A tool of one subject says more about it than a tool of many.
_MANY_SUBJECTS: Final = 0.5
# The impact that stands for 1; impacts are kept in a byte.
SCALE: Final = 255

# The weight of a translated Chinese word, shared out among its translations.
_TRANSLATED: Final = 0.8
# Characters of a description that are read, and those whose spelling counts.
_READ: Final = 1_500
_SPELLED: Final = 300

_LETTERS: Final = 8  # letters of an average word, so that a text of pages is not read to its end
_DEEPEST: Final = 3
_SENTENCES: Final = 5
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s|[。！？\n]")


@dataclass(frozen=True, slots=True)
class Document:
    """A tool as the index knows it.

    `impacts` maps terms to numbers from 1 to 255. `name` and `own` are the names folded, `words` the stems of the own
    name. `actions`: the numbers of its actions (`language.actions`); `four_grams`: see `terms.four_grams`.
    """

    tool: ToolRecord
    canonical: str
    impacts: Mapping[str, int]
    name: str
    own: str
    words: tuple[str, ...]
    actions: frozenset[int]
    four_grams: int

    @property
    def key(self) -> tuple[str, str]:
        """The key that identifies a tool and orders tools of equal rank."""
        return self.canonical, self.tool.server


def document(tool: ToolRecord, text_of_server: str) -> Document:
    """Build the document of `tool`, with the text of its server (id, description, trigger keywords)."""
    totals: dict[str, float] = {}
    meanings: dict[str, float] = {}
    for field, text in fields_of(tool, text_of_server):
        add_field(field, text, totals, meanings)
    impacts = {term: int(1 + SCALE * total / (_SATURATION + total)) for term, total in totals.items()}
    for mark, total in meanings.items():
        meanings[mark] = total / (_SATURATION + total)
    subjects = math.sqrt(sum([total * total for total in meanings.values()])) ** _MANY_SUBJECTS
    for mark, total in meanings.items():
        impact = int(1 + SCALE * total / subjects)
        impacts[mark] = impact if impact < SCALE else SCALE
    name, own, words = folded(tool.name), folded(tool.own_name), split(tool.own_name)
    impacts[name_term(name)] = impacts[name_term(own)] = 1
    stems = tuple(map(stem, words))
    description = _text(tool.definition.get("description"))
    spelled = four_grams(f"{tool.prefix} {' '.join(words)} {description[:_SPELLED]}")
    return Document(tool, tool.name, impacts, name, own, stems, _actions_of(stems), spelled)


def fields_of(tool: ToolRecord, text_of_server: str) -> tuple[tuple[Field, str], ...]:
    """Return the fields of a tool, each with as much of its text as is read."""
    definition = tool.definition
    description = _text(definition.get("description"))[:_READ]
    first = next((part for part in _SENTENCE.split(description, _SENTENCES) if part and len(part.strip()) > 10), "")
    rest = description.replace(first, " ", 1)
    names, details = _parameters(definition.get("inputSchema"))
    fields = (
        (NAME, tool.own_name),
        (TITLE, _title(definition)),
        (SERVER, f"{tool.prefix} {text_of_server}"),
        (FIRST, first),
        (DESCRIPTION, rest),
        (PARAMETERS, names),
        (DETAILS, details),
    )
    return tuple((field, text[: field.most * _LETTERS]) for field, text in fields)


def add_field(field: Field, text: str, totals: dict[str, float], meanings: dict[str, float]) -> None:
    """Add the words and meanings of one field to the totals."""
    unsaid = plain_words().ignored
    found = [term for term in terms(text)[: field.most] if term not in unsaid]
    if not found:
        return
    norm = field.weight / (1 - field.length_counts + field.length_counts * len(found) / field.usual)
    shares, phrases = (wider_synonyms().shares, wider_synonyms().phrases) if field.meanings else ({}, {})
    for term, times in Counter(found).items():
        worth = norm * times
        totals[term] = totals.get(term, 0.0) + worth
        if term in shares:
            for mark, share in shares[term]:
                meanings[mark] = meanings.get(mark, 0.0) + worth * share
    latin = found
    known: list[tuple[str, int]] = []
    if not text.isascii():
        latin = [term for term in found if not unspaced(term)]
        known = _read_signs(text, norm, totals)
    if phrases:
        known += [(phrases[pair], 1) for pair in pairwise(latin) if pair in phrases]
    if field.paired:
        for pair in set(map(" ".join, pairwise(latin))):
            totals[pair] = totals.get(pair, 0.0) + norm
    for word, times in known:
        for mark, share in shares.get(word, ()):
            meanings[mark] = meanings.get(mark, 0.0) + norm * times * share


def _read_signs(text: str, norm: float, totals: dict[str, float]) -> list[tuple[str, int]]:
    """Return the Chinese words with a meaning and their counts; their translations are added to `totals`."""
    english, table = translations().stems, wider_synonyms()
    runs = [run for run in chunks(text) if unspaced(run)]
    for word, times in Counter(word for run in runs for word in words_in(run, english)).items():
        for term in english[word]:
            totals[term] = totals.get(term, 0.0) + norm * times * _TRANSLATED / math.sqrt(len(english[word]))
    return list(Counter(word for run in runs for word in table.words_in(run)).items())


def name_term(key: str) -> str:
    """Return the term under which a tool is kept by its folded name; no word equals it."""
    return f"@{key}"


def _actions_of(stems: tuple[str, ...]) -> frozenset[int]:
    """Return the actions that a name of several words says."""
    table = actions()
    return frozenset(number for term in stems for number in table.get(term, ())) if len(stems) > 1 else frozenset()


def _title(definition: Mapping[str, Any]) -> str:
    annotations = definition.get("annotations")
    inner = annotations.get("title") if isinstance(annotations, dict) else None
    return _text(definition.get("title")) or _text(inner)


def _parameters(schema: Any) -> tuple[str, str]:
    """Return the names of the parameters, and their descriptions and options."""
    names: list[str] = []
    details: list[str] = []
    for name, node in islice(_properties(schema, 0), 60):
        names.append(name)
        details.append(_text(node.get("description"))[: DETAILS.most * _LETTERS])
        choices = node.get("enum")
        if isinstance(choices, list):
            details += [choice for choice in choices[:20] if isinstance(choice, str)]
    return " ".join(names), " ".join(details)


def _properties(schema: Any, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(schema, dict) or depth == _DEEPEST:
        return
    inner = schema.get("properties")
    if isinstance(inner, dict):
        for name, node in inner.items():
            if isinstance(node, dict):
                yield name, node
                yield from _properties(node, depth + 1)
    yield from _properties(schema.get("items"), depth + 1)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
