"""English words to their stems: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980."""

from functools import lru_cache
from typing import Final

_STEP_2: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3: Final = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEP_4: Final = dict.fromkeys(
    ["al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ou", "ism", "ate", "iti", "ous",
     "ive", "ize", "sion", "tion"], "",
)  # fmt: skip
# Irregular forms that tools and requests use, which the rules would separate or miss.
_IRREGULAR: Final = {
    "bought": "buy", "built": "build", "children": "child", "drawn": "draw", "drew": "draw", "feet": "foot",
    "forgot": "forget", "forgotten": "forget", "found": "find", "gave": "give", "given": "give", "held": "hold",
    "kept": "keep", "made": "make", "men": "man", "mice": "mouse", "paid": "pay", "people": "person", "ran": "run",
    "sent": "send", "shown": "show", "slept": "sleep", "sold": "sell", "spent": "spend", "taken": "take",
    "taught": "teach", "told": "tell", "took": "take", "women": "woman", "written": "write", "wrote": "write",
    "analysis": "analyz", "analyses": "analyz", "analyse": "analyz", "analytics": "analyz", "indices": "index",
    "news": "news", "status": "status", "dice": "dice", "data": "data", "series": "series",
}  # fmt: skip


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the stem of a lower-case word.

    A word that is not plain a-z, or shorter than three letters, stays unchanged.
    """
    if len(word) < 3 or not word.isascii() or not word.isalpha():
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    word = _plural(word)
    word = _past_and_progressive(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _swap(word, _STEP_2, 0)
    word = _swap(word, _STEP_3, 0)
    word = _swap(word, _STEP_4, 1)
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-2] if len(word) > 4 else word[:-1]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def _past_and_progressive(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and _has_vowel(rest):
            break
    else:
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and _is_consonant(rest, len(rest) - 1) and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _ends_cvc(rest) else rest


def _swap(word: str, table: dict[str, str], least: int) -> str:
    """Replace the longest ending of `word` that `table` has, if the rest measures more than `least`."""
    for length in range(min(7, len(word) - 1), 1, -1):
        ending = word[-length:]
        if ending in table:
            kept = word[: -length + 1] if ending in ("sion", "tion") and least else word[:-length]
            return kept + table[ending] if _measure(kept) > least else word
    return word


def _pattern(word: str) -> str:
    """Return the pattern of vowels and consonants in `word`, as v and c: y is a vowel behind a consonant."""
    pattern = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and pattern.endswith("c"))
        pattern += "v" if vowel else "c"
    return pattern


def _measure(word: str) -> int:
    return _pattern(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _pattern(word)


def _is_consonant(word: str, at: int) -> bool:
    return _pattern(word)[at] == "c"


def _ends_cvc(word: str) -> bool:
    return _pattern(word).endswith("cvc") and word[-1] not in "wxy"
