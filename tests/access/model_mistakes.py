"""Mistakes that models make in calls, each with what becomes of it, for tools of the usual shapes.

`sent` is what the tool gets; None if the call is refused, with words that name all of `told`.
"""

from typing import Any, Final, NamedTuple

from tests.access.gateway_harness import tool
from tests.peers.toolbox import Json

_TEXT: Final[Json] = {"type": "string"}
_WHOLE: Final[Json] = {"type": "integer"}
_MAYBE: Final[Json] = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
_UNIT: Final[Json] = {"type": "string", "enum": ["celsius", "fahrenheit"]}


def _closed(name: str, required: list[str], **properties: Any) -> Json:
    """A tool as TypeScript servers define them."""
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": name, "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", **schema}}


def _open(name: str, required: list[str], defs: Json | None = None, **properties: Any) -> Json:
    """A tool as Python servers define them."""
    made = tool(name, properties)
    made["inputSchema"] |= {"required": required, **({"$defs": defs} if defs else {})}
    return made


TOOLS: Final = [
    _open("weather", ["city"], city=_TEXT, unit=_UNIT, days=_MAYBE),
    _closed(
        "list_issues",
        ["owner", "repo"],
        owner=_TEXT,
        repo=_TEXT,
        state={"type": "string", "enum": ["OPEN", "CLOSED", "ALL"]},
        labels={"type": "array", "items": _TEXT},
        per_page={"type": "integer", "minimum": 1, "maximum": 100},
        assigneeId=_WHOLE,
        draft={"type": "boolean"},
    ),
    _open(
        "search",
        ["query"],
        {
            "Filter": {
                "type": "object",
                "properties": {"field": _TEXT, "equals": {"type": "number"}},
                "required": ["field"],
            }
        },
        query=_TEXT,
        filters={"type": "array", "items": {"$ref": "#/$defs/Filter"}},
        within={"$ref": "#/$defs/Filter"},
        options={"type": "object", "properties": {"deep": {"type": "boolean"}, "top": _WHOLE}},
        ids={"type": "array", "items": _WHOLE},
        tags={"type": "array", "items": {"type": "string", "enum": ["red", "green", "dark_blue"]}},
        min_score={"type": "number"},
    ),
    _open("remind", ["when", "text"], when={"type": "string", "format": "date"}, text=_TEXT, id=_TEXT),
]


class Mistake(NamedTuple):
    """A call with a mistake. `name` and `arguments` are those of the call, `sent` and `told` what becomes of it."""

    name: str
    arguments: Any
    sent: Json | None
    told: tuple[str, ...] = ()
    direct: bool = True


_W, _I, _S, _R = "crm.weather", "crm.list_issues", "crm.search", "crm.remind"
_ROME: Final[Json] = {"city": "Rome"}
_REPO: Final[Json] = {"owner": "a", "repo": "b"}
_Q: Final[Json] = {"query": "x"}


def _issue(**more: Any) -> Json:
    return {**_REPO, **more}


def _query(**more: Any) -> Json:
    return {**_Q, **more}


