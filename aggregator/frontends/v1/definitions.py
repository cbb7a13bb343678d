"""Tools in the forms of model APIs: MCP, OpenAI, Anthropic; and a short form in words."""

from typing import Any, Final

from aggregator.catalog.describe.compact_schema import compact
from aggregator.catalog.describe.first_sentence import Language, summary
from aggregator.catalog.describe.levels import shown_name
from aggregator.catalog.describe.markdown import columns
from aggregator.catalog.describe.parameters import parameters
from aggregator.dialects.gateway import described
from aggregator.dialects.mend.apis import APIS, ModelApi
from aggregator.dialects.mend.build import CannotMend
from aggregator.dialects.mend.mend import mend
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord

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
    found = _mended(tool, APIS["openai"])
    function = {"name": tool.listed["compatible"], **found}
    function["parameters"] = function.pop("schema")
    return {"type": "function", "function": function}


def anthropic(tool: ToolRecord) -> dict[str, Any]:
    """Return a tool of Anthropic's Messages API, named as `server__tool`."""
    found = _mended(tool, APIS["anthropic"])
    found["input_schema"] = found.pop("schema")
    return {"name": tool.listed["compatible"], **found}


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


def _mended(tool: ToolRecord, api: ModelApi) -> dict[str, Any]:
    """Return the description and the schema of a tool in the dialect of a model API.

    Raises:
        NotPortable: the API accepts no form of it.
    """
    try:
        schema, rules, _, _ = mend(compact(tool.definition["inputSchema"], tool.own_name), api)
    except CannotMend as why:
        raise NotPortable(f"{api.title} takes no form of it: {why}.") from why
    schema = {**schema, "properties": schema.get("properties", {})}
    said = described(tool.definition, rules, api.description)
    return {"description": said, "schema": schema} if said else {"schema": schema}
