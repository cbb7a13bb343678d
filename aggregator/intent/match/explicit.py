"""Find the calls by name in a message: after a verb (用, 调用, use, call), after `@` or `/`, at its start.

Law: a call has an exact or approximate name of the list (`Names`), and its phrasing is a request (`is_request`).
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from aggregator.intent.match.names import NameHit, ToolNames
from aggregator.intent.match.phrasing import is_mention, is_request, is_subject
from aggregator.intent.match.slots import (
    Kind,
    NamePosition,
    end_of,
    find_description,
    find_identifier,
    find_position,
    has_arguments,
    has_possessive,
    is_never_a_name,
    is_set_off,
    kind_after,
    name_at,
    sentence_goes_on,
)
from aggregator.intent.match.text import SIGNS, MessageText
from aggregator.intent.match.words import any_of

# Bounds for one message: verbs examined, and clauses and polite requests examined.
_VERBS_READ: Final = 150
_CLAUSES_READ: Final = 60

_VERB: Final = re.compile(
    rf"(?P<strong>{any_of('strong')}(?!{any_of('动词之后')}))|(?P<normal>{any_of('normal')}(?!{any_of('动词之后')})"
    rf"|(?:(?<!{any_of('用之前')})|(?<=不)|(?<![停禁弃滥误没未])(?=用\s*[a-z`]))用(?!{any_of('用之后')}))"
    rf"|(?P<weak>(?<!名字)(?<!名)(?<![出存正错藏])(?:{any_of('weak')}))"
)
# Weak verbs that may stand before a name that is no identifier, and before a description instead of a name.
_NAMED_BY: Final = frozenset({"ask", "让", "叫", "问问", "问一下", "通过", "打开"})
_DESCRIBED_BY: Final = frozenset({"with", "through", "ask", "通过", "让", "拿"})
_THE: Final = re.compile(r"(?<![a-z])(?:the|your|our|my|this)(?![a-z])")
# `call it a day` gives a name.
_NAMING: Final = re.compile(r"\s*(?:it|that|this|them|us|me|him|her)(?: (?:a|an|the|my|our|your))?\s*")
_RUNS: Final = frozenset({"run", "use"})
_IMPERATIVE: Final = re.compile(rf"\s*(?:{any_of('greetings')}\s*){{0,3}}{any_of('imperatives')}")
# 把 X 调用一次: the verb comes after the name.
_DONE_WITH: Final = re.compile(r"[`」』》\s]*(?:也|再|都)?(?:调用|执行|运行|跑|用|启用)(?![来到在])")
_HANDLE: Final = re.compile(rf"(?:(?:(?<![^\s,。:(\[{SIGNS}])@)|(?:\A|(?<=\n))/)(?=\w)")
_ASKING: Final = re.compile(r"帮(?:我们|我|忙|咱们|咱)?")
_POLITE: Final = re.compile(rf"{any_of('polite')}(?: (?:please|also|now|just|to))?\s*")
_GREETING: Final = re.compile(rf"\s*(?:{any_of('greetings')}\s*){{0,4}}")
# Dbt run results: what a command gave, or was.
_OF_THE_TOOL: Final = re.compile(
    r" (?:results?|outputs?|jobs?|commands?|errors?|steps?|failures?|tools?|takes?|took|docs?|syntax|feature|function"
    r"|api|has|had|can"
    r"|will|would|should|and|or|vs|versus|ran|never|always|still|just|keeps?)(?![a-z])|\W*$"
)
_FOR_ME: Final = re.compile(r" (?:for (?:me|us)|please|pls|plz)(?![a-z])")
_OPENING: Final = re.compile(r"[`「『《【\s]*")
_SET_TO_WORK: Final = re.compile(rf"\s*(?::\s*\S|(?:来|去|给我|帮我)?{any_of('着手')})")
_ONE_VERB: Final = re.compile(r"\s*(?:[在用去把查看找搜做跑问算测调]|查询|使用|调用|搜索)?\s*")


class NamedCall(NamedTuple):
    """A call by a name that the list has: its place in the text, and the kind of thing that the message says it is."""

    start: int
    end: int
    named: NameHit
    kind: Kind | None


class UnknownToolCall(NamedTuple):
    """A call by a name that no tool has; the name stands from `first` up to `last` in the text.

    `is_identifier`: the name is an identifier; `announced`: the message says that it is a tool.
    """

    start: int
    end: int
    first: int
    last: int
    is_identifier: bool
    announced: bool


def find_calls(message: MessageText, names: ToolNames) -> Iterator[NamedCall | UnknownToolCall]:
    """Yield the calls after a verb of calling, in the order of the message."""
    for verb in islice(_VERB.finditer(message.plain), _VERBS_READ):
        found = find_position(message, names, verb.end())
        call = (
            _named_call(message, names, verb, found.named, found.kind)
            if found.named
            else _unknown_call(message, verb, found)
        )
        if call is not None and is_request(message.before(verb.start()), verb[0], message.after(call.end)):
            yield call


def find_handles(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the calls by `@name` after a space or sign, and by `/name` at the start of a line."""
    for found in islice(_HANDLE.finditer(message.plain), _CLAUSES_READ):
        named = name_at(message, names, found.end())
        if named is None:
            continue
        end = end_of(message, named)
        whole = end == len(message.plain) or message.plain[end].isspace() or not message.plain[end].isascii()
        if (whole or found[0] == "@") and is_request(message.before(found.start()), "@", message.after(end)):
            yield NamedCall(found.start(), end, named, None)


