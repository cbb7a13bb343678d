"""The place of a name in a sentence: what may stand between a verb and the name, and what may follow it."""

import re
from typing import Final, Literal, NamedTuple

from aggregator.catalog.intent.names import NameHit, ToolNames
from aggregator.catalog.intent.text import ADDRESS, SIGNS, MessageText
from aggregator.catalog.intent.words import any_of

Kind = Literal["tool", "server"]

_FILLERS: Final = 8

_KIND: Final = re.compile(
    rf"(?:mcp ?)?(?:(?P<tool>{any_of('tools')})|(?P<server>{any_of('servers')}))(?!{any_of('名词之后')})"
)
_KIND_AFTER: Final = re.compile(rf"[\"'`”’」』》】)\]]{{0,6}}\s?(?:这一?[个款种]|那个|该|的)?\s?(?:{_KIND.pattern})")
# `mcp__github__create_issue` is how some hosts have it.
_FILLER: Final = re.compile(rf"[\s\"'`“”‘’「『《【\[(:]+|mcp__(?:aggregator__)?|{any_of('fillers')}")
_MARKED: Final = re.compile(r"[`「『《【]\s*$")
# What belongs to a server: of, in.
_OF: Final = re.compile(r"\s*(?:['’]s|的|里面?的|[中上]的|提供的|->|>)\s*|\s+")
_OWNS: Final = re.compile(r"['’]s(?![a-z])")
# Arguments: what follows a name is a call then, however ordinary the name.
_ARGUMENTS: Final = re.compile(
    rf"[`'\"”’]?\s*(?:[({{]|(?:with|on|for|:)?\s*(?:{ADDRESS}|[a-z_][a-z0-9_]{{0,30}} ?=|[{{\"“'`])|(?:with|:)\s*$|$)"
)
_GOES_ON: Final = re.compile(rf"[\"'`”’)\]]{{0,6}}\s?(?:$|[^a-z0-9\s]|[{SIGNS}]|{any_of('goes-on')})")
_PART: Final = re.compile(rf"\s*{any_of('部分')}")
_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9]{0,40}(?:(?:__|[_\-./:])[a-z0-9]{1,40}){1,12}(?![a-z0-9])")
# One word, long enough for the name of a tool that is written in one: takeScreenshot.
_COMPOUND: Final = re.compile(r"[a-z][a-z0-9]{7,60}(?![a-z0-9_])")
# How far a description may go that stands for a name.
_DESCRIBED: Final = 48


class NamePosition(NamedTuple):
    """Where a name may begin, the name if there is one, and the kind that was announced: `the tool called`."""

    place: int
    named: NameHit | None
    kind: Kind | None


def slot(said: MessageText, names: ToolNames, place: int) -> NamePosition:
    """What stands at `place`, fillers left out."""
    kind: Kind | None = None
    for _ in range(_FILLERS):
        named = name_at(said, names, place)
        if named is not None:
            return NamePosition(place, named, kind)
        announced = _KIND.match(said.plain, place)
        filler = announced or _FILLER.match(said.plain, place)
        if filler is None:
            break
        kind = _kind(announced) if announced is not None else kind
        place = filler.end()
    return NamePosition(place, None, kind)


def name_at(said: MessageText, names: ToolNames, place: int) -> NameHit | None:
    """The name that begins at `place`; where a server's is followed by one of its tools', as in `github 的 x`, that."""
    at = said.at.get(place)
    named = names.longest(said, at) if at is not None else None
    if named is None or len(named.servers) != 1:
        return named
    of = _OF.match(said.plain, end_of(said, named))
    first = said.at.get(of.end()) if of else None
    inner = names.longest(said, first, within=named.servers[0]) if first is not None else None
    return inner or named


def end_of(said: MessageText, named: NameHit) -> int:
    """Where a name ends."""
    return said.words[named.last - 1].end


def kind_after(said: MessageText, end: int) -> tuple[Kind | None, int]:
    """The kind that is said behind a name, as `工具` or `server`, and where that ends."""
    found = _KIND_AFTER.match(said.plain, end)
    return (_kind(found), found.end()) if found else (None, end)


def marked(said: MessageText, named: NameHit) -> bool:
    """Whether the name is set off by backticks or the like."""
    return _MARKED.search(said.before(said.words[named.first].start)) is not None


def owns(said: MessageText, named: NameHit) -> bool:
    """Whether something that the named one has is spoken of: `fetch's source`."""
    return _OWNS.match(said.plain, end_of(said, named)) is not None


def goes_on(after: str, *, chinese: bool) -> bool:
    """Whether the sentence goes on behind a name; otherwise the name is part of another: GitHub account, Excel 文件."""
    return not _PART.match(after) and (chinese or _GOES_ON.match(after) is not None or has_arguments(after))


def has_arguments(after: str) -> bool:
    """Whether what follows a name are arguments, or nothing."""
    return _ARGUMENTS.match(after) is not None


def identifier(said: MessageText, place: int) -> int | None:
    """Where what may be an identifier ends that begins at `place`."""
    found = _IDENTIFIER.match(said.plain, place) or _COMPOUND.match(said.plain, place)
    return found.end() if found else None


def described(said: MessageText, place: int) -> tuple[int, int] | None:
    """Where a description ends that stands for a name, and the word for a tool behind it: `the weather tool`."""
    clause = said.after(place)[:_DESCRIBED]
    kind = _KIND.search(clause)
    # Tools in general, as in `with free services`, are nothing that is called.
    if kind is None or kind[0].endswith("s") or not clause[: kind.start()].strip():
        return None
    return place + kind.start(), place + kind.end()


def _kind(found: re.Match[str]) -> Kind:
    return "tool" if found["tool"] else "server"
