"""Log lines reach the host whose call they belong to, at the level it wants, under the name of the server."""

from typing import Any, Final

import pytest

from tests.end_to_end.scripted_host import META, MODERN, VERSIONS, ScriptedHost
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.toolbox import Json
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import stdio_entry
from tests.server_requests.replies import text_as_json

UPSTREAMS: Final = ("stdio_modern", "stdio_legacy", "http_modern", "http_legacy", "sse")
LINES: Final[list[Json]] = [
    {"level": "debug", "data": "quiet", "logger": "inner/db"},
    {"level": "info", "data": {"deep": [1, None]}, "x-vendor": 1},
    {"level": "error", "data": "loud", "logger": "", "_meta": {"com.example/a": 1, f"{META}subscriptionId": "x"}},
    {"level": "shout", "data": "no level at all"},
]

everywhere = pytest.mark.parametrize("frontend", FRONTENDS)
every_era = pytest.mark.parametrize("version", VERSIONS)
every_upstream = pytest.mark.parametrize("upstream", UPSTREAMS)


def lines(host: ScriptedHost) -> list[Json]:
    return [m["params"] for m in host.inbox.messages if m.get("method") == "notifications/message"]


async def logged(host: ScriptedHost, upstream: str, level: str | None) -> list[Json]:
    """Return the log messages that a host with this level receives of one call."""
    before = len(lines(host))
    meta: dict[str, Any] = {}
    if host.modern and level is not None:
        meta = {f"{META}logLevel": level}
    elif level is not None:
        assert await host.ask("logging/setLevel", {"level": level}).result() == {}
    await host.call(f"{upstream}.log", {"lines": LINES}, **meta).result()
    return lines(host)[before:]


@everywhere
@every_era
@every_upstream
async def test_a_host_gets_the_levels_it_wants(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """From the level it names, with the server's name before the logger's; without one, as its era has it."""
    expected = [
        {"level": "debug", "data": "quiet", "logger": f"{upstream}/inner/db"},
        {"level": "info", "data": {"deep": [1, None]}, "x-vendor": 1, "logger": upstream},
        {"level": "error", "data": "loud", "logger": upstream, "_meta": {"com.example/a": 1}},
    ]
    async with harness.host(frontend, version) as host:
        # In the handshake eras a server decides; in the modern one it says nothing that was not asked for.
        assert await logged(host, upstream, None) == ([] if version == MODERN else expected[1:])
        assert await logged(host, upstream, "error") == expected[2:]
        assert await logged(host, upstream, "debug") == expected
        assert await logged(host, upstream, "emergency") == []


@everywhere
@every_upstream
async def test_two_hosts_want_different_things(harness: ServerHarness, frontend: str, upstream: str) -> None:
    """One after the other: each hears of its own call, as it wants it."""
    async with harness.host(frontend, "2025-11-25") as one, harness.host(frontend, "2025-11-25") as other:
        assert [line["level"] for line in await logged(one, upstream, "debug")] == ["debug", "info", "error"]
        assert [line["level"] for line in await logged(other, upstream, "critical")] == []
        assert [line["level"] for line in await logged(one, upstream, None)] == ["debug", "info", "error"]
        assert lines(other) == []


async def test_servers_are_told_what_to_log(open_harness: OpenHarness) -> None:
    """A server of the handshake eras the most that anybody wants, when it is wanted; a modern one with each request."""
    harness = open_harness({"old": stdio_entry("legacy"), "new": stdio_entry("modern")})
    async with harness.host("sse", "2025-11-25") as host, harness.host("http", MODERN) as modern:
        assert text_as_json(await host.call("old.seen").result())["levels"] == []
        assert f"{META}logLevel" not in text_as_json(await host.call("new.seen").result())["meta"]
        await host.ask("logging/setLevel", {"level": "error"}).result()
        assert text_as_json(await host.call("old.seen").result())["levels"] == ["info"]
        assert text_as_json(await host.call("new.seen").result())["meta"][f"{META}logLevel"] == "error"
        levels = text_as_json(await modern.call("old.seen", None, **{f"{META}logLevel": "debug"}).result())["levels"]
        assert levels == ["info", "debug"]
        assert text_as_json(await host.call("old.seen").result())["levels"] == ["info", "debug"]


@everywhere
async def test_a_level_that_is_none(harness: ServerHarness, frontend: str) -> None:
    """Refused where it is set; with a request it is as good as none."""
    async with harness.host(frontend, "2025-11-25") as host:
        assert "logging" in host.greeting["capabilities"]
        for level in ("loud", None, 3, ["info"]):
            assert (await host.ask("logging/setLevel", {"level": level}).error())["code"] == -32602
    async with harness.host(frontend, MODERN) as host:
        assert await logged(host, "stdio_legacy", "loud") == []
        assert (await host.ask("logging/setLevel", {"level": "info"}).error())["code"] == -32601
        assert (await host.ask("ping").error())["code"] == -32601


async def test_lines_that_may_be_another_hosts_go_to_nobody(open_harness: OpenHarness, key: str) -> None:
    """On a pipe that two hosts use at once nothing tells whose they are."""
    harness = open_harness({"one": stdio_entry("legacy")})
    async with harness.host("sse", "2025-11-25") as host, harness.host("http", "2025-11-25") as other:
        held = other.call("one.hold", {"key": key})
        await host.call("one.witness", {"entry": f"started {key}"}).result()
        await host.call("one.log", {"lines": LINES}).result()
        await host.call("one.release", {"key": key}).result()
        await held.result()
        assert lines(host) == lines(other) == []
        assert await logged(host, "one", "error")
