"""A tool at three levels of detail, each as text for a model: one line, the main parameters, the whole schema.

Law: the same record and parameters give the same bytes; nothing here depends on who asks.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from aggregator.catalog.describe.compact_schema import examples, slim
from aggregator.catalog.describe.first_sentence import Language, one_line, summary
from aggregator.catalog.describe.markdown import columns
from aggregator.catalog.describe.parameters import Parameter, has_rules, names, params
from aggregator.catalog.describe.truncate import MARK
from aggregator.domain.names import CANONICAL_LIMIT
from aggregator.domain.records import ToolRecord
from aggregator.wire.codec import encode

LABELS: Final[Mapping[Language, str]] = {"en": "tool", "zh": "工具"}

# What stands round the name and the words of a parameter in JSON.
_AROUND: Final = 6
_ABOUT: Final = 30
_PARAMETERS: Final = 12


def shown_name(tool: ToolRecord) -> str:
    """The canonical `server.tool`; as listed if that has characters no line should have. Calls accept both."""
    name = tool.name
    safe = len(name) <= CANONICAL_LIMIT and name.isprintable() and " " not in name
    return name if safe else tool.listed["canonical"]


def level1(tool: ToolRecord, length: int = 50, *, label: str = "", language: Language = "en") -> str:
    """`server.tool: what it does`, in one line; the words take at most `length` columns (Chinese: two each).

    `label` is put in front in brackets: `[工具] weather.get: ...`; `LABELS` has one for each language.
    """
    words = one_line(tool.definition, length, language)
    front = f"[{label}] " if label else ""
    return f"{front}{shown_name(tool)}: {words}" if words else f"{front}{shown_name(tool)}"


def level2(tool: ToolRecord, length: int = 200, *, description: int = 100, language: Language = "en") -> str:
    """Compact JSON: `name`, `description`, `parameters`, and `more`: how many parameters are not shown.

    A parameter reads `"days": "integer*=3 How many days"`: the type or the options, `*` required, `=` its default,
    `~` level 3 says more. `"lossy": true` says that of the arguments as a whole. `description` bounds that text,
    `length` both together, in columns; required parameters come first and may go beyond it by half.
    """
    schema = tool.definition.get("inputSchema")
    text = summary(tool.definition, min(description, length), language)
    room = length - columns(text)
    shown: dict[str, str] = {}
    kept: list[Parameter] = []
    for param in params(schema, _ABOUT):
        cost = columns(param.name) + columns(param.mark) + _AROUND
        if len(kept) == _PARAMETERS or cost > room + (length // 2 if param.required else 0):
            break
        room -= cost
        shown[param.name] = param.mark
        kept.append(param)
    for param in kept:
        cost = columns(param.about) + 1
        if param.about and cost <= room:
            room -= cost
            shown[param.name] = f"{param.mark} {param.about}"
    left_out = len(names(schema)) - len(shown)
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
    output: bool = False,
    source: Literal["local", "mcp", "aggregator"] | None = None,
    annotations: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Compact JSON: `name`, `description`, `source`, `server`, `inputSchema`, and where there are any: `annotations`,
    `examples`.

    `source` says what kind of server the tool is from, where that is known, `server` which one. `description` bounds
    that text in characters. `schema` is the input schema as a policy tightened it, if one did; `annotations` are those
    that count, as the caller decided; `output` adds the tool's `outputSchema`.
    """
    definition = tool.definition
    whole: Mapping[str, Any] = definition["inputSchema"] if schema is None else schema
    said = definition.get("description")
    answer: dict[str, Any] = {
        "name": shown_name(tool),
        "description": _bounded(said if isinstance(said, str) else "", description),
        **({"source": source} if source is not None else {}),
        "server": tool.server,
        "inputSchema": slim(whole, tool.own_name),
    }
    if annotations:
        answer["annotations"] = annotations
    if shown := examples(whole):
        answer["examples"] = shown
    if output and isinstance(definition.get("outputSchema"), Mapping):
        answer["outputSchema"] = slim(definition["outputSchema"], tool.own_name)
    return encode(answer).decode()


def _bounded(text: str, length: int) -> str:
    """The text, or as many of its words as fit, and how much is missing."""
    text = text.strip()
    if len(text) <= length:
        return text
    kept = text[:length]
    words = kept.rsplit(None, 1)[0] if not text[length].isspace() and len(kept.split(None, 1)) > 1 else kept
    if len(words) < length * 0.8:
        words = kept
    words = words.rstrip()
    return f"{words}{MARK} [{len(text) - len(words)} characters left out]"
