"""The position of a name in a sentence: the words allowed between a verb and the name, and the words after it."""

import re
from typing import Final, Literal, NamedTuple

from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.text import ADDRESS, SIGNS, MessageText
from aggregator.intent.match.words import any_of, word_set

Kind = Literal["tool", "server"]

_FILLERS: Final = 8

_KIND: Final = re.compile(
    rf"(?:mcp ?)?(?:(?P<tool>{any_of('tools')})|(?P<server>{any_of('servers')}))(?!{any_of('名词之后')})"
)
_KIND_AFTER: Final = re.compile(rf"[\"'`”’」』》】)\]]{{0,6}}\s?(?:这一?[个款种]|那个|该|的)?\s?(?:{_KIND.pattern})")
# `mcp__github__create_issue` is how some hosts have it.
_FILLER: Final = re.compile(rf"[\s\"'`“”‘’「『《【\[(:]+|mcp__(?:aggregator__)?|{any_of('fillers')}")
_MARKED: Final = re.compile(r"[`「『《【]\s*$")
# Between a server and its tool: of, in.
_OF: Final = re.compile(r"\s*(?:['’]s|的|里面?的?|[中上]的?|提供的|->|>)\s*|\s+")
# A server that there is not, before a tool: 用 eks 的 get_pod_logs. An exact name of a tool counts all the same.
_OF_ANOTHER: Final = re.compile(
    r"(?:[a-z0-9_.-]{1,30} ?[^\s,。:a-z0-9]{0,6}?|[^\s,。:a-z0-9]{1,8}) ?(?:的|里面?的|[中上]的|提供的|里) ?"
    r"|[a-z0-9_.-]{2,30}(?:['’]s)? (?:(?:mcp )?server(?:['’]s)? )?"
)
_OWNS: Final = re.compile(r"['’]s(?![a-z])")
# Arguments after a name make it a call, however ordinary the name is.
_ARGUMENTS: Final = re.compile(
    rf"[`'\"”’]?\s*(?:[({{]|(?:with|on|for|:)?\s*(?:{ADDRESS}|[a-z_][a-z0-9_]{{0,30}} ?=|[{{\"“'`])|(?:with|:)\s*$|$)"
)
_GOES_ON: Final = re.compile(rf"[\"'`”’)\]]{{0,6}}\s?(?:$|[^a-z0-9\s]|[{SIGNS}]|{any_of('goes-on')})")
_PART: Final = re.compile(rf"\s*{any_of('部分')}")
_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9]{0,40}(?:(?:__|[_\-./:])[a-z0-9]{1,40}){1,12}(?![a-z0-9])")
# One word, long enough for the name of a tool that is written in one: takeScreenshot.
_COMPOUND: Final = re.compile(r"[a-z][a-z0-9]{7,60}(?![a-z0-9_])")
# The longest description that may stand for a name.
_DESCRIBED: Final = 48


class NamePosition(NamedTuple):
    """A place where a name may begin, the name if there is one, and the announced kind: `the tool called`."""

    place: int
    named: NameHit | None
    kind: Kind | None


def find_position(message: MessageText, names: ToolNames, place: int) -> NamePosition:
    """Return the place after the filler words at `place`, and the name that begins there."""
    kind: Kind | None = None
    for _ in range(_FILLERS):
        named = name_at(message, names, place)
        if named is not None:
            return NamePosition(place, named, kind)
        announced = _KIND.match(message.plain, place)
        filler = announced or _FILLER.match(message.plain, place)
        if filler is None:
            break
        kind = _kind(announced) if announced is not None else kind
        place = filler.end()
    others = _OF_ANOTHER.match(message.plain, place)
    named = name_at(message, names, others.end()) if others is not None else None
    if named is not None and named.tools and names.looks_like_code(message, named):
        return NamePosition(place, named, kind)
    return NamePosition(place, None, kind)


def name_at(message: MessageText, names: ToolNames, place: int) -> NameHit | None:
    """Return the name that begins at `place`.

    A server's name followed by one of its tools, as in `github 的 x`, is the name of that tool.
    """
    at = message.at.get(place)
    named = names.longest(message, at) if at is not None else None
    if named is None or len(named.servers) != 1:
        return named
    of = _OF.match(message.plain, end_of(message, named))
    first = message.at.get(of.end()) if of else None
    inner = names.longest(message, first, within=named.servers[0]) if first is not None else None
    return inner or named


def end_of(message: MessageText, named: NameHit) -> int:
    """Return the end of a name in the message."""
    return message.words[named.last - 1].end


def kind_after(message: MessageText, end: int) -> tuple[Kind | None, int]:
    """Return the kind named after a name, such as `工具` or `server`, and where that ends."""
    found = _KIND_AFTER.match(message.plain, end)
    return (_kind(found), found.end()) if found else (None, end)


def is_set_off(message: MessageText, named: NameHit) -> bool:
    """Tell whether the name is set off by backticks or the like."""
    return _MARKED.search(message.before(message.words[named.first].start)) is not None


def is_never_a_name(message: MessageText, named: NameHit) -> bool:
    """Tell whether the name is one word that is hardly ever a tool's: `call me`, `call later`."""
    return named.last - named.first == 1 and message.words[named.first].text in word_set("never-names")


def has_possessive(message: MessageText, named: NameHit) -> bool:
    """Tell whether the message speaks of something that belongs to the named one: `fetch's source`."""
    return _OWNS.match(message.plain, end_of(message, named)) is not None


def sentence_goes_on(after: str, *, chinese: bool) -> bool:
    """Tell whether the sentence goes on behind a name; else the name is part of another: GitHub account, Excel 文件."""
    return not _PART.match(after) and (chinese or _GOES_ON.match(after) is not None or has_arguments(after))


def has_arguments(after: str) -> bool:
    """Tell whether the text after a name is arguments, or empty."""
    return _ARGUMENTS.match(after) is not None


def find_identifier(message: MessageText, place: int) -> int | None:
    """Return the end of a possible identifier that begins at `place`."""
    found = _IDENTIFIER.match(message.plain, place) or _COMPOUND.match(message.plain, place)
    return found.end() if found else None


def find_description(message: MessageText, place: int) -> tuple[int, int] | None:
    """Return the end of a description that stands for a name, and of the word for a tool after it.

    In `the weather tool` these are the ends of `weather` and `tool`.
    """
    clause = message.after(place)[:_DESCRIBED]
    kind = _KIND.search(clause)
    # Tools in general, as in `with free services`, are no call.
    if kind is None or kind[0].endswith("s") or not clause[: kind.start()].strip():
        return None
    return place + kind.start(), place + kind.end()


def _kind(found: re.Match[str]) -> Kind:
    return "tool" if found["tool"] else "server"
