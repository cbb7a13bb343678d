"""Other servers answer for one that is away: real ones, in one application, with their provenance."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import ToolsConfig
from aggregator.domain.call_record import CallRecord
from aggregator.gateway.calls import failover
from aggregator.gateway.calls.provenance import PROVENANCE_KEY
from aggregator.telemetry.metrics import Metrics
from tests.faults.app_harness import AppHarness, Json, code_of, lines_of, raw_stdio, running_app, server_config, text_of
from tests.faults.raw_http import RawHttpServer, never, raw_http
from tests.polling import until

TEXT: Final[Json] = {"type": "object", "properties": {"say": {"type": "string"}}}


def web(raw: RawHttpServer, **fields: Any) -> ServerConfig:
    """The first one, which the test takes away and brings back."""
    return server_config(
        "first", **{"type": "http", "url": raw.url, "fallbacks": ("second",), "limits": {"grace": 0.05}} | fields
    )


def records(harness: AppHarness) -> list[CallRecord]:
    """Return a list that receives every call record from now on."""
    kept: list[CallRecord] = []
    harness.app.telemetry.observers.sinks = (*harness.app.telemetry.observers.sinks, kept.append)
    return kept


def provenance_of(result: Json) -> Json:
    """Return the provenance in a result."""
    assert not result.get("isError"), result
    provenance: Json = result["_meta"][PROVENANCE_KEY]
    return provenance


async def away(harness: AppHarness, raw: RawHttpServer, state: str = "unavailable") -> None:
    await raw.stop()
    await until(lambda: harness.upstream("first").state == state, f"the first is {state}")


async def back(harness: AppHarness, raw: RawHttpServer) -> None:
    await raw.start()
    await until(lambda: harness.upstream("first").state == "ready", "the first is back")


async def test_another_answers_under_the_name_that_was_called() -> None:
    """Proves: C18. The tools stay listed under their own names, the result says who made it, the record says so too."""
    async with raw_http() as raw, running_app(web(raw), raw_stdio("second")) as harness:
        kept = records(harness)
        assert provenance_of(await harness.call("first.echo", say="a"))["server"] == "first"
        await away(harness, raw)
        assert "first.echo" in harness.tools()
        assert "first.odd" in harness.tools(), "though the second has no such tool"
        result = await harness.call("first.echo", say="b")
        assert text_of(result) == "b"
        assert provenance_of(result) == {**provenance_of(result), "server": "second", "in_place_of": "first"}
        assert [(one.called.tool, one.called.server, one.sending.answered_by) for one in kept] == [
            ("first.echo", "first", None),
            ("first.echo", "first", "second"),
        ]
        assert code_of(await harness.call("first.odd")) == "upstream_unavailable"
        assert (kept[-1].called.tool, kept[-1].called.server) == ("first.odd", "first")
        assert kept[-1].outcome.status == "unavailable"
        listed = text_of(await harness.call("list_servers"))
        assert "first (unavailable" in listed
        assert "calls go to second]" in listed
        assert harness.app.report()[1]["servers"]["first"]["answered_by"] == ["second"]
        assert "aggregator_call_fallbacks_total" in b"".join(_metrics(harness, kept)).decode()


def _metrics(harness: AppHarness, kept: list[CallRecord]) -> list[bytes]:
    metrics = Metrics(harness.app.snapshot)
    for record in kept:
        metrics(record)
    return list(metrics.page())


async def test_it_stays_until_the_first_has_been_well_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C18. One that flaps is left alone; after a while of health calls go back to it."""
    async with raw_http() as raw, running_app(web(raw), raw_stdio("second")) as harness:
        await away(harness, raw)
        await harness.call("first.echo", say="b")
        await back(harness, raw)
        assert provenance_of(await harness.call("first.echo", say="c"))["server"] == "second"
        monkeypatch.setattr(failover, "STABLE", 0.0)
        assert provenance_of(await harness.call("first.echo", say="d"))["server"] == "first"
        assert harness.app.report()[1]["servers"]["first"]["answered_by"] == []


async def test_nobody_goes_over_for_a_moment_in_which_nobody_called() -> None:
    """Proves: C18. A drop that no call has met changes nothing."""
    async with raw_http() as raw, running_app(web(raw), raw_stdio("second")) as harness:
        await away(harness, raw)
        await back(harness, raw)
        assert provenance_of(await harness.call("first.echo", say="a"))["server"] == "first"


async def test_a_call_that_may_have_been_run_goes_nowhere_else(tmp_path: Path) -> None:
    """Proves: C18. The process ends in the middle of a call: nobody knows, so nobody runs it again."""
    log = tmp_path / "log"
    first = raw_stdio("first", fallbacks=("second",), limits={"grace": 0.05})
    async with running_app(first, raw_stdio("second", log=log)) as harness:
        assert code_of(await harness.call("first.leave")) == "outcome_unknown"
        await until(lambda: harness.upstream("second").in_flight == 0, "nothing is under way there")
        assert "leave" not in lines_of(log)


