"""A tool as the index knows it: how much each term says about it, from 0 to 255; what it does; how it is spelled.

Law: a document depends on its own tool and server only, so that no tool's rank moves with what others say.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

from aggregator.catalog.search_language import actions, glossary, plain, words_in
from aggregator.catalog.search_letters import letters
from aggregator.catalog.search_meanings import widened
from aggregator.catalog.search_stem import stem
from aggregator.catalog.words import chunks, folded, split, terms, unspaced
from aggregator.domain.records import ToolRecord


@dataclass(frozen=True, slots=True)
class Field:
    """BM25F: its weight, how much its length counts, the length that counts as usual; the most terms that are read."""

    weight: float
    length_counts: float
    usual: float
    most: int


NAME: Final = Field(2.5, 0.6, 3, 40)
TITLE: Final = Field(1.2, 0.6, 4, 40)
SERVER: Final = Field(0.9, 0.5, 12, 120)
FIRST: Final = Field(1.5, 0.5, 12, 60)
DESCRIPTION: Final = Field(0.8, 0.6, 40, 120)
PARAMETERS: Final = Field(0.8, 0.6, 8, 40)
DETAILS: Final = Field(0.25, 0.6, 60, 80)
# Two words in a row count where tools say what they are.
_PAIRED: Final = (NAME, TITLE, FIRST)
_SATURATION: Final = 4.0
# A tool of one subject says more about it than a tool of many.
_MANY_SUBJECTS: Final = 0.45
# What is nearest to 1 of all impacts has this one; kept in a byte.
SCALE: Final = 255

# What a Chinese word says by each of its translations, shared out as with meanings.
_TRANSLATED: Final = 0.8
# Of the description, as far as its spelling counts.
_SPELLED: Final = 300

_LETTERS: Final = 8  # of a word, about, so that a text of pages is not read to its end
_DEEPEST: Final = 3
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s|[。！？\n]")


@dataclass(frozen=True, slots=True)
class Document:
    """`said`: term to impact, 1 to 255. `name`, `own`: the names folded, for any spelling; `words`: the own name's.
    `does`: actions by number (`search_language.actions`); `letters`: see `search_letters`."""

    tool: ToolRecord
    canonical: str
    said: Mapping[str, int]
    name: str
    own: str
    words: tuple[str, ...]
    does: frozenset[int]
    letters: int


def document(tool: ToolRecord, text_of_server: str) -> Document:
    """What `tool` says, with the text of its server (id, description, trigger keywords)."""
    definition = tool.definition
    description = _text(definition.get("description"))
    first = next((part for part in _SENTENCE.split(description) if part and len(part.strip()) > 10), "")
    rest = description.replace(first, " ", 1)
    unsaid = plain().unsaid
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
    totals: dict[str, float] = {}
    meant: dict[str, float] = {}
    shares = widened().shares
    for field, text in fields:
        text = text[: field.most * _LETTERS]
        found = [term for term in terms(text)[: field.most] if term not in unsaid]
        if not found:
            continue
        norm = field.weight / (1 - field.length_counts + field.length_counts * len(found) / field.usual)
        for term, times in Counter(found).items():
            totals[term] = totals.get(term, 0.0) + norm * times
        if not text.isascii():
            for term, times in _translated(text):
                totals[term] = totals.get(term, 0.0) + norm * times
        for word, times in Counter(_known(text, found)).items():
            for mark, share in shares[word]:
                meant[mark] = meant.get(mark, 0.0) + norm * share * times
        if field in _PAIRED:
            for pair in set(pairwise(found if text.isascii() else [term for term in found if not unspaced(term)])):
                totals[" ".join(pair)] = totals.get(" ".join(pair), 0.0) + norm
    said = {term: int(1 + SCALE * total / (_SATURATION + total)) for term, total in totals.items()}
    subjects = math.sqrt(sum(_saturated(total) ** 2 for total in meant.values())) ** _MANY_SUBJECTS
    said.update((mark, min(SCALE, int(1 + SCALE * _saturated(total) / subjects))) for mark, total in meant.items())
    name, own, words = folded(tool.name), folded(tool.own_name), split(tool.own_name)
    said[named(name)] = said[named(own)] = 1
    stems = tuple(map(stem, words))
    spelled = letters(f"{tool.prefix} {' '.join(words)} {description[:_SPELLED]}")
    return Document(tool, tool.name, said, name, own, stems, _does(stems), spelled)


def named(key: str) -> str:
    """The term under which a tool is kept by its folded name; no word is like it."""
    return f"@{key}"


def _known(text: str, found: list[str]) -> list[str]:
    """The words of the table of meanings in a text whose terms are `found`."""
    table = widened()
    words = [word for word in table.with_phrases(found) if word in table.of]
    if not text.isascii():
        words += [word for run in chunks(text) if unspaced(run) for word in table.words_in(run)]
    return words


def _translated(text: str) -> Iterator[tuple[str, float]]:
    """The stems that stand for the Chinese words of a text, and how often each does."""
    table = glossary().stems
    for word, times in Counter(word for run in chunks(text) if unspaced(run) for word in words_in(run, table)).items():
        for term in table[word]:
            yield term, _TRANSLATED * times / math.sqrt(len(table[word]))


def _does(stems: tuple[str, ...]) -> frozenset[int]:
    """What a name of several words says that the tool does."""
    table = actions()
    return frozenset(number for term in stems for number in table.get(term, ())) if len(stems) > 1 else frozenset()


def _saturated(total: float) -> float:
    return total / (_SATURATION + total)


def _title(definition: Mapping[str, Any]) -> str:
    annotations = definition.get("annotations")
    inner = annotations.get("title") if isinstance(annotations, Mapping) else None
    return _text(definition.get("title")) or _text(inner)


def _parameters(schema: Any) -> tuple[str, str]:
    """The names of the parameters, and what is said about them."""
    names: list[str] = []
    details: list[str] = []
    for name, node in islice(_properties(schema, 0), 60):
        names.append(name)
        details.append(_text(node.get("description")))
        choices = node.get("enum")
        if isinstance(choices, list):
            details += [choice for choice in choices[:20] if isinstance(choice, str)]
    return " ".join(names), " ".join(details)


def _properties(schema: Any, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(schema, Mapping) or depth == _DEEPEST:
        return
    inner = schema.get("properties")
    if isinstance(inner, Mapping):
        for name, node in inner.items():
            if isinstance(node, Mapping):
                yield name, node
                yield from _properties(node, depth + 1)
    yield from _properties(schema.get("items"), depth + 1)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
