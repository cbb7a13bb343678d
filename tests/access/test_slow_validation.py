"""Arguments and results whose check may take long: others are answered first, and one that is cut says so."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from aggregator.gateway.meta.registry import META_TOOLS
from tests.access.gateway_harness import MODERN, GatewayHarness, error_data, make_config, tool
from tests.peers.toolbox import Json, without_provenance

# As of the server that stalled everybody for 27 seconds with a result of 60 kB.
OPTIONS: Final = [{"properties": {f"x{n}": {"type": "string"}}} for n in range(2_000)]
HOSTILE: Final = {"type": "object", "anyOf": OPTIONS, "unevaluatedProperties": False}
WIDE: Final = {f"p{n}": n for n in range(4_000)}
TOOLS: Final = [
    {"name": "take", "inputSchema": HOSTILE},
    tool("put", {"all": {"type": "array"}}),
]
# Nothing is checked in another process in so short a time.
AT_ONCE: Final = {"timeout": 0.000_001}
AMPLE: Final = {"timeout": 60}
SAID: Final[Json] = {"content": [{"type": "text", "text": "all of it"}], "structuredContent": WIDE}


@asynccontextmanager
async def harness(
    folder: Path, checks: Json, policies: Json | None = None, report_schema: Json = HOSTILE, mode: str = "warn"
) -> AsyncIterator[GatewayHarness]:
    """Build a gateway with one server whose schemas are hostile and one ordinary server."""
    servers = {"crm": {"command": "played", "output_validation": mode}, "shop": {"command": "played"}}
    tools = [tool("report", outputSchema=report_schema), *TOOLS]
    made = GatewayHarness(make_config(folder, servers, checks=checks), {"crm": tools, "shop": [tool("get")]}, policies)

    async def report(params: Json) -> Json:
        return SAID

    made.fake_upstreams["crm"].answer = report
    async with made:
        yield made


@pytest.mark.parametrize("name", ["crm.report", "crm.take"])
async def test_others_are_answered_while_one_is_checked(tmp_path: Path, name: str) -> None:
    """Proves: D11. Their calls come after it and end before it, however long it takes."""
    async with harness(tmp_path, AMPLE) as made:
        host, slow = made.host("local"), asyncio.create_task(made.call(made.host("local"), name, dict(WIDE)))
        answered = 0
        await asyncio.sleep(0)
        while not slow.done() and answered < 200:
            assert "isError" not in (await made.call(host, "shop.get"))["result"]
            answered += 1
        assert answered == 200, "it was checked before anybody else was answered"
        await slow


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_arguments_that_were_not_checked_are_not_sent(tmp_path: Path, version: str) -> None:
    """Proves: D6. The refusal says so, in words and to programs."""
    async with harness(tmp_path, AT_ONCE) as made:
        answer = await made.call(made.host("local", version), "crm.take", dict(WIDE))
        error = error_data(answer)
        assert (error["code"], error["status"], error["reason"], error["retryable"]) == (
            "check_cut",
            503,
            "time",
            False,
        )
        assert "crm.take was not called" in answer["result"]["content"][0]["text"]
        assert made.sent == []


async def test_a_policy_that_makes_a_check_long_is_held_to_the_same(tmp_path: Path) -> None:
    """Proves: D6. What an agent's own schema adds counts too."""
    rule = {"properties": {"all": {"uniqueItems": True, "items": {"enum": [{"a": n} for n in range(300)]}}}}
    policies = {"agents": {"one": {"allow": ["*"], "arguments": {"crm.put": rule}}}}
    arguments = {"all": [{"a": n} for n in range(299)]}
    async with harness(tmp_path, AT_ONCE, policies) as made:
        assert error_data(await made.call(made.host("one"), "crm.put", arguments))["code"] == "check_cut"
        assert made.sent == []
    async with harness(tmp_path, AMPLE, policies) as made:
        assert "isError" not in (await made.call(made.host("one"), "crm.put", arguments))["result"]
        twice = {"all": [*arguments["all"], {"a": 0}]}
        error = error_data(await made.call(made.host("one"), "crm.put", twice))
        assert [problem["keyword"] for problem in error["problems"]] == ["uniqueItems"]


@pytest.mark.parametrize("mode", ["warn", "enforce", "off"])
async def test_a_result_that_was_not_checked_says_so(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D6. It passes with a note, or under `enforce` without its structured part."""
    async with harness(tmp_path, AT_ONCE, mode=mode) as made:
        result = (await made.call(made.host("local"), "crm.report"))["result"]
    told = [record for record in caplog.records if "was not checked against its outputSchema" in record.message]
    assert len(told) == (mode != "off")
    if mode == "enforce":
        error = result["_meta"]["aggregator/error"]
        assert (error["code"], error["status"], error["reason"], error["retryable"]) == (
            "check_cut",
            502,
            "time",
            False,
        )
        assert result["isError"] is True
        assert result["content"][-1] == SAID["content"][0]
        assert "structuredContent" not in result
        return
    note = result["_meta"].pop("aggregator/unchecked", None)
    assert note == ({"code": "check_cut", "reason": "time"} if mode == "warn" else None)
    assert without_provenance(result) == json.loads(json.dumps(SAID))


async def test_a_result_that_fits_in_the_end_has_no_note(tmp_path: Path) -> None:
    """Proves: D6. It is checked all the same, only elsewhere."""
    fitting = {"type": "object", "additionalProperties": {"type": "integer"}, "anyOf": OPTIONS[:400]}
    async with harness(tmp_path, AMPLE, report_schema=fitting, mode="enforce") as made:
        result = (await made.call(made.host("local"), "crm.report"))["result"]
        assert without_provenance(result) == json.loads(json.dumps(SAID))
        assert made.app.gateway._pipeline.checker.workers.started == 1


async def test_arguments_of_our_own_tools_are_checked_in_the_same_way(tmp_path: Path) -> None:
    """Proves: D11. A host may send anything there too."""
    async with harness(tmp_path, AT_ONCE) as made:
        for name in META_TOOLS:
            # Without a database there is nothing to read on in.
            if name not in ("call_tool", "read_result"):
                many = {"query": [[n] for n in range(100_000)]}
                assert error_data(await made.call(made.host("local"), name, many))["code"] == "check_cut"
