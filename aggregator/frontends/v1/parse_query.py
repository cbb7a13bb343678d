"""Parse the parameters of `GET /v1/tools` and `POST /v1/intent`, in their documented form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl

from aggregator.frontends.v1.errors import BadRequest

if TYPE_CHECKING:
    from aggregator.catalog.describe.first_sentence import Language

Format = Literal["mcp", "openai", "anthropic", "seed"]

_FIELDS_AT_MOST: Final = 50
_COUNT: Final = {"type": "integer", "minimum": 1}
_LANGUAGE: Final = {"type": "string", "enum": ["en", "zh"]}
_LABEL: Final = {"type": "string", "maxLength": 20}

# Name -> JSON Schema with a description; the parser below and the OpenAPI document are both made of it.
PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "query": {
        "type": "string",
        "maxLength": 2_000,
        "description": "Words to search for: the tools that fit, best first.",
    },
    "message": {
        "type": "string",
        "maxLength": 20_000,
        "description": "What a person wrote: the tools it asks for by name or by a server's keywords, none if it asks "
        "for none. Not together with `query` or `server`.",
    },
    "server": {"type": "string", "maxLength": 200, "description": "Only tools of this server, by id or prefix."},
    "limit": {**_COUNT, "description": "At most so many tools."},
    "max_tokens": {
        **_COUNT,
        "description": "Only as many tools, whole and in order, as cost a model about so many tokens.",
    },
    "level": {
        "type": "integer",
        "enum": [1, 2, 3],
        "description": "Texts for a prompt: 1 a line each, 2 compact JSON with the main parameters, 3 with the whole "
        "schema. 1 if neither this nor `format` is given.",
    },
    "format": {
        "type": "string",
        "enum": ["mcp", "openai", "anthropic", "seed"],
        "description": "Definitions instead of texts: `mcp` as `tools/list` has them, `openai` for Chat Completions, "
        "`anthropic` for Messages; `seed` with the parameters in words (level 2, also with `level=1` as labelled lines "
        "and with `level=3` with the whole schema).",
    },
    "language": {
        **_LANGUAGE,
        "description": "The language of what is made up for tools that say nothing of themselves, and of the label. "
        "`en`; with `format=seed` `zh`.",
    },
    "label": {**_LABEL, "description": "Level 1: a word in brackets before each line, such as `工具`."},
}

INTENT_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "message": {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "What a person wrote."},
    "limit": {**_COUNT, "maximum": 100, "default": 10, "description": "At most so many tools."},
}


@dataclass(frozen=True, slots=True)
class ToolsQuery:
    """The parsed query of `GET /v1/tools`: the selected tools, and their format."""

    query: str | None
    message: str | None
    server: str | None
    limit: int | None
    max_tokens: int | None
    level: int
    format: Format | None
    language: "Language"
    label: str | None

    @property
    def texts(self) -> bool:
        """Return whether texts are wanted, not definitions."""
        return self.format is None or (self.format == "seed" and self.level == 1)


def read_tools_query(query: str) -> ToolsQuery:
    """Parse a query string.

    Raises:
        BadRequest: a parameter is unknown, repeated, not as documented, or contradicts another.
    """
    given = _parameters(query)
    form, level = given.get("format"), given.get("level")
    if "message" in given and (other := {"query", "server"} & set(given)):
        raise BadRequest("message", f"`message` does not go with `{min(other)}`.")
    if form in ("mcp", "openai", "anthropic") and level in (1, 2):
        raise BadRequest(
            "level", f"`format={form}` has whole definitions: leave `level` out, or ask for texts without `format`."
        )
    language = given.get("language", "zh" if form == "seed" else "en")
    level = level or (2 if form == "seed" else 3 if form is not None else 1)
    if "label" in given and level != 1:
        raise BadRequest("label", "`label` goes with `level=1`.")
    return ToolsQuery(
        given.get("query"),
        given.get("message"),
        given.get("server"),
        given.get("limit"),
        given.get("max_tokens"),
        level,
        form,
        language,
        given.get("label"),
    )


def read_intent(body: Any) -> tuple[str, int]:
    """Return the message of a body, and the most tools to return.

    Raises:
        BadRequest: a field is missing or not as documented.
    """
    if not isinstance(body, dict):
        raise BadRequest("", "The body must be a JSON object.")
    message = body.get("message")
    if not isinstance(message, str) or not message.strip():
        raise BadRequest("message", "`message` must be a text that is not empty.")
    if len(message) > INTENT_FIELDS["message"]["maxLength"]:
        raise BadRequest("message", f"`message` may have {INTENT_FIELDS['message']['maxLength']} characters at most.")
    limit = body.get("limit", INTENT_FIELDS["limit"]["default"])
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= INTENT_FIELDS["limit"]["maximum"]:
        raise BadRequest("limit", f"`limit` must be a whole number from 1 to {INTENT_FIELDS['limit']['maximum']}.")
    return message, limit


def _parameters(query: str) -> dict[str, Any]:
    """Return the parameters by name, converted to their types; empty ones are left out."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_FIELDS_AT_MOST)
    except ValueError:
        raise BadRequest("", f"A query has {_FIELDS_AT_MOST} parameters at most.") from None
    given: dict[str, Any] = {}
    for name, value in pairs:
        schema = PARAMETERS.get(name)
        if schema is None:
            raise BadRequest(name[:80], f"There is no parameter {name!r:.80}; there are {', '.join(PARAMETERS)}.")
        if name in given:
            raise BadRequest(name, f"`{name}` is there twice.")
        given[name] = _value(name, value, schema)
    return {name: value for name, value in given.items() if value != ""}


def _value(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    options = schema.get("enum")
    value: Any = text
    if schema["type"] == "integer":
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        if value is None or (options is None and value < schema["minimum"]):
            raise BadRequest(name, f"`{name}` must be a whole number from 1.")
    elif len(text) > schema.get("maxLength", len(text)):
        raise BadRequest(name, f"`{name}` may have {schema['maxLength']} characters at most.")
    if options is not None and value not in options:
        raise BadRequest(name, f"`{name}` must be one of {', '.join(map(str, options))}.")
    return value
