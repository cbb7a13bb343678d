"""A message prepared for matching: width, case and spaces made even, its clauses and words found.

Law: at most `HEAD` + `TAIL` characters are read, in time that grows with them; `text` and `plain` have equal length.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

# A request stands at the start or at the end of a message; pasted text stands between.
HEAD: Final = 4_000
TAIL: Final = 2_000

# Scripts written without spaces: each sign is a word, and a name needs no boundary beside one.
SIGNS: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003134f"
)
# Signs of the words of calling and refusing in traditional script, read as the simplified ones. Not a table of Chinese.
_SIMPLER: Final = str.maketrans(
    "調運執啟換請幫別無須麼為這個們說嗎還來過試讓問時間發學習慣歡與務器錯誤關係從樣給擇禁絕應該許準會隨導氣線圖",
    "调运执启换请帮别无须么为这个们说吗还来过试让问时间发学习惯欢与务器错误关系从样给择禁绝应该许准会随导气线图",
)
# Replaces an address, character by character.
ADDRESS: Final = "\ue000"

_WORD: Final = re.compile(rf"[{SIGNS}]|[^\W_{SIGNS}]+")
_SIGN: Final = re.compile(rf"[{SIGNS}]")
_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f]")
_ADDRESS: Final = re.compile(r"(?:https?|ftp|file|wss?)://[^\s\u3000-\u303f\u4e00-\u9fff]+|www\.[^\s\u4e00-\u9fff]+")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_SPACES: Final = re.compile(r"[^\S\n]+")
_BREAK: Final = re.compile(
    rf"[。！!？?；;\n,、…—]| - |\.(?=\s|$)|:(?=\s|$|[{SIGNS}])|(?<![a-z0-9_])(?:but|so|then|however)(?![a-z0-9_])"
    r"|但是?|然后|而是|改成"
)
_QUOTED: Final = re.compile(
    r'"[^"\n]{1,300}"|“[^“”\n]{1,300}”|„[^„“”"\n]{1,300}[“”"]|«[^«»\n]{1,300}»|「[^「」\n]{1,300}」|『[^『』\n]{1,300}』'
    # Apostrophes count only around several words.
    r"|(?<!\w)['‘][^'‘’\n ]{1,80} [^'‘’\n]{1,220}['’](?!\w)"
)
_ASCII_WORD: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
# How much of a clause is examined on either side.
_NEAR: Final = 80


class Word(NamedTuple):
    """A run of letters and digits, or one sign."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MessageText:
    """A message prepared for matching.

    `text` is the visible message; `plain` is `text` in lower case with addresses blanked out. `at` maps the start of a
    word to its position in `words`; `breaks` are the ends of clauses and `quotes` the quotations, as (start, end), in
    order.
    """

    text: str
    plain: str
    words: tuple[Word, ...]
    at: dict[int, int]
    breaks: tuple[tuple[int, int], ...]
    quotes: tuple[tuple[int, int], ...]

    @property
    def chinese(self) -> bool:
        """True if there are Chinese characters in the text."""
        return _HAN.search(self.text) is not None

    @property
    def clauses(self) -> Iterator[int]:
        """The places where clauses start."""
        yield 0
        yield from (end for _, end in self.breaks)

    def words_between(self, start: int, end: int) -> range:
        """Return the positions of the words that begin from `start` on and before `end`."""
        first, last = (bisect_left(self.words, place, key=lambda word: word.start) for place in (start, end))
        return range(first, last)

    def quoted(self, place: int) -> bool:
        """Tell whether a place lies in quotation marks.

        Quoted words are someone else's; marks around the whole message do not count.
        """
        at = bisect_right(self.quotes, place, key=lambda one: one[0]) - 1
        return at >= 0 and self.quotes[at][0] < place < self.quotes[at][1]

    def before(self, start: int) -> str:
        """Return the text of the clause before `start`."""
        at = bisect_right(self.breaks, start, key=lambda one: one[1])
        return self.plain[max(self.breaks[at - 1][1] if at else 0, start - _NEAR) : start]

    def after(self, end: int) -> str:
        """Return the text of the clause from `end` on."""
        at = bisect_left(self.breaks, end, key=lambda one: one[0])
        return self.plain[end : min(self.breaks[at][0] if at < len(self.breaks) else len(self.plain), end + _NEAR)]


def read(message: str) -> MessageText:
    """Prepare a message, without fenced code, quoted lines and invisible characters."""
    text = _tidied(_bounded("\n".join(filter(None, message.split("```")[::2]))))
    plain = _ADDRESS.sub(lambda found: ADDRESS * len(found[0]), lowered(text))
    words = tuple(Word(found[0], *found.span()) for found in _WORD.finditer(plain))
    breaks = tuple(found.span() for found in _BREAK.finditer(plain))
    quotes = tuple(found.span() for found in _QUOTED.finditer(plain) if len(found[0]) < len(plain))
    return MessageText(text, plain, words, {word.start: at for at, word in enumerate(words)}, breaks, quotes)


def folded(text: str) -> str:
    """Return the text in compatibility form, in lower case, with single spaces."""
    return lowered(" ".join(_normalized(text).split()))


def squashed(name: str) -> str:
    """Return the letters, digits and signs of a name in lower case: equal for all its spellings."""
    return "".join(_WORD.findall(folded(name)))


def lowered(text: str) -> str:
    """Return the text in lower case, with the simplified form of a few signs; its length stays."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    return lower if lower.isascii() else lower.translate(_SIMPLER)


def joins_words(char: str) -> bool:
    """Tell whether two such characters side by side belong to one word."""
    return char == "_" or (char.isalnum() and _SIGN.match(char) is None)


def _bounded(text: str) -> str:
    """Return the head and the tail of the text, with no word cut in two."""
    if len(text) <= HEAD + TAIL:
        return text
    return f"{text[:HEAD].rstrip(_ASCII_WORD)}\n{text[-TAIL:].lstrip(_ASCII_WORD)}"


def _normalized(text: str) -> str:
    return text if text.isascii() else _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)[: HEAD + TAIL + 1])


def _tidied(text: str) -> str:
    lines = (_SPACES.sub(" ", line).strip() for line in _normalized(text).split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith(">"))