def find_leading_names(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the calls at the start of a clause.

    These are an identifier, `maps_weather Beijing`, a name and 工具: `weather 工具查一下北京`, or a name of several
    words behind its server: `everything, Get Sum Tool, 19 and 23`.
    """
    spoken_to: tuple[str, ...] = ()
    for clause in islice(message.clauses, _CLAUSES_READ):
        addressed, spoken_to = spoken_to, ()
        greeting = _GREETING.match(message.plain, clause)
        start = greeting.end() if greeting else clause
        opening = _OPENING.match(message.plain, start)
        place = opening.end() if opening else start
        named = name_at(message, names, place)
        if named is None:
            continue
        kind, end = kind_after(message, end_of(message, named))
        after = message.after(end)
        spoken_to = named.servers if not after.strip() else ()
        if named.looks == "sure" and any(names.tools[at].server in addressed for at in named.tools):
            yield NamedCall(start, end, named, kind)
            continue
        works = kind is not None and _SET_TO_WORK.match(message.plain, end)
        calls = works or (kind is None and named.tools and _is_spelled_out(message, names, named, place, after))
        if calls and not is_mention(after) and not is_subject(after):
            yield NamedCall(start, end, named, kind)


def _is_spelled_out(message: MessageText, names: ToolNames, named: NameHit, place: int, after: str) -> bool:
    """Tell whether a name at the start is an identifier, or has its server before it: `dbt compile on marts`."""
    if names.looks_like_code(message, named):
        return True
    if named.last - named.first < 2 or not message.words[named.first].text.isascii():
        return False
    if _FOR_ME.match(after):
        return True
    if place < message.words[named.first].start:
        return True
    first = names.of_servers.get(message.words[named.first].text, ())
    led = any(names.tools[at].server in first for at in named.tools)
    return led and bool(after.strip()) and not _OF_THE_TOOL.match(after)


def find_polite_requests(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the names inside 帮我……一下, and names of several words after `please` or `could you`."""
    for found in islice(_ASKING.finditer(message.plain), _CLAUSES_READ):
        inside = message.after(found.end())
        length = inside.find("一下")
        if length < 1 or not is_request(message.before(found.start()), "帮", inside[length + 2 :]):
            continue
        named = _first_name_between(message, names, found.end(), found.end() + length)
        if named is not None:
            yield NamedCall(found.start(), found.end() + length + 2, named, None)
    for found in islice(_POLITE.finditer(message.plain), _CLAUSES_READ):
        named = name_at(message, names, found.end())
        if named is None or not named.tools or named.last - named.first < 2:
            continue
        end = end_of(message, named)
        after = message.after(end)
        if sentence_goes_on(after, chinese=False) and is_request(message.before(found.start()), "please", after):
            yield NamedCall(found.start(), end, named, None)


def _named_call(
    message: MessageText, names: ToolNames, verb: re.Match[str], named: NameHit, kind: Kind | None
) -> NamedCall | None:
    """Return the call if verb and name together are one: the less the one of them says, the more the other must."""
    after_kind, end = kind_after(message, end_of(message, named))
    kind = after_kind or kind
    call = NamedCall(verb.start(), end, named, kind)
    after = message.after(end)
    if verb[0] in ("把", "将"):
        return call if _DONE_WITH.match(after) else None
    if has_possessive(message, named):
        return None
    if kind is None and not is_set_off(message, named) and is_never_a_name(message, named):
        return None
    if kind is not None or is_set_off(message, named):
        return call
    if verb[0] == "call" and _NAMING.fullmatch(message.plain, verb.end(), message.words[named.first].start):
        return None
    if verb["weak"] is not None and names.looks_like_code(message, named):
        return call
    chinese = not verb[0].isascii()
    if named.looks != "sure" and not sentence_goes_on(after, chinese=chinese):
        return None
    signs = not message.words[named.first].text.isascii()
    if named.looks != "plain" or (chinese and not signs):
        if verb[0] == "with":
            return call if not after.strip() and _IMPERATIVE.match(message.before(verb.start())) else None
        return call if verb["weak"] is None or verb[0] in _NAMED_BY else None
    if chinese:
        return call if verb["strong"] is not None else None
    if _THE.search(message.plain, verb.end(), message.words[named.first].start):
        # The plan, my test: a word like any other, unless something says that it is a tool.
        return None
    ended = not after.strip()
    return call if has_arguments(after) and (verb["strong"] is not None or (verb[0] in _RUNS and not ended)) else None


def _unknown_call(message: MessageText, verb: re.Match[str], found: NamePosition) -> UnknownToolCall | None:
    place = found.place
    spelled = find_identifier(message, place)
    if spelled is not None:
        kind, end = kind_after(message, spelled)
        called = kind is not None or found.kind is not None
        return (
            UnknownToolCall(verb.start(), end, place, spelled, True, called) if called or verb["weak"] is None else None
        )
    if verb["weak"] is not None and verb[0] not in _DESCRIBED_BY:
        return None
    if verb["weak"] is not None and verb[0].isascii() and not _THE.search(message.plain, verb.end(), place):
        return None
    span = find_description(message, place)
    return UnknownToolCall(verb.start(), span[1], place, span[0], False, True) if span else None


def _first_name_between(message: MessageText, names: ToolNames, start: int, end: int) -> NameHit | None:
    """Return the first name between two places; an ordinary word only if there is nothing else besides one verb."""
    for at in message.words_between(start, end):
        named = names.longest(message, at)
        if named is None or end_of(message, named) > end:
            continue
        alone = not message.plain[end_of(message, named) : end].strip()
        if named.looks != "plain" or (alone and _ONE_VERB.fullmatch(message.plain, start, message.words[at].start)):
            return named
    return None
