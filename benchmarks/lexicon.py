"""`python -m benchmarks.lexicon WORDNET FREQUENCIES`: writes the tables `frequency.txt`, `related.txt` of the search.

WORDNET is the folder of the database files of WordNet 3.0 (`data.noun`, `index.noun`, ...); FREQUENCIES a file of
English words with how often they were counted, such as SymSpell's `frequency_dictionary_en_82_765.txt`.

A word that `synonyms.txt` and `subjects.txt` do not know is put under a line of theirs if its first sense in WordNet, a
derived form, its topic or one step up has a word of that line, and the definitions of both share something; or if their
definitions share much. Takes some minutes.
"""

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from aggregator.catalog.search.terms.language import plain_words
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.synonyms import line_heads, synonyms

_DATA: Final = Path(str(resources.files("aggregator.catalog"))) / "data"
_PARTS: Final = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_LETTERS: Final = re.compile(r"[a-z]+")
# How rare a word may be: minus the logarithm of its share of all text, in steps; and how many further words are read.
_RAREST, _STEP, _CANDIDATES = 12.5, 0.25, 20_000
# How much a definition is made of the words of its neighbours, by WordNet's sign for how these are related.
_NEIGHBOURS: Final = {"@": 1.0, "~": 0.5, "+": 1.0, "\\": 1.0, "=": 0.7, ";c": 1.0, "&": 0.7, "*": 0.7, ">": 0.7}
_OTHERS: Final = 0.3
_UP: Final = ("@", "@i")
_BESIDE: Final = (";c", "+", "\\", "&")
# Words with such a sense are left out.
_UNFIT: Final = frozenset(["disparagement", "ethnic_slur", "obscenity", "derogation", "slang", "vulgarism"])
# Likeness of definitions that does by itself, and that is asked for where WordNet relates the words.
_MUCH, _SOME, _NEAR_BEST, _LEAST = 0.1, 0.02, 0.7, 0.002
_MARKS: Final = 3
_ALIKE: Final = 2

Vector = dict[int, float]


@dataclass(frozen=True, slots=True)
class Sense:
    """A set of words for one thing: `pointers` are pairs of sign and id."""

    words: tuple[str, ...]
    definition: str
    pointers: tuple[tuple[str, str], ...]


def main() -> None:
    """Write both tables."""
    wordnet, frequencies = map(Path, sys.argv[1:3])
    counts: Counter[str] = Counter()
    for line in frequencies.read_text(encoding="utf-8-sig").splitlines():
        word, count = line.split()
        counts[stem(word)] += int(count)
    senses, orders = _read(wordnet)
    unfit = _unfit(senses)
    _write("frequency.txt", _frequency(counts, unfit))
    _write("related.txt", _related(senses, orders, [word for word, _ in counts.most_common() if word not in unfit]))


def _write(name: str, lines: Iterable[str]) -> None:
    path = _DATA / name
    remarks = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    path.write_text("\n".join([*remarks, *lines]) + "\n", encoding="utf-8")


def _frequency(counts: Counter[str], unfit: frozenset[str]) -> Iterable[str]:
    total = counts.total()
    steps: dict[float, list[str]] = defaultdict(list)
    for word, count in counts.items():
        rare = -math.log(count / total)
        if rare <= _RAREST and word.isalpha() and word not in unfit:
            steps[round(rare / _STEP) * _STEP].append(word)
    return (f"{step:g} {' '.join(sorted(steps[step]))}" for step in sorted(steps))


def _read(folder: Path) -> tuple[dict[str, Sense], dict[str, list[str]]]:
    """The senses by id, and the ids of each single word's first senses, one per part of speech."""
    senses: dict[str, Sense] = {}
    orders: dict[str, list[str]] = defaultdict(list)
    for part, sign in _PARTS.items():
        for line in _lines(folder / f"data.{part}"):
            head, _, definition = line.partition(" | ")
            fields = head.split()
            count = int(fields[3], 16)
            words = tuple(fields[4 + 2 * at].lower().partition("(")[0] for at in range(count))
            at = 4 + 2 * count
            pointers = tuple(
                (fields[start], fields[start + 2].replace("s", "a") + fields[start + 1])
                for start in range(at + 1, at + 1 + 4 * int(fields[at]), 4)
            )
            senses[sign + fields[0]] = Sense(words, definition.strip(), pointers)
        for line in _lines(folder / f"index.{part}"):
            fields = line.split()
            if fields[0].isalpha() and len(fields[0]) > 2:
                orders[fields[0]].append(sign + fields[-int(fields[2])])
    return senses, orders


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(" ")]


