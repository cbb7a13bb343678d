"""Flags: what makes an item suspicious beside the tools of other servers. This file decides; it awaits nothing.

`hidden_characters`: a text of it has characters that cannot be seen. `look_alike`: its name is written like another
tool's with other characters, or it describes itself in another tool's words under another name. `shadowing`: its text
names another server's tool, so that a model may do with that tool what this text says.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple
from unicodedata import normalize

from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.names import loosened
from aggregator.domain.text.invisible import folded_name, unseen
from aggregator.pins.decide.findings import texts
from aggregator.pins.decide.values import Flag, PinKind

# Characters looked at in one step.
_PIECE: Final = 64 * 1024
# A description of fewer different words fits many tools.
_WORDS: Final = 6
# Characters of a name that is compared, and of a description.
_LONGEST: Final = 300
_LONGEST_DESCRIPTION: Final = 64 * 1024

_WORD: Final = re.compile(r"[^\W_]+")
# Names as they stand in a text; each is begun once, so that a long text takes time in proportion.
_NAME: Final = re.compile(r"(?<![\w-])[\w-]++(?:[./:]++[\w-]++)*+")
_HOST_PREFIX: Final = re.compile(r"(?:functions\.)?mcp__aggregator__|mcp__", re.IGNORECASE)
# How names with a prefix of a host begin.
_BEFORE_NAMES: Final = frozenset({"mcp_", "func"})
_SEPARATORS: Final = (".", "__", "/", ":")

# Letters of other scripts, and signs, that are drawn like these (Unicode TR 39, the common ones).
_DRAWN: Final[Mapping[str, str]] = {
    "a": "аɑαа",
    "b": "ьƅЬ",
    "c": "сϲᴄ",
    "d": "ԁɗ",
    "e": "еєҽ",
    "g": "ɡց",
    "h": "һհ",
    "i": "іıɩι",
    "j": "јϳ",
    "k": "кκ",
    "l": "ӏⅼǀ1|",
    "m": "мⅿ",
    "n": "ոп",
    "o": "оοօσ0",
    "p": "рρ",
    "q": "ԛգ",
    "r": "гᴦ",
    "s": "ѕꜱ",
    "t": "тτ",
    "u": "υսц",
    "v": "νѵ",
    "w": "ԝաω",
    "x": "хχ",
    "y": "уүγ",
    "z": "ᴢ",
}
_TO_LATIN: Final = str.maketrans({drawn: letter for letter, every in _DRAWN.items() for drawn in every})


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool of any server. `exposed` has its names for hosts and models, which include the server."""

    server: str
    own_name: str
    exposed: tuple[str, ...]
    description: str


class _Entry(NamedTuple):
    """A tool, or its server, as it stands under a key of one of the look-ups."""

    look_up: Literal["shape", "words", "exposed"]
    key: Hashable
    value: Any


class _TakenTools(NamedTuple):
    """Tools of a server that are being taken in.

    before: the entries of its tools before, without those that it has now. now: the entries of those taken in.
    """

    server: str
    left: Iterator[KnownTool]
    before: set[_Entry]
    now: set[_Entry]


class ToolIndex:
    """The tools of all servers, by the words that confusion could arise from.

    Nothing is computed before a look-up needs it: a start without changes computes nothing. If a server has other
    tools, only these are added; its former tools can be found until then.
    """

    def __init__(self, tools: Iterable[KnownTool] = ()) -> None:
        self._waiting: dict[str, Iterable[KnownTool]] = {"": tools}
        self._taken: _TakenTools | None = None
        self._entries: dict[str, set[_Entry]] = {}
        self.by_shape: dict[Hashable, set[tuple[str, str]]] = {}
        self.by_words: dict[Hashable, set[tuple[str, str]]] = {}
        self.by_exposed: dict[Hashable, set[str]] = {}
        self._look_ups: Mapping[str, dict[Hashable, set[Any]]] = {
            "shape": self.by_shape,
            "words": self.by_words,
            "exposed": self.by_exposed,
        }

    def put(self, server: str, tools: Iterable[KnownTool]) -> None:
        """Take other tools of a server with the next look-up."""
        self._waiting[server] = tools

    def steps(self) -> Steps[None]:
        """Add the tools not indexed yet, one in a step."""
        while self._taken is not None or self._waiting:
            self._take_some()
            yield

    def _take_some(self) -> None:
        taken = self._taken
        if taken is None:
            server, tools = self._waiting.popitem()
            self._taken = _TakenTools(server, iter(tools), self._entries.pop(server, set()), set())
        elif (tool := next(taken.left, None)) is not None:
            for entry in _entries_of(tool):
                self._look_ups[entry.look_up].setdefault(entry.key, set()).add(entry.value)
                taken.before.discard(entry)
                taken.now.add(entry)
        elif taken.before:
            look_up, key, value = taken.before.pop()
            having = self._look_ups[look_up][key]
            having.discard(value)
            if not having:
                del self._look_ups[look_up][key]
        else:
            self._entries[taken.server] = taken.now
            self._taken = None


