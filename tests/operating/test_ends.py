"""SIGTERM while work is under way that does not end by itself: each kind of work, at each frontend, has its own end.

Its host gets words that say whether anything was done, its row tells the same, the log tells of no error, and the
program ends with 0.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import pytest

from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import run
from tests.end_to_end.scripted_host import (
    BOUND,
    MODERN,
    NO_TLS,
    VERSIONS,
    HttpWire,
    ScriptedHost,
    over_http,
    over_sse,
)
from tests.operating.program_harness import ProgramHarness, server, stdio_program
from tests.peers.toolbox import Json
from tests.polling import until

LEGACY: Final = VERSIONS[0]
FRONTENDS: Final = (("http", LEGACY), ("http", MODERN), ("sse", LEGACY), ("stdio", LEGACY), ("v1", ""))
CAN_BE_ASKED: Final[Json] = {"elicitation": {}}
TOKEN: Final = "ends"


class Asker:
    """A host at one frontend of a running program."""

    def __init__(self, harness: ProgramHarness, process: Program, host: ScriptedHost | None) -> None:
        self.harness = harness
        self.process = process
        self.host = host
        self.log: list[str] = []

    async def answer(self, method: str, params: Json) -> Json:
        """Return the answer to a request, whatever it is."""
        if self.host is not None:
            if method == "resources/read":
                params = {"uri": (await self.host.ask("resources/list").result())["resources"][0]["uri"]}
            return await self.host.ask(method, params, {"progressToken": TOKEN}).message()
        assert self.harness.served is not None
        async with httpx2.AsyncClient(base_url=self.harness.served.url, verify=NO_TLS, timeout=BOUND) as client:
            answer: Json = (await client.post("/v1/tool_calls", json={"tool_call": params})).json()
        return answer

    # -- when work is under way

    async def sent(self) -> None:
        """The server has the request."""
        await until(lambda: asyncio.to_thread(self.harness.folder.joinpath("go.begun").exists), "the server has it")

    async def asked(self) -> None:
        """The host was asked something."""
        assert self.host is not None
        await self.host.inbox.named("elicitation/create")

    async def computes(self) -> None:
        """The program has made its last call."""
        assert self.host is not None
        await self.host.inbox.until(
            lambda message: message.get("method") == "notifications/progress" and message["params"]["progress"] == 2
        )

    async def queued(self) -> None:
        """The question waits in the queue of approvals."""

        async def waits() -> bool:
            listed = await run("approvals", "list", "--json", "--config", str(self.harness.config))
            return "box.who" in listed.out

        await until(waits, "it is queued")


class Kind(NamedTuple):
    """A kind of work: the request, when it is under way, and what its host and its row are told; `inner` are the codes
    of the calls that it made, which have rows of their own.
    """

    method: str
    params: Json
    begun: Callable[[Asker], Awaitable[None]]
    code: str
    at: Callable[[str, str], bool] = lambda frontend, version: True
    inner: tuple[str | None, ...] = ()
    rules: Mapping[str, Any] = {}


def called(tool: str, **arguments: Any) -> Json:
    return {"name": tool, "arguments": arguments}


def speaks_mcp(frontend: str, version: str) -> bool:
    return frontend != "v1"


def can_be_asked_meanwhile(frontend: str, version: str) -> bool:
    return version == LEGACY


COMPUTING: Final = "search_tools('a')\nsearch_tools('b')\nwhile True:\n    pass"
CALLING: Final = "call_tool('box.wait', {'file': 'FILE'})"
CATCHING: Final = f"while True:\n    try:\n        {CALLING}\n    except RuntimeError:\n        pass"
SLEEPING: Final = "search_tools('a')\nsearch_tools('b')\nimport asyncio\nawait asyncio.sleep(10)"
INNER: Final = ("outcome_unknown",)
KINDS: Final = {
    "a call": Kind("tools/call", called("box.wait", file="FILE"), Asker.sent, "outcome_unknown"),
    "a call by a meta tool": Kind(
        "tools/call",
        called("call_tool", name="box.wait", arguments={"file": "FILE"}),
        Asker.sent,
        "outcome_unknown",
    ),
    "a read": Kind("resources/read", {}, Asker.sent, "outcome_unknown", speaks_mcp),
    "a program that calls": Kind(
        "tools/call", called("run_code", code=CALLING), Asker.sent, "outcome_unknown", inner=INNER
    ),
    "a program that goes on": Kind(
        "tools/call", called("run_code", code=CATCHING), Asker.sent, "outcome_unknown", inner=INNER
    ),
    "a program that computes": Kind(
        "tools/call",
        called("run_code", code=COMPUTING),
        Asker.computes,
        "outcome_unknown",
        speaks_mcp,
        inner=(None, None),
    ),
    "a confirmation at the host": Kind(
        "tools/call",
        called("box.who"),
        Asker.asked,
        "shutting_down",
        can_be_asked_meanwhile,
        rules={"confirm": ["box.who"]},
    ),
    "an approval": Kind(
        "tools/call",
        called("box.who"),
        Asker.queued,
        "approval_pending",
        rules={"confirm": ["box.who"], "confirm_by": "queue"},
    ),
    "a question of the server": Kind(
        "tools/call", called("box.ask"), Asker.asked, "outcome_unknown", can_be_asked_meanwhile
    ),
}
CASES: Final = [
    pytest.param(what, frontend, version, id=f"{kind}, {frontend} {version}".rstrip())
    for kind, what in KINDS.items()
    for frontend, version in FRONTENDS
    if what.at(frontend, version)
]


@asynccontextmanager
async def asking(harness: ProgramHarness, frontend: str, version: str) -> AsyncIterator[Asker]:
    """A running program and a host of it."""
    if frontend == "stdio":
        log: list[str] = []
        async with stdio_program(harness.config, version, CAN_BE_ASKED, log) as (process, host):
            await host.named("run_code")
            asker = Asker(harness, process, host)
            asker.log = log
            yield asker
        return
    async with harness.serving() as served:
        if frontend == "v1":
            asker = Asker(harness, served.process, None)
            asker.log = served.log
            yield asker
            return
        connect = over_sse if frontend == "sse" else over_http
        async with connect(served.url, version, capabilities=CAN_BE_ASKED) as host:
            asker = Asker(harness, served.process, host)
            asker.log = served.log
            yield asker
            if isinstance(host.wire, HttpWire):
                # The program is gone: there is nobody to end the session at.
                host.wire.session = None


def code_of(answer: Json) -> str | None:
    """Return the code of an answer that is no result, in whatever form its frontend has it."""
    error = answer.get("error") or answer.get("result", {}).get("_meta", {}).get("aggregator/error") or {}
    code: str | None = error.get("data", {}).get("code") or error.get("code")
    return code


def with_file(params: Json, file: Path) -> Json:
    filled: Json = json.loads(json.dumps(params).replace("FILE", str(file)))
    return filled


@pytest.mark.parametrize(("kind", "frontend", "version"), CASES)
async def test_each_kind_of_work_has_its_own_end(
    harness: ProgramHarness, kind: Kind, frontend: str, version: str
) -> None:
    """Proves: C3, C4. With words, on record, and in time: the program waits for nothing else."""
    marks = harness.folder / "go.begun"
    policies = harness.folder / "policies"
    policies.mkdir()
    rules = {"allow": ["*", "resource:*"], "expose": "code", **kind.rules}
    (policies / "all.yaml").write_text(json.dumps({"agents": {"local": rules}}))
    harness.write_config({"box": server("--marks", str(marks))}, expose="code", shutdown_timeout="100ms")
    async with asking(harness, frontend, version) as asker, asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(asker.answer(kind.method, with_file(kind.params, harness.folder / "go")))
        await kind.begun(asker)
        asker.process.terminate()
        async with asyncio.timeout(BOUND):
            assert code_of(await asked) == kind.code, await asked
            assert await asker.process.wait() == 0
    log = "".join(asker.log)
    assert " ERROR " not in log, log
    assert "Traceback" not in log, log
    rows = [row for row in await harness.audit() if "status" in row]
    assert [row.get("error_code") for row in rows] == [*kind.inner, kind.code]
