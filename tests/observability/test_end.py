"""The program ends while calls run: asked to, or killed. What was answered is on record, as far as was promised."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aggregator.adapters.inprocess import open_inside
from tests.audit.logs import verdict_on
from tests.end_to_end.programs import serving, start
from tests.end_to_end.scripted_host import BOUND, ENVELOPE, LEGACY, MODERN, ScriptedHost, over_http
from tests.end_to_end.server_harness import write_config
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.observability.cases import trace_of
from tests.observability.observed_harness import calls_in
from tests.peers.toolbox import Json, text_result
from tests.polling import until
from tests.telemetry.receiver import Receiver


class SlowServer(RawHttpServer):
    """Answers once it may; `odd` with an error of the protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.on = {"tools/call": self._call}
        self.waiting = 0
        self.may = asyncio.Event()
        self.may.set()

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        self.waiting += 1
        await self.may.wait()
        if seen.message["params"]["name"] == "odd":
            await reply.error(seen, 200, -32000, "odd")
        else:
            await reply.result(seen, text_result("done"))


@pytest.fixture
async def slow() -> AsyncIterator[SlowServer]:
    server = SlowServer()
    async with raw_http(server):
        yield server


def configured(folder: Path, slow: SlowServer, settings: Json | None = None, **audit: Any) -> tuple[Path, Path]:
    """A configuration, and the database it names."""
    database = folder / "aggregator.db"
    more = {"storage": f"sqlite+aiosqlite:///{database}", "audit": audit, **(settings or {})}
    return write_config(folder, {"slow": {"url": slow.url}}, **more), database


def numbered(number: int) -> dict[str, str]:
    """The trace that a call is told by afterwards."""
    return {"traceparent": "00-{}-{}-01".format(*trace_of(number))}


def on_record(database: Path) -> list[int]:
    """The numbers of the calls that have a row, in the order of their rows."""
    return [int(row["trace_id"], 16) & 0xFFFFFFFF for row in calls_in(database)]


async def test_asked_to_stop_it_answers_and_records_what_runs(
    tmp_path: Path, slow: SlowServer, receiver: Receiver
) -> None:
    """Proves: D9. SIGTERM in the middle of calls: each is answered, and has its row and its span; so has one that comes
    too late."""
    config, database = configured(tmp_path, slow, flush_interval="30s")
    numbers = range(100, 130)
    async with serving(config) as served, over_http(served.url, MODERN) as host:
        await host.named("slow.echo")
        slow.may.clear()
        calls = [host.call("slow.echo", {}, **numbered(number)) for number in numbers]
        await until(lambda: slow.waiting == len(calls))
        served.process.terminate()
        await until(lambda: takes_nothing_new(host))
        late = (await host.call("slow.echo", {}, **numbered(150)).message())["error"]
        slow.may.set()
        answers = [await call.result() for call in calls]
        async with asyncio.timeout(BOUND):
            assert await served.process.wait() == 0
    assert [answer["content"] for answer in answers] == [text_result("done")["content"]] * len(calls)
    assert sorted(on_record(database)) == [*numbers, 150]
    refused, *others = calls_in(database)
    assert (refused["status"], refused["error_code"]) == ("unavailable", late["data"]["code"])
    assert {row["status"] for row in others} == {"ok"}
    sent = [span for span in receiver.spans if span.kind == "server"]
    assert sorted(span.trace_id for span in sent) == sorted(row["trace_id"] for row in calls_in(database))
    assert (await verdict_on(database)).faults == ()


async def test_calls_that_the_end_cuts_off_are_on_record_as_such(tmp_path: Path, slow: SlowServer) -> None:
    """Proves: D9. A host's own program is asked to stop while calls run that do not end: nobody knows what became of
    them, which is what the host is told and what stands in the log."""
    config, database = configured(tmp_path, slow, {"shutdown_timeout": "100ms"}, flush_interval="30s")
    process = await start("stdio", "--config", str(config))
    assert process.stdin is not None
    slow.may.clear()
    try:
        for number in range(200, 220):
            params = {"name": "slow.echo", "_meta": {**ENVELOPE, **numbered(number)}}
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
        await until(lambda: slow.waiting == 20)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND):
            out, told = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, told.decode()
    answers = {message["id"]: message["result"] for message in map(json.loads, out.splitlines()) if "id" in message}
    assert answers.keys() == set(range(200, 220))
    assert sorted(on_record(database)) == sorted(answers)
    told_codes = {answer["_meta"]["aggregator/error"]["code"] for answer in answers.values()}
    assert told_codes == {row["error_code"] for row in calls_in(database)} == {"outcome_unknown"}