def _entries_of(tool: KnownTool) -> Iterator[_Entry]:
    own = (tool.server, loosened(tool.own_name[:_LONGEST]))
    yield _Entry("shape", _shape(tool.own_name), own)
    words = _words_digest(tool.description)
    if words is not None:
        yield _Entry("words", words, own)
    for name in tool.exposed:
        if any(sign in name for sign in _SEPARATORS):
            yield _Entry("exposed", name.casefold(), tool.server)


class OtherServers:
    """The tools of all servers but one."""

    def __init__(self, index: ToolIndex, server: str) -> None:
        self._index = index
        self._server = server

    def steps(self) -> Steps[None]:
        """Make the index if it was not made yet, one tool in a step."""
        yield from self._index.steps()

    def looks_like(self, name: str, description: str) -> bool:
        """Tell whether another server has a tool that this one could be confused with.

        Tools of one name in two servers differ by the server in front of the name.
        """
        own = loosened(name[:_LONGEST])
        shaped = self._index.by_shape.get(_shape(name), ())
        words = _words_digest(description)
        worded = self._index.by_words.get(words, ()) if words is not None else ()
        return any(server != self._server and other != own for found in (shaped, worded) for server, other in found)

    def names_other(self, name: str) -> bool:
        """Return whether a word of a text is the exposed name of another server's tool."""
        servers = self._index.by_exposed.get(name.casefold())
        return servers is not None and self._server not in servers


def flags_of(kind: PinKind, name: str, definition: Any, others: OtherServers) -> frozenset[Flag]:
    """Return the flags of an item with this definition."""
    return at_once(flag_steps(kind, name, definition, others))


def flag_steps(kind: PinKind, name: str, definition: Any, others: OtherServers) -> Steps[frozenset[Flag]]:
    """Return the result of `flags_of`, some thousand characters in a step."""
    yield from others.steps()
    flags: set[Flag] = set()
    if folded_name(name) != name:
        flags.add("hidden_characters")
    if kind == "tool":
        description = definition.get("description") if isinstance(definition, Mapping) else None
        if others.looks_like(name, description if isinstance(description, str) else ""):
            flags.add("look_alike")
    seen = 0
    for text in texts(definition):
        for start in range(0, len(text), _PIECE):
            # A name that stands across two pieces is found in the second.
            piece = text[max(0, start - _LONGEST) : start + _PIECE]
            seen += len(piece) + 1
            if seen > _PIECE:
                seen = 0
                yield
            if unseen(piece.replace("\r\n", "\n")) is not None:
                flags.add("hidden_characters")
            if _names_other(piece, others):
                flags.add("shadowing")
    return frozenset(flags)


def _names_other(text: str, others: OtherServers) -> bool:
    if not any(sign in text for sign in _SEPARATORS):
        return False
    for found in _NAME.finditer(text):
        name = found[0]
        if others.names_other(name):
            return True
        if len(name) > _LONGEST or (name[:4].casefold() not in _BEFORE_NAMES and "/" not in name and ":" not in name):
            continue
        # What is before the last slash may be a path, or an address.
        for part in (name, name.rpartition("/")[2], name.rpartition(":")[2]):
            if others.names_other(_HOST_PREFIX.sub("", part, count=1)):
                return True
    return False


def _shape(name: str) -> str:
    """Return one form of all names that are drawn alike."""
    plain = normalize("NFKC", folded_name(name[:_LONGEST]))
    # Before capitals are folded, since `I` is drawn like `l`.
    drawn = loosened(plain.replace("I", "l").translate(_TO_LATIN)).translate(_TO_LATIN)
    bare = "".join(sign for sign in normalize("NFD", drawn) if sign.isalnum())
    return bare.replace("i", "l").replace("rn", "m").replace("vv", "w")


def _words_digest(description: str) -> bytes | None:
    """Return a digest of the words of a description, without what stands between them; None for a few words."""
    words = _WORD.findall(description[:_LONGEST_DESCRIPTION].casefold())
    if len(set(words)) < _WORDS:
        return None
    return blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=16).digest()


NO_OTHERS: Final = OtherServers(ToolIndex(), "")
"""The tools of other servers if there are no other servers."""
