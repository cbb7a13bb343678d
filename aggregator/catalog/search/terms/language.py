"""Tables about words: how common each is in English, which say little, the actions they name, their translations.

Law: the tables are about the language of requests and tools, never about one catalog.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines

LONGEST_SIGNS: Final = 6
# The cost of a sign outside any word; a word costs 1.
_UNREAD: Final = 3
# Any query asks for this action, the first of the table.
LOOKING: Final = 0


@dataclass(frozen=True, slots=True)
class PlainWords:
    """Words that say little: the stems `ignored` and `weak`, in `asking` Chinese words that only ask, and in `moments`
    words for a time, such as tomorrow, which are values of arguments.
    """

    ignored: frozenset[str]
    weak: frozenset[str]
    asking: frozenset[str]
    moments: frozenset[str]


@dataclass(frozen=True, slots=True)
class Translations:
    """The Chinese words of the table, with the English `words` for each, their `stems`, and these by `places`.

    `places`: a translation of several words, such as pie chart, has a place for each word, with the stems possible
    there.
    """

    words: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]
    places: Mapping[str, "Places"]


@dataclass(frozen=True, slots=True)
class Abbreviations:
    """Abbreviations and their long forms.

    `places` of an abbreviation, as in `Translations`; the abbreviations `of` the stems of a long form; `longest`, the
    most stems of one.
    """

    places: Mapping[str, "Places"]
    of: Mapping[tuple[str, ...], tuple[str, ...]]
    longest: int


# The stems that may stand at each place of a form of several words.
Places = tuple[tuple[str, ...], ...]


@cache
def plain_words() -> PlainWords:
    """Return the words that say little, read once."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in lines("plain.txt"):
        if line.startswith("["):
            words = lists.setdefault(line.strip("[]"), [])
        else:
            words += line.split()
    return PlainWords(
        frozenset(map(stem, lists["unsaid"])),
        frozenset(map(stem, lists["little"])),
        frozenset(lists["说"]),
        frozenset(map(stem, lists["when"])),
    )


@cache
def rarity() -> Mapping[str, float]:
    """Map stems to minus the logarithm of their share of English text; a stem that is missing is rarer than 12.5."""
    found: dict[str, float] = {}
    for line in lines("frequency.txt"):
        rare, *stems = line.split()
        found.update(dict.fromkeys(stems, float(rare)))
    return found


@cache
def actions() -> Mapping[str, frozenset[int]]:
    """Map stems and Chinese words to the numbers of the actions they name."""
    found: dict[str, frozenset[int]] = {}
    for number, line in enumerate(lines("actions.txt")):
        for word in line.split():
            term = stem(word)
            found[term] = found.get(term, frozenset()) | {number}
    return found


@cache
def translations() -> Translations:
    """Return the translations of Chinese words, read once."""
    forms: dict[str, list[str]] = {}
    for line in lines("glossary.txt"):
        words = line.split()
        english = [word for word in words if word.isascii()]
        for word in words:
            if not word.isascii():
                forms.setdefault(word, []).extend(english)
    words_of = {word: tuple(dict.fromkeys("_".join(own).split("_"))) for word, own in forms.items()}
    stems = {word: tuple(dict.fromkeys(map(stem, own))) for word, own in words_of.items()}
    return Translations(words_of, stems, {word: _places(_stems(form) for form in own) for word, own in forms.items()})


@cache
def abbreviations() -> Abbreviations:
    """Return the table of abbreviations, read once."""
    forms: dict[str, list[tuple[str, ...]]] = {}
    of: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in lines("abbreviations.txt"):
        short, *long = line.split()
        key = stem(short)
        known = forms.setdefault(key, [(key,)])
        for form in map(_stems, long):
            known.append(form)
            if key not in of.get(form, ()):
                of[form] = (*of.get(form, ()), key)
    places = {short: _places(own) for short, own in forms.items()}
    return Abbreviations(places, of, max(map(len, of)))


def _stems(form: str) -> tuple[str, ...]:
    """Return the stems of a form whose words are joined by `_`, without those that say nothing."""
    unsaid = plain_words().ignored
    stems = [stem(word) for word in form.split("_")]
    return tuple(one for one in stems if one not in unsaid) or tuple(stems)


def _places(forms: Iterable[tuple[str, ...]]) -> Places:
    """Return the stems by place; the stems of a shorter form also go to the last places."""
    known = list(forms)
    count = max(map(len, known))
    return tuple(tuple(dict.fromkeys(form[min(at, len(form) - 1)] for form in known)) for at in range(count))


def words_in(run: str, *known: Container[str]) -> list[str]:
    """Return the words of a run of Chinese that one of the tables has."""
    return [word for word, read in words_and_rest(run, *known) if read]


def words_and_rest(run: str, *known: Container[str]) -> list[tuple[str, bool]]:
    """Return a run of Chinese as `segments` does; a sign that with one unread sign makes a pair is unread too."""
    found = segments(run, *known)
    alone = [len(word) == 1 for word, _ in found]
    for at in range(len(found) - 1):
        bounded = not any(alone[max(0, at - 1) : at]) and not any(alone[at + 2 : at + 3])
        if alone[at] and alone[at + 1] and bounded and not (found[at][1] and found[at + 1][1]):
            found[at : at + 2] = [(found[at][0], False), (found[at + 1][0], False)]
    return found


def segments(run: str, *known: Container[str]) -> list[tuple[str, bool]]:
    """Return a run of Chinese as its words, each with whether one of the tables has it.

    Chosen is the split with the fewest unread signs, then the fewest words.
    """
    count = len(run)
    # From the end: for each place, the cost of the rest and the end of its first word.
    costs = [0] * (count + 1)
    ends = [count] * (count + 1)
    for at in range(count - 1, -1, -1):
        least, end = _UNREAD + costs[at + 1], at + 1
        for to in range(at + 1, min(at + LONGEST_SIGNS, count) + 1):
            if costs[to] + 1 <= least:
                word = run[at:to]
                for table in known:
                    if word in table:
                        least, end = costs[to] + 1, to
                        break
        costs[at], ends[at] = least, end
    found: list[tuple[str, bool]] = []
    at = 0
    while at < count:
        end = ends[at]
        word = run[at:end]
        found.append((word, costs[at] == costs[end] + 1))
        at = end
    return found