def _related(senses: Mapping[str, Sense], orders: Mapping[str, list[str]], stems: list[str]) -> Iterable[str]:
    phrases = synonyms().phrases
    known = {term: tuple(mark for mark in marks if mark[0] in "=~") for term, marks in synonyms().of.items()}
    known = {term: marks for term, marks in known.items() if marks}
    unsaid = plain_words().ignored | plain_words().weak
    forms: dict[str, list[str]] = defaultdict(list)
    for word in orders:
        forms[stem(word)].append(word)
    similarities = _likeness(senses, known)
    found: dict[str, list[str]] = defaultdict(list)
    candidates = [term for term in stems if term not in known and term not in unsaid and len(term) > 2]
    for term in [term for term in candidates if term in forms or term in similarities][:_CANDIDATES]:
        like = similarities.get(term, {})
        scores = {
            mark: score
            for mark, score in like.items()
            if score >= max(_MUCH, _NEAR_BEST * max(like.values(), default=0.0))
        }
        firsts = [first for word in forms.get(term, ()) for first in orders[word]]
        beside = dict.fromkeys(mark for first in firsts for mark in _beside(first, senses, known, phrases))
        scores |= {mark: 1 + like[mark] for mark in list(beside)[:_MARKS] if like.get(mark, 0.0) >= _SOME}
        for mark in sorted(scores, key=lambda mark: (-scores[mark], mark))[:_MARKS]:
            found[mark].append(term)
    return (f"{head}: {' '.join(sorted(found[mark]))}" for head, mark in line_heads() if mark in found)


def _unfit(senses: Mapping[str, Sense]) -> frozenset[str]:
    return frozenset(
        stem(word)
        for sense in senses.values()
        if any(sign == ";u" and _UNFIT & set(senses[other].words) for sign, other in sense.pointers if other in senses)
        for word in sense.words
    )


def _beside(
    first: str,
    senses: Mapping[str, Sense],
    known: Mapping[str, tuple[str, ...]],
    phrases: Mapping[tuple[str, str], str],
) -> list[str]:
    """The marks of a sense's own words, of its topic, its derived forms, and of the nearest kind that has any."""

    def marks(near: Iterable[str]) -> list[str]:
        found: list[str] = []
        for word in [word for sense in near for word in senses[sense].words]:
            parts = [stem(part) for part in word.split("_")]
            term = phrases.get((parts[0], parts[1]), "") if len(parts) == 2 else parts[0] if len(parts) == 1 else ""
            found += known.get(term, ())
        return found

    def there(near: Iterable[str], signs: Iterable[str]) -> list[str]:
        return [other for sense in near for sign, other in senses[sense].pointers if sign in signs and other in senses]

    kinds = there([first], _UP)
    return marks([*there([first], _BESIDE), first]) + (marks(kinds) or marks(there(kinds, _UP)))


def _likeness(senses: Mapping[str, Sense], known: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, float]]:
    """Return the similarity of the definitions of a word and of the words of a line: by stem and mark, the mean
    of the best two of the line's words."""
    rows, columns = _vectors(senses)
    best: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for term, marks in known.items():
        shared: dict[str, float] = defaultdict(float)
        for column, share in rows.get(term, {}).items():
            for other, own in columns[column].items():
                shared[other] += share * own
        for other, like in shared.items():
            if other not in known and like > _LEAST:
                for mark in marks:
                    best[other][mark] = sorted([*best[other][mark], like], reverse=True)[:_ALIKE]
    return {term: {mark: sum(likes) / _ALIKE for mark, likes in marks.items()} for term, marks in best.items()}


def _vectors(senses: Mapping[str, Sense]) -> tuple[dict[str, Vector], list[dict[str, float]]]:
    """Each stem by the senses whose definitions have it, of length 1; and the same by sense."""
    texts = [_text(sense, senses) for sense in senses.values()]
    spread = Counter(term for text in texts for term in text)
    rows: dict[str, Vector] = defaultdict(dict)
    for column, text in enumerate(texts):
        said = {
            term: math.log1p(count) * math.log(len(texts) / spread[term])
            for term, count in text.items()
            if spread[term] > 2
        }
        length = math.sqrt(sum(worth**2 for worth in said.values())) or 1.0
        for term, worth in said.items():
            rows[term][column] = worth / length
    columns: list[dict[str, float]] = [{} for _ in texts]
    for term, row in rows.items():
        length = math.sqrt(sum(worth**2 for worth in row.values()))
        for column, worth in row.items():
            row[column] = columns[column][term] = worth / length
    return rows, columns


def _text(sense: Sense, senses: Mapping[str, Sense]) -> dict[str, float]:
    """Return how often each stem is in a sense's words, its definition and its neighbours."""
    text: dict[str, float] = defaultdict(float)

    def read(words: str, times: float) -> None:
        for word in _LETTERS.findall(words.lower()):
            if len(word) > 1:
                text[stem(word)] += times

    read(" ".join(sense.words), 2.0)
    read(sense.definition, 1.0)
    for sign, other in sense.pointers:
        if other in senses:
            read(" ".join(senses[other].words[:4]), _NEIGHBOURS.get(sign, _OTHERS))
            if sign in ("@", "+"):
                read(senses[other].definition, _OTHERS)
    return text


if __name__ == "__main__":
    main()