async def test_a_circuit_that_is_open_is_reason_enough() -> None:
    """Proves: C18, D7. The first is connected and does not answer."""
    async with raw_http() as raw:
        quick = {"interval": 0.05, "timeout": 0.1, "failures": 1}
        async with running_app(web(raw, health=quick), raw_stdio("second")) as harness:
            raw.on |= {"ping": never}
            await until(lambda: not harness.upstream("first").health.answers, "it is found out")
            assert provenance_of(await harness.call("first.echo", say="b"))["server"] == "second"


async def test_the_third_answers_if_the_second_is_away_too() -> None:
    """Proves: C18, A8. In the order of the config; with nobody left the first one's own state is told."""
    async with raw_http() as raw, raw_http() as other:
        first = web(raw, fallbacks=("second", "third"))
        second = server_config("second", type="http", url=other.url, limits={"grace": 0.05})
        async with running_app(first, second, raw_stdio("third")) as harness:
            await away(harness, raw)
            assert provenance_of(await harness.call("first.echo", say="a"))["server"] == "second"
            await other.stop()
            assert provenance_of(await harness.call("first.echo", say="b"))["server"] == "third"
            await harness.call("third.leave")
            await until(lambda: harness.upstream("third").state == "ready", "the third was started anew")
            assert provenance_of(await harness.call("first.echo", say="c"))["server"] == "third"


async def test_with_nobody_left_the_first_says_why() -> None:
    """Proves: C18, A8. It is what the agent called, so its state is told, and nobody is on record for it."""
    async with raw_http() as raw, raw_http() as other:
        second = server_config("second", type="http", url=other.url, limits={"grace": 0.05})
        async with running_app(web(raw), second) as harness:
            await away(harness, raw)
            kept = records(harness)
            call = harness.call("first.echo", say="a")
            other.on["tools/call"] = never
            await other.stop()
            result = await call
            assert code_of(result) == "upstream_unavailable"
            assert result["content"][0]["text"].startswith("first is unavailable: ")
            assert [(one.outcome.status, one.sending.answered_by) for one in kept] == [("unavailable", None)]


async def test_tools_may_have_stand_ins_of_their_own() -> None:
    """Proves: C18. By name or pattern, under another name; an empty list says none."""
    own = ToolsConfig(fallbacks={"e*": ("second.odd",), "odd": ()})
    async with raw_http() as raw, raw_http() as other:
        second = server_config("second", type="http", url=other.url)
        async with running_app(web(raw, tools=own), second) as harness:
            await away(harness, raw)
            assert harness.tools() == ["first.echo", "first.odd", "second.echo", "second.odd"]
            assert code_of(await harness.call("first.odd", say="a")) == "upstream_unavailable"
            assert provenance_of(await harness.call("first.echo", say="a"))["server"] == "second"
            assert [seen.message["params"]["name"] for seen in other.seen if seen.method == "tools/call"] == ["odd"]


async def test_a_server_that_is_switched_off_is_replaced() -> None:
    """Proves: C18, E5. The tools that another has stay listed; once it is switched on, all are there at once."""
    async with raw_http() as raw, running_app(web(raw), raw_stdio("second")) as harness:
        listed = harness.tools()
        harness.app.supervisor.switch_off("first", "ada", drain=0.0)
        await until(lambda: "first.odd" not in harness.tools(), "what only it has is not listed")
        assert "first.echo" in harness.tools()
        assert provenance_of(await harness.call("first.echo", say="a"))["server"] == "second"
        assert code_of(await harness.call("first.odd")) == "upstream_unavailable"
        await until(lambda: not harness.app.supervisor.upstreams.leaving, "its last connection has ended")  # type: ignore[attr-defined]
        await raw.stop()
        harness.app.supervisor.switch_on("first", drain=0.0)
        await until(lambda: harness.upstream("first").state == "unavailable", "it cannot be reached")
        assert harness.tools() == listed


async def test_an_idle_fallback_is_started(tmp_path: Path) -> None:
    """Proves: C18. It costs no process until it is needed."""
    log = tmp_path / "log"
    second = raw_stdio("second", log=log, start="on_call")
    async with raw_http() as raw, running_app(web(raw), second) as harness:
        await until(lambda: harness.upstream("second").state == "stopped", "it has said what it has")
        before = len(lines_of(log))
        await away(harness, raw)
        assert "first.echo" in harness.tools()
        assert len(lines_of(log)) == before
        assert provenance_of(await harness.call("first.echo", say="a"))["server"] == "second"
        assert harness.upstream("second").state == "ready"


async def test_schemas_that_do_not_go_together_are_refused_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: C18. Once, in the log, for `aggregator check`; and nothing is ever sent there."""
    listing = tmp_path / "tools.json"
    strict = {**TEXT, "required": ["say", "more"]}
    listing.write_text(json.dumps({"tools": [{"name": "echo", "inputSchema": strict}]}))
    async with raw_http() as raw, running_app(web(raw), raw_stdio("second", listing=listing)) as harness:
        problems = harness.app.failover.problems
        assert "second.echo cannot stand in for first.echo: of its arguments, `say` is required there." in problems
        assert "second cannot stand in for these tools of first, since it shows none named odd." in problems
        await away(harness, raw)
        assert code_of(await harness.call("first.echo", say="a")) == "upstream_unavailable"
        assert sum("cannot stand in for first.echo" in record.message for record in caplog.records) == 1
