"""Mistakes of models: answered at once if they have one meaning, else refused in words that lead to a right call."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.config.server_config import ServerConfig
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.gateway.calls.validate import CheckedArguments, Checker
from aggregator.gateway.host import Host
from aggregator.schemas.declared_names import DeclaredNames
from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, error_data, make_config
from tests.access.model_mistakes import MISTAKES, TOOLS, Mistake
from tests.laws import examples
from tests.peers.toolbox import Json
from tests.schemas.samples import sample
from tests.schemas.shapes import SHAPES
from tests.schemas.test_agreement import ORACLES, anything, shapes

ROADS: Final = ("direct", "call_tool", "run_code")


def open_gateway(folder: Path, **entry: Any) -> GatewayHarness:
    config = make_config(folder, {"crm": {"command": "played", **entry}}, expose="code")
    return GatewayHarness(config, {"crm": TOOLS})


async def called(harness: GatewayHarness, mistake: Mistake, road: str, version: str = LEGACY) -> Json:
    """Make a call on a road and return its result."""
    host, params = harness.host("local", version), {"name": mistake.name, "arguments": mistake.arguments}
    if road == "run_code":
        params = {"name": "run_code", "arguments": {"code": f"call_tool({mistake.name!r}, {mistake.arguments!r})"}}
    if road == "call_tool":
        params = {"name": "call_tool", "arguments": params}
    made: Json = (await harness.ask(host, "tools/call", params))["result"]
    return made


def test_the_figures() -> None:
    """Of 72 mistakes, 57 are answered at once, and 15 after one more round."""
    at_once = [name for name, mistake in MISTAKES.items() if mistake.sent is not None]
    assert (len(MISTAKES), len(at_once)) == (72, 57)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", MISTAKES)
async def test_a_mistake(tmp_path: Path, name: str, road: str) -> None:
    """D6: what is sent fits, and what is refused names what came and what was wanted."""
    mistake = MISTAKES[name]
    if road == "direct" and not mistake.direct:
        return
    harness = open_gateway(tmp_path)
    made = await called(harness, mistake, road)
    sent = [call["arguments"] for call in harness.fake_upstreams["crm"].calls]
    assert sent == ([mistake.sent] if mistake.sent is not None else [])
    assert ("isError" in made) is (mistake.sent is None)
    text = made["content"][0]["text"]
    assert not [word for word in mistake.told if word not in text]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_what_was_corrected_is_told(tmp_path: Path, version: str) -> None:
    """In `_meta` of the result, in a few words; and nothing where nothing was corrected."""
    harness = open_gateway(tmp_path)
    mistake = Mistake("crm.list_issues", {"params": {"owner": "a", "repo": "b", "perPage": "5", "labels": None}}, None)
    for road in ("direct", "call_tool"):
        made = await called(harness, mistake, road, version)
        assert made["_meta"]["aggregator/corrected"] == [
            "/params: its members are the arguments",
            "/perPage: as 'per_page'",
            "/perPage: text to integer",
            "/labels: null as absent",
        ]
        plain = await called(harness, Mistake("crm.weather", {"city": "Rome"}, None), road, version)
        assert "aggregator/corrected" not in plain["_meta"]
    many = Mistake("crm.search", {"query": "x", "ids": [str(number) for number in range(40)]}, None)
    told = (await called(harness, many, "direct", version))["_meta"]["aggregator/corrected"]
    assert (len(told), told[-1]) == (11, "30 more")


@pytest.mark.parametrize("off", ["off", False])
async def test_a_strict_server_gets_nothing_corrected(tmp_path: Path, off: object) -> None:
    harness = open_gateway(tmp_path, coerce=off)
    for name, mistake in MISTAKES.items():
        if mistake.direct:
            await called(harness, mistake, "direct")
        for call in harness.fake_upstreams["crm"].calls:
            assert call["arguments"] == mistake.arguments, name
        harness.fake_upstreams["crm"].calls.clear()


async def test_a_lone_value_is_refused_where_a_host_calls_by_name(tmp_path: Path) -> None:
    harness = open_gateway(tmp_path)
    answer = await harness.call(harness.host("local"), "crm.search", {"query": "x", "ids": 7})
    assert error_data(answer)["problems"][0]["pointer"] == "/ids"
    model = Host("v1", "canonical", Principal("local"), LEGACY)
    assert "isError" not in (await harness.call(model, "crm.search", {"query": "x", "ids": 7}))["result"]
    assert [call["arguments"]["ids"] for call in harness.fake_upstreams["crm"].calls] == [[7]]


async def test_arguments_in_one_member_are_unwrapped_through_meta_tools_alone(tmp_path: Path) -> None:
    harness = open_gateway(tmp_path)
    wrapped = Mistake("crm.weather", {"request": {"city": "Rome", "days": "3"}}, None)
    for road, sent in (("call_tool", 1), ("run_code", 2), ("direct", 2)):
        made = await called(harness, wrapped, road)
        assert ("isError" in made) is (road == "direct")
        assert len(harness.fake_upstreams["crm"].calls) == sent
    assert [call["arguments"] for call in harness.fake_upstreams["crm"].calls] == [{"city": "Rome", "days": 3}] * 2


async def test_the_record_has_what_is_sent(tmp_path: Path) -> None:
    """The policy, the record and the server get the same arguments."""
    harness = open_gateway(tmp_path)
    records: list[Any] = []
    harness.app.telemetry.observers.sinks += (records.append,)
    harness.set_policies(
        {"agents": {"local": {"allow": ["*"], "arguments": {"*": {"properties": {"days": {"maximum": 3}}}}}}}
    )
    for name, days, code in (
        *(("days", "3", None), ("days", "4", "invalid_arguments")),
        *(("Days", 3, None), ("_DAYS", 4, "invalid_arguments")),
    ):
        made = await called(harness, Mistake("crm.weather", {"city": "Rome", name: days}, None), "direct")
        assert made["_meta"].get("aggregator/error", {}).get("code") == code
        assert records[-1].arguments == {"city": "Rome", "days": int(days)}
    assert [call["arguments"]["days"] for call in harness.fake_upstreams["crm"].calls] == [3, 3]


RECORDS: Final = {
    name: ToolRecord("s", "s", "go", {"name": "go", "inputSchema": {"type": "object", **schema}}, {}, 1.0)
    for name, schema in SHAPES.items()
}
SERVER: Final = ServerConfig(id="s", key="s", prefix="s", type="local")


@given(shapes, st.integers(0, 10**9) | st.dictionaries(st.text(), anything, max_size=4), st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_what_fits_is_never_changed_and_what_is_sent_fits(name: str, given: Any, by_model: bool) -> None:
    """Proves: D6."""
    value = sample(SHAPES[name], Random(given), slips=0.2) if isinstance(given, int) else given  # noqa: S311
    if not isinstance(value, dict):
        return
    before = json.dumps(value)

    async def check() -> CheckedArguments:
        checker = Checker()
        async with checker.workers:
            return await checker.arguments(SERVER, RECORDS[name], value, (), "a", by_model=by_model)

    checked = asyncio.run(check())
    assert json.dumps(value) == before
    if ORACLES[name].is_valid(value) and not DeclaredNames(SHAPES[name]).has_other_spelling(value):
        assert checked.arguments is value
        assert checked.refusal is None
        assert not checked.corrections
    elif checked.refusal is None:
        assert ORACLES[name].is_valid(checked.arguments)
        assert checked.corrections
