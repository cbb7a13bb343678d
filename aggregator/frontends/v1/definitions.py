"""Tools in the forms of model APIs: MCP, OpenAI, Anthropic; and a short form in words."""

import re
from typing import Any, Final

from aggregator.catalog.describe.compact_schema import compact
from aggregator.catalog.describe.first_sentence import Language, summary
from aggregator.catalog.describe.levels import shown_name
from aggregator.catalog.describe.markdown import columns
from aggregator.catalog.describe.parameters import parameters
from aggregator.catalog.describe.truncate import MARK
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.frontends.v1.portable_schema import PortableSchema, portable

# OpenAI refuses a function whose description is longer.
OPENAI_DESCRIPTION: Final = 1_024
# Anthropic refuses tools with parameters of other names.
ANTHROPIC_PARAMETER: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

_SHORT_DESCRIPTION: Final = 100
_SHORT: Final = 200
_ABOUT: Final = 30
# Quotes and comma round a parameter in JSON.
_AROUND: Final = 5


class NotPortable(Exception):
    """A tool that a model API would refuse, together with the whole request."""


def mcp(tool: ToolRecord, style: Style) -> dict[str, Any]:
    """Return the whole definition as `tools/list` has it, with unknown fields."""
    return {**tool.definition, "name": tool.listed[style]}


def openai(tool: ToolRecord) -> dict[str, Any]:
    """Return a tool of OpenAI's Chat Completions and compatible APIs, named as `server__tool`."""
    schema, rules = _portable(tool)
    function: dict[str, Any] = {"name": tool.listed["compatible"]}
    if said := _description(tool, rules, OPENAI_DESCRIPTION):
        function["description"] = said
    return {"type": "function", "function": {**function, "parameters": schema}}


def anthropic(tool: ToolRecord) -> dict[str, Any]:
    """Return a tool of Anthropic's Messages API, named as `server__tool`.

    Raises:
        NotPortable: Anthropic does not accept the name of a parameter.
    """
    schema, rules = _portable(tool)
    for name in schema["properties"]:
        if not ANTHROPIC_PARAMETER.fullmatch(name):
            raise NotPortable(f"Anthropic takes no parameter with the name {name!r:.80}.")
    definition: dict[str, Any] = {"name": tool.listed["compatible"]}
    if said := _description(tool, rules, None):
        definition["description"] = said
    return {**definition, "input_schema": schema}


def short(tool: ToolRecord, language: Language) -> dict[str, Any]:
    """Return name, description and the main parameters in words (`"city: 城市名"`), in some 200 columns."""
    text = summary(tool.definition, _SHORT_DESCRIPTION, language)
    space = _SHORT - columns(text)
    shown: list[str] = []
    for param in parameters(tool.definition["inputSchema"], _ABOUT):
        line = f"{param.name}: {param.about or param.kind}"
        space -= columns(line) + _AROUND
        if space < 0 and not param.required:
            break
        shown.append(line)
    return {"name": shown_name(tool), "description": text, "params": shown}


def short_whole(tool: ToolRecord) -> dict[str, Any]:
    """Return name, whole description and whole schema, for a call that is certain."""
    said = tool.definition.get("description")
    text = said if isinstance(said, str) else ""
    return {"name": shown_name(tool), "description": text, "parameters": tool.definition["inputSchema"]}


def _portable(tool: ToolRecord) -> PortableSchema:
    return portable(compact(tool.definition["inputSchema"], tool.own_name))


def _description(tool: ToolRecord, rules: tuple[str, ...], limit: int | None) -> str:
    """Return the description of a tool, or its title, and below it the rules, which are never truncated for it."""
    said = tool.definition.get("description")
    if not isinstance(said, str) or not said.strip():
        title = tool.definition.get("title")
        said = title if isinstance(title, str) else ""
    ruled = "\n".join(rules)
    if limit is not None:
        ruled = _cut(ruled, limit // 2)
        said = _cut(said, limit - len(ruled) - 1)
    return f"{said}\n{ruled}" if said and ruled else said or ruled


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}{MARK}"
