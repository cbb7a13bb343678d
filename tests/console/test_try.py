"""Trying a tool at the console: a form made of its schema, and a call like any other."""

import json
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.frontends.console.schema_form import FormFault, form_fields, read_form
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import OWN_PAGE, ConsoleHarness, post
from tests.observability.observed_harness import calls_in
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json, text_result
from tests.polling import until

CANARY: Final = "sk-canary-0123456789abcdef"
SEND: Final = tool(
    "send",
    {
        "to": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "urgent": {"type": "boolean"},
        "size": {"enum": ["small", "北京\u202e", 3]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "free": {},
    },
)
SEND["inputSchema"]["required"] = ["to"]
POLICY: Final = {
    "agents": {
        "clerk": {
            "allow": ["crm.*"],
            "confirm": ["crm.pay"],
            "confirm_by": "queue",
            "confirm_wait": 0,
            "limits": {"crm.rare": {"per_minute": 1}},
        },
        "reader": {"allow": ["crm.look"]},
    }
}


@pytest.fixture
def toolbox() -> RecordingToolbox:
    says = text_result(f"<script>alert(1)</script> {CANARY} \u202e")
    return RecordingToolbox([SEND, tool("pay"), tool("look"), tool("rare"), tool("says")], {"says": says})


@pytest.fixture
def crm(background: BackgroundLoop, tmp_path: Path, toolbox: RecordingToolbox) -> ConsoleHarness:
    return ConsoleHarness(background, tmp_path, {"crm": toolbox.config_entry(invisible_characters="keep")}, POLICY)


async def tried(maria: httpx2.AsyncClient, name: str, **fields: str) -> Json:
    """Try a tool, and return what the page says of the call."""
    answer = await post(maria, f"/console/tools/{name}/try.json", **{"as": "clerk", **fields})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()["tried"]
    return found


def keys(crm_fields: list[Json]) -> dict[str, str]:
    """Return the keys of the fields of a form by the names of their arguments."""
    found = {one["name"]: one["key"] for one in crm_fields}
    for one in crm_fields:
        found |= {f"{one['name']}.{name}": key for name, key in keys(one["inner"]).items()}
    return found


async def test_a_filled_in_form_is_a_call_on_record(crm: ConsoleHarness, toolbox: RecordingToolbox) -> None:
    """Proves: E5, E12"""
    async with crm.signed_in("operator", "maria") as maria:
        page: Json = (await maria.get("/console/tools/crm.send.json")).json()
        key = keys(page["form"])
        given = {"to": " a\u202eb ", "count": "3", "price": "1.5", "urgent": "false", "size": "3", "tags": "x\r\n\r\ny"}
        given |= {"place.city": "Paris", "free": '{"deep": [1, null]}'}
        form = {key[name]: value for name, value in given.items()} | {"version": page["version"]}
        found = await tried(maria, "crm.send", **form)
        assert not found["failed"]
        shown = (await maria.get("/console/tools/crm.send")).text
        assert "北京" in shown
        assert "\u202e" not in shown
        assert found["texts"] == ["did send"]
        empty = await tried(maria, "crm.send", **{key["to"]: "b"})
        assert not empty["failed"]
    assert toolbox.calls[0]["arguments"] == {
        "to": " a\u202eb ",
        "count": 3,
        "price": 1.5,
        "urgent": False,
        "size": 3,
        "tags": ["x", "y"],
        "place": {"city": "Paris"},
        "free": {"deep": [1, None]},
    }
    assert toolbox.calls[1]["arguments"] == {"to": "b"}, "what is left empty is left out"
    database = Path(crm.database_url.partition("///")[2])
    await until(lambda: len(calls_in(database)) == 2)
    row = next(one for one in calls_in(database) if one["trace_id"] == found["trace_id"])
    assert (row["frontend"], row["user_id"], row["agent_id"], row["status"]) == ("console", "maria", "clerk", "ok")


async def test_policy_confirmation_and_limits_hold_as_for_any_call(
    crm: ConsoleHarness, toolbox: RecordingToolbox
) -> None:
    """Proves: E5"""
    async with crm.signed_in("operator", "maria") as maria:
        refused = await tried(maria, "crm.pay", **{"as": "reader"}, arguments="{}")
        assert refused["code"] == "tool_not_allowed"
        asked = await tried(maria, "crm.pay", arguments='{"amount": 5}')
        assert asked["code"] == "approval_pending"
        assert not (await tried(maria, "crm.rare", arguments="{}"))["failed"]
        assert (await tried(maria, "crm.rare", arguments="{}"))["failed"], "one a minute"
        wrong = await tried(maria, "crm.send", arguments='{"to": 5}')
        assert wrong["failed"]
    assert [one["name"] for one in toolbox.calls] == ["rare"]
    database = Path(crm.database_url.partition("///")[2])
    await until(lambda: len(calls_in(database)) == 5)
    assert {one["status"] for one in calls_in(database)} >= {"denied", "pending", "ok", "invalid"}


async def test_what_cannot_be_read_is_not_called(crm: ConsoleHarness, toolbox: RecordingToolbox) -> None:
    async with crm.signed_in("operator") as maria:
        page: Json = (await maria.get("/console/tools/crm.send.json")).json()
        key = keys(page["form"])
        bad = await post(maria, "/console/tools/crm.send/try", **{"as": "clerk", key["to"]: "a", key["count"]: "3x"})
        assert bad.status_code == 400
        assert "count must be a whole number" in bad.text
        assert 'value="3x"' in bad.text, "what was filled in stays"
        for fields in ({"arguments": "[1]"}, {"arguments": "{"}, {key["size"]: '"huge"'}, {key["free"]: "{" * 20_000}):
            answer = await post(maria, "/console/tools/crm.send/try.json", **{"as": "clerk", **fields})
            assert answer.status_code == 400, fields
        for fields, status in (({"as": ""}, 400), ({"as": "nobody"}, 400), ({"as": "clerk", "version": "0"}, 409)):
            answer = await post(maria, "/console/tools/crm.send/try.json", **fields, arguments='{"to": "a"}')
            assert answer.status_code == status
    async with crm.signed_in("approver", "jonas") as jonas:
        assert '<form class="stack try"' not in (await jonas.get("/console/tools/crm.send")).text
        assert (await post(jonas, "/console/tools/crm.send/try", **{"as": "clerk"})).status_code == 403
    assert not toolbox.calls


async def test_an_answer_is_inert_and_without_secrets(background: BackgroundLoop, tmp_path: Path) -> None:
    says = text_result(f"<script>alert(1)</script> {CANARY} \u202e" + "x" * 200_000)
    other = RecordingToolbox([tool("says")], {"says": says})
    crm = ConsoleHarness(background, tmp_path, {"crm": other.config_entry()}, POLICY)

    async with crm.signed_in("operator") as maria:
        form = {"as": "clerk", "arguments": "{}"}
        whole = await post(maria, "/console/tools/crm.says/try", **form)
        part = await maria.post(
            "/console/tools/crm.says/try",
            data={**form, "csrf": _token(whole.text)},
            headers={**OWN_PAGE, "hx-request": "true"},
        )
    for page in (whole, part):
        assert page.status_code == 200
        assert "It answered" in page.text
        assert "<script>alert" not in page.text
        assert "U+202E" in page.text
        assert CANARY not in page.text
        assert len(page.content) < 400_000
    assert "<html" not in part.text


def _token(page: str) -> str:
    return page.partition('name="csrf" value="')[2].partition('"')[0]


async def test_a_switched_off_server_refuses_in_words(crm: ConsoleHarness, toolbox: RecordingToolbox) -> None:
    async with crm.signed_in("operator") as maria:
        assert (await post(maria, "/console/servers/crm/disable")).status_code == 303
        found = await tried(maria, "crm.look", arguments="{}")
    assert found["failed"]
    assert "crm is disabled: an operator switched it off" in found["texts"][0]
    assert not toolbox.calls


# -- forms of any schema

_ENDLESS: Final[Json] = {"type": "object", "properties": {}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
_ENDLESS["properties"] = {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#"}, "c": {"$ref": "http://other/"}}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        {"properties": []},
        {"properties": {"a": None, "b": True, "c": 5, "d": {"type": 5}, "e": {"enum": {}}, "f": {"items": 3}}},
        _ENDLESS,
        {"properties": {f"p{n}": {"type": "string"} for n in range(5_000)}},
        {"properties": {"a": {"enum": list(range(5_000))}}, "required": [1, None, "nowhere"]},
    ],
)
def test_any_schema_gives_a_small_form(schema: Any) -> None:
    fields = form_fields(schema)
    assert len(json.dumps([one.as_data({}) for one in fields])) < 100_000
    assert read_form(fields, {}) == {}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "maxLength": 80}, "text"),
        ({"type": "string", "maxLength": 81}, "long text"),
        ({"type": "string", "maxLength": "81"}, "text"),
        ({"type": ["string", "null"], "maxLength": 500}, "long text"),
        ({"type": ["null", "integer"]}, "integer"),
        ({"type": ["string", "integer"]}, "json"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "yes or no"),
        ({"type": "array"}, "json"),
        ({"type": "array", "items": {"type": "string"}}, "list"),
        ({"type": "array", "items": {"type": "object"}}, "json"),
        ({"enum": ["a", "b"]}, "choice"),
        ({"type": "null"}, "json"),
        ({}, "json"),
    ],
)
def test_each_type_has_its_field(schema: Json, kind: str) -> None:
    """Of a text, one line or several: a person sees what can be written."""
    (field,) = form_fields({"properties": {"a": schema}})
    assert field.kind == kind


def test_numbers_are_read_as_json_has_them() -> None:
    (field,) = form_fields({"properties": {"n": {"type": "number"}}})
    for text, value in (("5", 5), ("-2.5", -2.5), ("1e3", 1000.0), ("99999999999999999999", 99999999999999999999)):
        assert read_form((field,), {field.key: text}) == {"n": value}
    for text in ("nan", "inf", "1e999", "five", "9" * 5_000):
        with pytest.raises(FormFault, match="must be a number"):
            read_form((field,), {field.key: text})
