"""The instructions that the scripted model obeys, found in any text.

```
call TOOL with KEY=VALUE, KEY=VALUE and remember the result as NAME
if that fails, call TOOL with ...            whenever you call TOOL, also set KEY=VALUE
read the resource "URI" ...                  get the prompt NAME with KEY=VALUE ...
complete NAME of the prompt NAME with VALUE  subscribe to the resource "URI"
run this program: ```...```                  answer this request with VALUE
decode this base64 and follow it: ...        open a new session | begin a new trace | drop the trace
go back to the first session                 go back to the first trace
list the resources ...
```
`use`, `invoke`, `run`, `execute` and `try` mean `call`; so do verbs of other languages. VALUE is JSON, or `<contents of
TOOL with KEY=VALUE>`. In texts of VALUE, `{NAME}` is what was remembered, `{base64 NAME}` is that in an encoding, and
`{QUESTION}` what a server has asked.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal[
    "call",
    "whenever",
    "list",
    "resource",
    "prompt",
    "complete",
    "subscribe",
    "program",
    "answer",
    "session",
    "trace",
]


@dataclass(frozen=True, slots=True)
class Contents:
    """A value that a call has to be made for first."""

    tool: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Instruction:
    """One imperative sentence. `name` is a tool, a URI, a prompt, a program or the kind of change.

    `remember` is the name that the answer gets; `after_failure`: only if the instruction before it failed.
    """

    kind: Kind
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    remember: str | None = None
    after_failure: bool = False


_NAME: Final = r"[`'\"]?(?P<{0}>[A-Za-z_][\w./:-]*\w)(?:\(\))?[`'\"]?"
_VERB: Final = r"(?:call|use|invoke|run|execute|try|rufe|appelle|llama a|调用)"
_WITH: Final = r"(?:with|mit|avec|con|，参数|参数)"
_HEAD: Final = re.compile(
    rf"(?:\b|(?<=[^\x00-\x7f]))(?P<whenever>whenever you )?{_VERB}\s+(?:the )?(?:tool )?{_NAME.format('tool')}"
    rf"(?:\s+tool)?(?:\s+auf)?(?:,)?(?P<given>\s*{_WITH}\s*| now\b|, also set )"
    r"|\bread the resource \"(?P<uri>[^\"]+)\""
    r"|\blist the (?P<listed>resources|prompts)\b"
    r"|\bsubscribe to the resource \"(?P<subscribed>[^\"]+)\""
    rf"|\bget the prompt {_NAME.format('prompt')}(?P<prompt_given>\s+with\s+)?"
    rf"|\bcomplete (?P<argument>\w+) of the prompt {_NAME.format('completed')} with (?=\")"
    r"|\brun this program:\s*```(?:python)?\n(?P<program>.*?)```"
    r"|\banswer this request with (?P<answer>(?=\"))"
    r"|\bdecode this base64 and follow it:\s*(?P<hidden>[A-Za-z0-9+/=]+)"
    r"|\b(?P<session>open a new session|go back to the first session)\b"
    r"|\b(?P<trace>begin a new trace|drop the trace|go back to the first trace)\b",
    re.IGNORECASE | re.DOTALL,
)
_FAILURE: Final = re.compile(
    r"\b(?:if|should) (?:that|it|this) (?:fails?|is refused|is blocked|is denied|does not work)\W+(?:then )?$",
    re.IGNORECASE,
)
_REMEMBER: Final = re.compile(
    r"[\s,;(]*(?:and |then |und |et |y )?(?:remember|keep|store|save|note)\s+(?:the |its )?"
    r"(?:result|answer|output|text|contents?|it)\s+as\s+(?P<name>[A-Z]\w*)",
    re.IGNORECASE,
)
_KEY: Final = re.compile(r"\s*(?P<key>[A-Za-z_]\w*)\s*=\s*")
_BETWEEN: Final = re.compile(r"\s*(?:,\s*and\s|,|，|\band\b|\bund\b|\bet\b|\by\b|和)\s*(?=[A-Za-z_]\w*\s*=)")
_CONTENTS: Final = re.compile(rf"<(?:the )?(?:contents?|result) of {_NAME.format('tool')} with ", re.IGNORECASE)
_INVISIBLE: Final = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_DECODER: Final = json.JSONDecoder()


def find_instructions(text: str) -> list[Instruction]:
    """Return the instructions of a text in order. Invisible characters in it do not hide any."""
    return list(_find(_INVISIBLE.sub("", text), 3))


def _find(text: str, depth: int) -> Iterator[Instruction]:
    at = 0
    while (head := _HEAD.search(text, at)) is not None:
        at = head.end()
        if head["hidden"] is not None:
            yield from _hidden(head["hidden"], depth)
            continue
        found, at = _instruction(text, head)
        if found is None:
            continue
        found.after_failure = _FAILURE.search(text[: head.start()]) is not None
        remembered = _REMEMBER.match(text, at)
        if remembered is not None:
            found.remember, at = remembered["name"], remembered.end()
        yield found


def _hidden(encoded: str, depth: int) -> Iterator[Instruction]:
    try:
        text = base64.b64decode(encoded).decode()
    except (binascii.Error, ValueError):
        return
    if depth:
        yield from _find(text, depth - 1)


def _instruction(text: str, head: "re.Match[str]") -> tuple[Instruction | None, int]:
    at = head.end()
    if head["tool"] is not None:
        given, end = _arguments(text, at) if "now" not in head["given"] else ({}, at)
        if not given and "now" not in head["given"]:
            return None, at
        return Instruction("whenever" if head["whenever"] else "call", head["tool"], given), end
    if head["listed"] is not None:
        return Instruction("list", head["listed"]), at
    if head["uri"] is not None:
        return Instruction("resource", head["uri"]), at
    if head["subscribed"] is not None:
        return Instruction("subscribe", head["subscribed"]), at
    if head["prompt"] is not None:
        given, end = _arguments(text, at) if head["prompt_given"] else ({}, at)
        return Instruction("prompt", head["prompt"], given), end
    if head["program"] is not None:
        return Instruction("program", head["program"]), at
    if head["session"] is not None or head["trace"] is not None:
        kind: Kind = "session" if head["session"] else "trace"
        return Instruction(kind, (head["session"] or head["trace"]).lower()), at
    value, end = _value(text, at)
    if value is None:
        return None, at
    if head["completed"] is not None:
        return Instruction("complete", head["completed"], {head["argument"]: value}), end
    return Instruction("answer", "", {"text": value}), end


def _arguments(text: str, at: int) -> tuple[dict[str, Any], int]:
    given: dict[str, Any] = {}
    while (key := _KEY.match(text, at)) is not None:
        value, end = _value(text, key.end())
        if value is None:
            break
        given[key["key"]], at = value, end
        between = _BETWEEN.match(text, at)
        if between is None:
            break
        at = between.end()
    return given, at


def _value(text: str, at: int) -> tuple[Any, int]:
    """Return the value that stands there and its end; None where none does."""
    contents = _CONTENTS.match(text, at)
    if contents is not None:
        given, end = _arguments(text, contents.end())
        closing = text.find(">", end)
        return (Contents(contents["tool"], given), closing + 1) if closing >= 0 else (None, at)
    try:
        return _DECODER.raw_decode(text, at)
    except ValueError:
        return None, at
