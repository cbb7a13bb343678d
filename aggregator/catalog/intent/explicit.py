"""Where a message calls something by name: after a verb (用, 调用, use, call), after `@` or `/`, at its start.

Law: a call has a name of the list (`ToolNames`), or may have nearly one; each is a request by its manner (`requested`).
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from aggregator.catalog.intent.names import NameHit, ToolNames
from aggregator.catalog.intent.phrasing import requested, spoken_of
from aggregator.catalog.intent.slots import (
    Kind,
    NamePosition,
    described,
    end_of,
    goes_on,
    has_arguments,
    identifier,
    kind_after,
    marked,
    name_at,
    owns,
    slot,
)
from aggregator.catalog.intent.text import SIGNS, MessageText
from aggregator.catalog.intent.words import any_of

# Verbs that are looked at in one message, clauses whose beginning is, and requests for a favour.
_VERBS_READ: Final = 150
_CLAUSES_READ: Final = 60

_VERB: Final = re.compile(
    rf"(?P<strong>{any_of('strong')}(?!{any_of('动词之后')}))|(?P<normal>{any_of('normal')}(?!{any_of('动词之后')})"
    rf"|(?:(?<!{any_of('用之前')})|(?<=不)|(?<![停禁弃滥误没未])(?=用\s*[a-z`]))用(?!{any_of('用之后')}))"
    rf"|(?P<weak>(?<!名字)(?<!名)(?:{any_of('weak')}))"
)
# Weak verbs that may be followed by a name that is no identifier, and by a tool that is described rather than named.
_NAMED_BY: Final = frozenset({"ask", "让", "叫", "通过", "打开"})
_DESCRIBED_BY: Final = frozenset({"with", "through", "ask", "通过", "让", "拿"})
_THE: Final = re.compile(r"(?<![a-z])(?:the|your|our|my|this)(?![a-z])")
_RUNS: Final = frozenset({"run", "use"})
_IMPERATIVE: Final = re.compile(rf"\s*(?:{any_of('greetings')}\s*){{0,3}}{any_of('imperatives')}")
# 把 X 调用一次: the verb comes after the name.
_DONE_WITH: Final = re.compile(r"[`」』》\s]*(?:也|再|都)?(?:调用|执行|运行|跑|用|启用)(?![来到在])")
_HANDLE: Final = re.compile(rf"(?:(?:(?<![^\s,。:(\[{SIGNS}])@)|(?:\A|(?<=\n))/)(?=\w)")
_ASKING: Final = re.compile(r"帮(?:我们|我|忙|咱们|咱)?")
_POLITE: Final = re.compile(rf"{any_of('polite')}(?: (?:please|also|now|just|to))?\s*")
_GREETING: Final = re.compile(rf"\s*(?:{any_of('greetings')}\s*){{0,4}}")
_OPENING: Final = re.compile(r"[`「『《【\s]*")
_SET_TO_WORK: Final = re.compile(rf"\s*(?::\s*\S|(?:来|去|给我|帮我)?{any_of('着手')})")
_ONE_VERB: Final = re.compile(r"\s*(?:[在用去把查看找搜做跑问算测调]|查询|使用|调用|搜索)?\s*")


class NamedCall(NamedTuple):
    """A call of what has a name: from where to where it stands, and what kind of thing it says is meant."""

    start: int
    end: int
    named: NameHit
    kind: Kind | None


class UnknownToolCall(NamedTuple):
    """A call of a tool that has no such name: what it is called, from `first` up to `last` in the text.

    `spelled`: that is an identifier; `announced`: it is said to be a tool.
    """

    start: int
    end: int
    first: int
    last: int
    spelled: bool
    announced: bool


def calls(said: MessageText, names: ToolNames) -> Iterator[NamedCall | UnknownToolCall]:
    """What follows a verb of calling, in the order of the message."""
    for verb in islice(_VERB.finditer(said.plain), _VERBS_READ):
        found = slot(said, names, verb.end())
        call = _call(said, names, verb, found.named, found.kind) if found.named else _wanted(said, verb, found)
        if call is not None and requested(said.before(verb.start()), verb[0], said.after(call.end)):
            yield call


def handles(said: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """`@name` after a space or sign, `/name` at the start of a line."""
    for found in islice(_HANDLE.finditer(said.plain), _CLAUSES_READ):
        named = name_at(said, names, found.end())
        if named is None:
            continue
        end = end_of(said, named)
        whole = end == len(said.plain) or said.plain[end].isspace() or not said.plain[end].isascii()
        if (whole or found[0] == "@") and requested(said.before(found.start()), "@", said.after(end)):
            yield NamedCall(found.start(), end, named, None)


def starts(said: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """An identifier that a clause begins with, `maps_weather Beijing`, or a name and 工具: `weather 工具查一下北京`."""
    for clause in islice(said.clauses, _CLAUSES_READ):
        greeting = _GREETING.match(said.plain, clause)
        start = greeting.end() if greeting else clause
        opening = _OPENING.match(said.plain, start)
        named = name_at(said, names, opening.end() if opening else start)
        if named is None:
            continue
        kind, end = kind_after(said, end_of(said, named))
        after = said.after(end)
        works = kind is not None and _SET_TO_WORK.match(said.plain, end)
        if (works or (kind is None and named.tools and names.coded(said, named))) and not spoken_of(after):
            yield NamedCall(start, end, named, kind)


def favours(said: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """帮我……一下 with a name in it, and `please`, `could you` with a name of several words behind it."""
    for found in islice(_ASKING.finditer(said.plain), _CLAUSES_READ):
        inside = said.after(found.end())
        length = inside.find("一下")
        if length < 1 or not requested(said.before(found.start()), "帮", inside[length + 2 :]):
            continue
        named = _within(said, names, found.end(), found.end() + length)
        if named is not None:
            yield NamedCall(found.start(), found.end() + length + 2, named, None)
    for found in islice(_POLITE.finditer(said.plain), _CLAUSES_READ):
        named = name_at(said, names, found.end())
        if named is None or not named.tools or named.last - named.first < 2:
            continue
        end = end_of(said, named)
        after = said.after(end)
        if goes_on(after, chinese=False) and requested(said.before(found.start()), "please", after):
            yield NamedCall(found.start(), end, named, None)


def _call(
    said: MessageText, names: ToolNames, verb: re.Match[str], named: NameHit, kind: Kind | None
) -> NamedCall | None:
    """The call, if verb and name together are one: the less one of them says, the more must the other."""
    after_kind, end = kind_after(said, end_of(said, named))
    kind = after_kind or kind
    call = NamedCall(verb.start(), end, named, kind)
    after = said.after(end)
    if verb[0] in ("把", "将"):
        return call if _DONE_WITH.match(after) else None
    if owns(said, named):
        return None
    if kind is not None or marked(said, named):
        return call
    if verb["weak"] is not None and names.coded(said, named):
        return call
    chinese = not verb[0].isascii()
    if named.looks != "sure" and not goes_on(after, chinese=chinese):
        return None
    signs = not said.words[named.first].text.isascii()
    if named.looks != "plain" or (chinese and not signs):
        if verb[0] == "with":
            return call if not after.strip() and _IMPERATIVE.match(said.before(verb.start())) else None
        return call if verb["weak"] is None or verb[0] in _NAMED_BY else None
    if chinese:
        return call if verb["strong"] is not None else None
    ended = not after.strip()
    return call if has_arguments(after) and (verb["strong"] is not None or (verb[0] in _RUNS and not ended)) else None


def _wanted(said: MessageText, verb: re.Match[str], found: NamePosition) -> UnknownToolCall | None:
    place = found.place
    spelled = identifier(said, place)
    if spelled is not None:
        kind, end = kind_after(said, spelled)
        called = kind is not None or found.kind is not None
        return (
            UnknownToolCall(verb.start(), end, place, spelled, True, called) if called or verb["weak"] is None else None
        )
    if verb["weak"] is not None and verb[0] not in _DESCRIBED_BY:
        return None
    if verb["weak"] is not None and verb[0].isascii() and not _THE.search(said.plain, verb.end(), place):
        return None
    span = described(said, place)
    return UnknownToolCall(verb.start(), span[1], place, span[0], False, True) if span else None


def _within(said: MessageText, names: ToolNames, start: int, end: int) -> NameHit | None:
    """The first name between two places; an ordinary word only if it is all there is besides one verb."""
    for at in said.within(start, end):
        named = names.longest(said, at)
        if named is None or end_of(said, named) > end:
            continue
        alone = not said.plain[end_of(said, named) : end].strip()
        if named.looks != "plain" or (alone and _ONE_VERB.fullmatch(said.plain, start, said.words[at].start)):
            return named
    return None
