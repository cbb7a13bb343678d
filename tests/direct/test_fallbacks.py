"""Calls of tools in whose place others may answer: without a task as long as their own server answers, and handed on
by a task as in the pipeline if it does not.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    TAKEN_OVER,
    DirectHarness,
    ask,
    child,
    direct_harness,
    free,
    text,
)
from tests.direct.test_between_calls import rules
from tests.direct.test_while_running import ended, running
from tests.peers.toolbox import Json
from tests.polling import until

pytestmark = pytest.mark.usefixtures("through")

# Those of a trusted server that only read may be called again.
SERVERS: Final[dict[str, Json]] = {
    "first": child("legacy", trusted=True, fallbacks=["second"]),
    "second": child("legacy", trusted=True),
}
ONE: Final[Json] = {"n": 1}


async def end_first(it: DirectHarness) -> None:
    """End the server that is asked first."""
    session: Any = it.app.upstreams["first"].shared.session
    session.connection.child.write(
        b'{"id":1000000,"method":"tools/call","params":{"name":"any","arguments":{"writes":[],"leave":3}}}\n'
    )
    await until(lambda: it.app.upstreams["first"].shared.session is not session, "the server has ended")


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_its_own_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A9: a fallback that is not needed costs nothing."""
    async with direct_harness(tmp_path, monkeypatch, SERVERS) as it, it.host(*kind) as host:
        for arguments, way in ((ONE, DIRECT), ({"writes": [text("a")]}, DIRECT), ({"writes": [ERROR]}, TAKEN_OVER)):
            assert (await it.compare(host, {"name": "first.any", "arguments": arguments}))[0] == way
            assert it.records[-1].sending.answered_by is None
        it.nothing_is_left()


ERROR: Final = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"isError":true}}'


@pytest.mark.parametrize("tool", ["reading", "any"])
@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_its_own_server_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str], tool: str
) -> None:
    """A9, F1: the other server answers a call that changes nothing; of any other the host is told of the other tool."""
    async with direct_harness(tmp_path, monkeypatch, SERVERS) as it:
        found = []
        for on in (False, True):
            async with running(it, kind, f"first.{tool}", on=on) as host:
                await end_first(it)
                if tool == "reading":
                    await until(lambda: it.app.upstreams["second"].in_flight == 1, "the other server has it")
                    free(it, "second")
                answer = (await host.receive()).answer
                assert it.way == (TAKEN_OVER if on else PIPELINE)
                record = await ended(it)
            assert record.sending.answered_by == ("second" if tool == "reading" else None)
            found.append((answer["result"].get("content"), answer["result"].get("isError"), record.sending.attempts))
            await until(lambda: it.app.upstreams["first"].state == "ready", "the server is back")
            it.app.gateway._pipeline._failover._current.clear()
        assert found[0] == found[1]
        assert len(found[1][2]) == (2 if tool == "reading" else 1)


async def test_another_server_is_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A9: a call that goes to another server, or may not go there, is for the pipeline; rules may forbid the other."""
    async with direct_harness(tmp_path, monkeypatch, SERVERS, policies=tmp_path / "policies") as it:
        rules(it)
        async with it.host(*HOST_KINDS[0]) as host:
            await ask(host, {"name": "first.any", "arguments": ONE})
            failover: Any = it.app.gateway._pipeline._failover
            failover._current["first", "second"] = "second"
            await ask(host, {"name": "first.any", "arguments": ONE})
            assert (it.way, it.records[-1].sending.answered_by) == (PIPELINE, "second")
            rules(it, deny=["second.*"])
            for way in (DIRECT, DIRECT):
                await ask(host, {"name": "first.any", "arguments": ONE})
                assert (it.way, it.records[-1].sending.answered_by) == (way, None)
            it.app.upstreams["first"].health.circuit.position = "open"
            rules(it)
            await ask(host, {"name": "first.any", "arguments": ONE})
            assert it.way == PIPELINE
        it.nothing_is_left()