async def test_killed_it_loses_the_newest_rows_at_most(tmp_path: Path, slow: SlowServer) -> None:
    """Proves: D9. What was written stays written and whole; what is lost came after it. The log goes on from there."""
    config, database = configured(tmp_path, slow, flush_interval="50ms")
    async with serving(config) as served, over_http(served.url, LEGACY[-1]) as host:
        await host.named("slow.echo")
        made = 0
        # Rows come while calls go on: nothing is waited for but the interval.
        while len(on_record(database)) < 30:
            assert made < 5000
            for number in range(300 + made, 310 + made):
                await host.call("slow.echo", {}, **numbered(number)).result()
            made += 10
        served.process.kill()
        await served.process.wait()
        host.wire.session = None  # type: ignore[attr-defined]
    found = on_record(database)
    assert 30 <= len(found) <= made
    assert found == list(range(300, 300 + len(found)))
    async with open_inside(config, "shop", "canonical") as after:
        await after.call("slow.echo", {})
    assert on_record(database)[:-1] == found
    assert (await verdict_on(database)).faults == ()


async def test_killed_in_strict_mode_it_loses_nothing_it_has_answered(tmp_path: Path, slow: SlowServer) -> None:
    """Proves: D9. Results, refusals and errors of the protocol alike; what else is there was under way."""
    config, database = configured(tmp_path, slow, durability="strict")
    answered: dict[int, Mapping[str, Any]] = {}
    asked: set[int] = set()

    async def call_on(host: ScriptedHost, first: int) -> None:
        for number in range(first, first + 1000):
            name = ("slow.echo", "slow.odd", "slow.nothing", "search_tools")[number % 4]
            asked.add(number)
            answered[number] = await message_of(host, name, number)

    async with serving(config) as served, over_http(served.url, MODERN) as host:
        await host.named("slow.echo")
        callers = [asyncio.create_task(call_on(host, 1000 * caller)) for caller in range(1, 7)]
        await until(lambda: len(answered) >= 120)
        served.process.kill()
        await served.process.wait()
        ended = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(one, Exception) for one in ended), "they were cut off"
    found = on_record(database)
    assert len(set(found)) == len(found)
    assert answered.keys() <= set(found) <= asked
    assert {"result", "error"} <= {key for answer in answered.values() for key in answer}
    assert (await verdict_on(database)).faults == ()


async def test_killed_in_strict_mode_it_knows_what_it_had_begun(tmp_path: Path, slow: SlowServer) -> None:
    """D9: Calls that reached their server, and were not answered, are on record once: as interrupted, by the next
    start, whatever its mode. Nothing reached the server that is not on record."""
    config, database = configured(tmp_path, slow, durability="strict")
    async with serving(config) as served, over_http(served.url, MODERN) as host:
        await host.named("slow.echo")
        await host.call("slow.echo", {}, **numbered(400)).result()
        slow.may.clear()
        calls = [host.call("slow.echo", {}, **numbered(number)) for number in range(401, 411)]
        await until(lambda: slow.waiting == 11)
        assert on_record(database) == [400]
        served.process.kill()
        await served.process.wait()
        ended = await asyncio.gather(*(call.result() for call in calls), return_exceptions=True)
    assert all(isinstance(one, Exception) for one in ended), "they were cut off"
    slow.may.set()
    again = json.loads(config.read_text())
    config.write_text(json.dumps({**again, "audit": {"durability": "default"}}))
    for _ in range(2):
        async with open_inside(config, "shop", "canonical") as after:
            await after.call("slow.echo", {})
            await until(lambda: len(on_record(database)) > 11)
    found = [row["status"] for row in calls_in(database) if 400 <= int(row["trace_id"], 16) & 0xFFFFFFFF < 411]
    assert sorted(found) == ["interrupted"] * 10 + ["ok"]
    assert (await verdict_on(database)).faults == ()


async def message_of(host: ScriptedHost, name: str, number: int) -> Json:
    message: Json = await host.call(name, {}, **numbered(number)).message()
    return message


async def takes_nothing_new(host: ScriptedHost) -> bool:
    return "error" in await host.ask("resources/list").message()
