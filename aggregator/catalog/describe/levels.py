"""Texts about a tool for a model at three levels of detail: one line, the main parameters, the whole schema.

Law: equal records and parameters give equal bytes; nothing here depends on the agent.
"""

import re
import unicodedata
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from aggregator.catalog.describe.compact_schema import compact, examples
from aggregator.catalog.describe.first_sentence import LINE, Language, summary
from aggregator.catalog.describe.markdown import columns
from aggregator.catalog.describe.parameters import Parameter, has_rules, parameter_names, parameters
from aggregator.catalog.describe.siblings import line_of, without_beginning
from aggregator.catalog.describe.truncate import MARK
from aggregator.domain.names import CANONICAL_LIMIT
from aggregator.domain.records import ToolRecord
from aggregator.wire.codec import encode

LABELS: Final[Mapping[Language, str]] = {"en": "tool", "zh": "工具"}

# The JSON characters around the name and the words of a parameter.
_AROUND: Final = 6
_ABOUT: Final = 30
_PARAMETERS: Final = 12
_RETURNED: Final = 20
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

# A part that ends at a paragraph, a line or a sentence is at least this share of what would fit.
_SHARE: Final = 0.6

_ENDS: Final = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?](?=\s)|[。！？]", r"\s")))

# Code points of the longest single character.
_JOINED: Final = 32


class Excerpt(NamedTuple):
    """A part of a text. `next` is the offset of the rest, None at the end; `left` are the characters of that rest."""

    text: str
    next: int | None
    left: int


def excerpt(text: str, offset: int, length: int) -> Excerpt:
    """Return at most `length` characters of a text from `offset` on."""
    if len(text) - offset <= length:
        return Excerpt(text[offset:].strip(), None, 0)
    end = _end(text, offset, offset + max(1, length))
    after = end + len(text[end:]) - len(text[end:].lstrip())
    return Excerpt(text[offset:end].strip(), after, len(text) - after)


def _end(text: str, start: int, most: int) -> int:
    """Return the end of a part that begins at `start` and may reach `most`."""
    least = start + int((most - start) * _SHARE)
    for ending in _ENDS:
        ends = [found.end() for found in ending.finditer(text, least, most)]
        if ends:
            return ends[-1]
    end = most
    while (
        end > start + 1 and most - end < _JOINED and (unicodedata.combining(text[end]) or text[end] in "\u200d\ufe0f")
    ):
        end -= 1
    return end


def shown_name(tool: ToolRecord) -> str:
    """Return the canonical `server.tool`, or the listed name if that has characters that no line should have.

    Calls accept both.
    """
    name = tool.name
    safe = len(name) <= CANONICAL_LIMIT and name.isprintable() and " " not in name
    return name if safe else tool.listed["canonical"]


def level1(tool: ToolRecord, length: int = LINE, *, label: str = "", language: Language = "en") -> str:
    """Return `server.tool: purpose`, in one line; the words take at most `length` columns (Chinese: two each).

    `label` is put in front in brackets: `[工具] weather.get: ...`; `LABELS` has one for each language.
    """
    words = line_of(tool, length, language)
    prefix = f"[{label}] " if label else ""
    return f"{prefix}{shown_name(tool)}: {words}" if words else f"{prefix}{shown_name(tool)}"


def level2(tool: ToolRecord, length: int = 200, *, description: int = 100, language: Language = "en") -> str:
    """Return compact JSON: `name`, `description`, `parameters`, and `more`: how many parameters are not shown.

    A parameter reads `"days": "integer*=3 How many days"`: the type or the options, `*` required, `=` its default, `~`
    level 3 says more. `"lossy": true` marks arguments that the short form cannot describe in full. `description` bounds
    that text, `length` both together, in columns; required parameters come first and may go beyond it by half.
    """
    schema = tool.definition.get("inputSchema")
    text = summary(without_beginning(tool.definition, tool.shared), min(description, length), language)
    left = length - columns(text)
    shown: dict[str, str] = {}
    kept: list[Parameter] = []
    for param in parameters(schema, _ABOUT):
        cost = columns(param.name) + columns(param.mark) + _AROUND
        if len(kept) == _PARAMETERS or cost > left + (length // 2 if param.required else 0):
            break
        left -= cost
        shown[param.name] = param.mark
        kept.append(param)
    for param in kept:
        cost = columns(param.about) + 1
        if param.about and cost <= left:
            left -= cost
            shown[param.name] = f"{param.mark} {param.about}"
    left_out = len(parameter_names(schema)) - len(shown)
    answer: dict[str, Any] = {"name": shown_name(tool), "description": text, "parameters": shown}
    if left_out:
        answer["more"] = left_out
    if has_rules(schema):
        answer["lossy"] = True
    return encode(answer).decode()


def level3(
    tool: ToolRecord,
    description: int = 4_000,
    *,
    offset: int = 0,
    read_on: str = "",
    source: Literal["local", "mcp", "aggregator"] | None = None,
    annotations: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Return compact JSON: `name`, `description`, `source`, `server`, `inputSchema`, and if known `returns`,
    `annotations`, `claims` and `examples`.

    `source` is the kind of the tool's server, if known; `server` names it. `description` bounds that text in
    characters; a text that is cut ends with `read_on` and the offset of the rest. With `offset` the rest alone is
    returned. `schema` is the input schema as a policy tightened it, if one did. `returns` is the output schema in the
    short form of level 2. `annotations` are the ones in force, decided by the caller; `claims` are the server's other
    claims, which nothing relies on.
    """
    definition = tool.definition
    whole: Mapping[str, Any] = definition["inputSchema"] if schema is None else schema
    own_text = definition.get("description")
    text = own_text if isinstance(own_text, str) else ""
    if offset:
        return encode({"name": shown_name(tool), "description": _part(text, offset, description, read_on)}).decode()
    answer: dict[str, Any] = {
        "name": shown_name(tool),
        "description": _part(text, 0, description, read_on),
        **({"source": source} if source is not None else {}),
        "server": tool.server,
        "inputSchema": compact(whole, tool.own_name),
    }
    if returns := _returns(definition.get("outputSchema")):
        answer["returns"] = returns
    if annotations:
        answer["annotations"] = annotations
    if claims := _claims(definition.get("annotations"), annotations or {}):
        answer["claims"] = claims
    if shown := examples(whole):
        answer["examples"] = shown
    return encode(answer).decode()


def _returns(schema: Any) -> dict[str, str]:
    """Return the fields of a result as level 2 shows parameters, the first of them; `…` stands for the others."""
    fields = list(islice(parameters(schema, _ABOUT), _RETURNED + 1))
    shown = {field.name: f"{field.mark} {field.about}".rstrip() for field in fields[:_RETURNED]}
    if len(fields) > _RETURNED:
        shown[MARK] = f"{len(parameter_names(schema)) - _RETURNED} more"
    return shown


def _claims(said: Any, counted: Mapping[str, Any]) -> dict[str, bool]:
    if not isinstance(said, Mapping):
        return {}
    return {hint: said[hint] for hint in _HINTS if isinstance(said.get(hint), bool) and counted.get(hint) != said[hint]}


def _part(text: str, offset: int, length: int, read_on: str) -> str:
    """Return a part of a text, and how much is missing."""
    part = excerpt(text.strip(), offset, length)
    if part.next is None:
        return part.text
    more = f"{part.left} more characters: {read_on} {part.next}" if read_on else f"{part.left} characters left out"
    return f"{part.text}{MARK} [{more}]"