MISTAKES: Final[dict[str, Mistake]] = {
    # Names of tools, which only meta tools read.
    "case of the tool's name": Mistake("CRM.Weather", _ROME, _ROME, direct=False),
    "camel case of the tool's name": Mistake("crm.listIssues", _REPO, _REPO, direct=False),
    "a hyphen in the tool's name": Mistake("crm.list-issues", _REPO, _REPO, direct=False),
    "underscores for the dot": Mistake("crm__list_issues", _REPO, _REPO),
    "only the tool's own name": Mistake("list_issues", _REPO, _REPO, direct=False),
    "a host's prefix": Mistake("mcp__crm__weather", _ROME, _ROME, direct=False),
    # Arguments in another wrapping.
    "arguments inside arguments": Mistake(_W, {"arguments": _ROME}, _ROME),
    "arguments inside input": Mistake(_W, {"input": _ROME}, _ROME),
    "arguments inside params": Mistake(_I, {"params": _REPO}, _REPO),
    "arguments inside parameters": Mistake(_I, {"parameters": _REPO}, _REPO),
    "arguments inside kwargs": Mistake(_W, {"kwargs": _ROME}, _ROME),
    "the whole call": Mistake(_W, {"name": _W, "arguments": _ROME}, _ROME),
    "the whole call with other names": Mistake(_W, {"tool_name": "weather", "parameters": _ROME}, _ROME),
    "arguments twice inside": Mistake(_W, {"input": {"arguments": _ROME}}, _ROME),
    "arguments as a text inside": Mistake(_W, {"arguments": '{"city": "Rome"}'}, _ROME),
    "arguments as a text": Mistake(_W, '{"city": "Rome"}', _ROME, direct=False),
    # Values as texts.
    "a number as a text": Mistake(_I, _issue(per_page="5"), _issue(per_page=5)),
    "a number as a text, which may be null": Mistake(_W, {**_ROME, "days": "3"}, {**_ROME, "days": 3}),
    "a fraction as a text": Mistake(_S, _query(min_score="0.5"), _query(min_score=0.5)),
    "a whole fraction as a text": Mistake(_I, _issue(per_page="5.0"), _issue(per_page=5)),
    "true as a text": Mistake(_I, _issue(draft="true"), _issue(draft=True)),
    "false as Python writes it": Mistake(_I, _issue(draft="False"), _issue(draft=False)),
    "yes for true": Mistake(_I, _issue(draft="yes"), _issue(draft=True)),
    "a list as a text": Mistake(_I, _issue(labels='["bug"]'), _issue(labels=["bug"])),
    "a list as Python writes it": Mistake(_I, _issue(labels="['bug', 'it']"), _issue(labels=["bug", "it"])),
    "a list with a comma at its end": Mistake(_S, _query(ids="[1, 2,]"), _query(ids=[1, 2])),
    "a list in a code fence": Mistake(_S, _query(ids="```json\n[1]\n```"), _query(ids=[1])),
    "an object as a text": Mistake(_S, _query(options='{"deep": true}'), _query(options={"deep": True})),
    "an object as Python writes it": Mistake(
        _S, _query(options="{'deep': True, 'top': 3}"), _query(options={"deep": True, "top": 3})
    ),
    "a list of objects as a text": Mistake(
        _S, _query(filters='[{"field": "a", "equals": "1"}]'), _query(filters=[{"field": "a", "equals": 1}])
    ),
    "texts in a list of numbers": Mistake(_S, _query(ids=["1", "2"]), _query(ids=[1, 2])),
    "objects as texts in a list": Mistake(_S, _query(filters=['{"field": "a"}']), _query(filters=[{"field": "a"}])),
    "a text deep inside": Mistake(_S, _query(options={"top": "3"}), _query(options={"top": 3})),
    "a text behind a reference": Mistake(
        _S, _query(within={"field": "a", "equals": "2"}), _query(within={"field": "a", "equals": 2})
    ),
    # Nothing.
    "null for an optional text": Mistake(_W, {**_ROME, "unit": None}, _ROME),
    "null for an optional list": Mistake(_I, _issue(labels=None), _REPO),
    "null deep inside": Mistake(_S, _query(options={"deep": None}), _query(options={})),
    "null for an argument that does not exist": Mistake(_I, _issue(cursor=None), _REPO),
    "the text null for a number": Mistake(_W, {**_ROME, "days": "null"}, {**_ROME, "days": None}),
    "the text None for an optional number": Mistake(_I, _issue(per_page="None"), _REPO),
    "an empty text for an optional number": Mistake(_I, _issue(per_page=""), _REPO),
    "an empty text for an optional list": Mistake(_I, _issue(labels=""), _REPO),
    # Lone values for lists, from models alone.
    "one text for a list": Mistake(_I, _issue(labels="bug"), _issue(labels=["bug"]), direct=False),
    "one number for a list": Mistake(_S, _query(ids=7), _query(ids=[7]), direct=False),
    "one object for a list": Mistake(
        _S, _query(filters={"field": "a"}), _query(filters=[{"field": "a"}]), direct=False
    ),
    "numbers between commas": Mistake(_S, _query(ids="1, 2"), _query(ids=[1, 2]), direct=False),
    "options between commas": Mistake(_S, _query(tags="red,green"), _query(tags=["red", "green"]), direct=False),
    # Options and names in another spelling.
    "an option in small letters": Mistake(_I, _issue(state="open"), _issue(state="OPEN")),
    "an option in capitals": Mistake(_W, {**_ROME, "unit": "Celsius"}, {**_ROME, "unit": "celsius"}),
    "an option with a space": Mistake(_S, _query(tags=["dark blue"]), _query(tags=["dark_blue"])),
    "camel case of an argument": Mistake(_I, _issue(perPage=5), _issue(per_page=5)),
    "snake case of an argument": Mistake(_I, _issue(assignee_id=5), _issue(assigneeId=5)),
    "capitals of an argument": Mistake(_W, {"City": "Rome"}, _ROME),
    "capitals of an argument that any may stand beside": Mistake(_W, {**_ROME, "Days": 3}, {**_ROME, "days": 3}),
    "snake case deep inside": Mistake(_S, _query(options={"TOP": "3"}), _query(options={"top": 3})),
    # Right as they are.
    "a date in another form": Mistake(_R, {"when": "1/5/26", "text": "x"}, {"when": "1/5/26", "text": "x"}),
    "an argument more where any is taken": Mistake(_W, {**_ROME, "lang": "en"}, {**_ROME, "lang": "en"}),
    # Refused: what the model meant is for the model to say.
    "another case of an argument, and no value for it": Mistake(
        _W, {**_ROME, "Days": "many"}, None, ("days", "'many'")
    ),
    "another word for an argument": Mistake(_W, {"location": "Rome"}, None, ("`location`", "`city`")),
    "another word beside a right one": Mistake(
        _I, {"organization": "a", "repo": "b"}, None, ("organization", "`owner`")
    ),
    "an argument is missing": Mistake(_R, {"when": "2026-01-05"}, None, ("`when`", "`text`")),
    "no arguments": Mistake(_I, {}, None, ("nothing", "`owner`, `repo`")),
    "an argument more where none is taken": Mistake(_I, _issue(page_size=5), None, ("page_size", "no property")),
    "a word for a number": Mistake(_I, _issue(per_page="ten"), None, ("per_page", "an integer", "'ten'")),
    "perhaps for true": Mistake(_I, _issue(draft="perhaps"), None, ("draft", "true or false", "'perhaps'")),
    "an option that does not exist": Mistake(_W, {**_ROME, "unit": "kelvin"}, None, ("unit", "'celsius'", "'kelvin'")),
    "a list of one for a text": Mistake(_W, {"city": ["Rome"]}, None, ("city", "a string", "an array of 1")),
    "a number for a text": Mistake(_W, {"city": 5}, None, ("city", "a string", "5")),
    "a number that is too large": Mistake(_I, _issue(per_page="500"), None, ("per_page", "100", "500")),
    "a word for an object": Mistake(_S, _query(options="deep"), None, ("options", "an object", "'deep'")),
    "null for what is needed": Mistake(_W, {"city": None}, None, ("city", "a string", "null")),
    "another word deep inside": Mistake(_S, _query(within={"name": "a"}), None, ("`name`", "`field`")),
}
