"""The durations of sessions: of hosts over every frontend, and with upstreams, each with the error that ended it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.app.app import App
from aggregator.config.server_config import ServerConfig
from aggregator.frontends.web import body_limits
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.snapshot import Snapshot
from tests.access.secured_harness import SecuredHarness, write_policies
from tests.bounds.web_harness import MODERN as MODERN_HEADERS
from tests.bounds.web_harness import call, head, web_harness
from tests.end_to_end.scripted_host import MODERN, VERSIONS
from tests.end_to_end.server_harness import FRONTENDS, local_entry
from tests.faults.app_harness import raw_stdio, running_app, server_config
from tests.faults.raw_http import raw_http
from tests.peers.serving import BackgroundLoop
from tests.polling import until

POLICIES: Final = {"agents": {"one": {"allow": ["*"]}, "two": {"allow": ["*"]}}}
# What the metrics of other sessions share: revision, transport and error, as far as a row has them.
Row = tuple[str, str, str]


def metered(app: App) -> Metrics:
    """Count what happens from now on."""
    return app.telemetry.enable_metrics(Snapshot)


def counts(metrics: Metrics, side: str) -> dict[Row, int]:
    """Return how many sessions are over, by their labels."""
    found: dict[Row, int] = {}
    for family in text_string_to_metric_families(b"".join(metrics.page()).decode()):
        for sample in family.samples:
            if sample.name == f"mcp_{side}_session_duration_seconds_count":
                labels = sample.labels
                key = labels["mcp_protocol_version"], labels.get("network_transport", ""), labels.get("error_type", "")
                found[key] = found.get(key, 0) + int(sample.value)
    return found


def seconds(metrics: Metrics, side: str) -> float:
    """Return the sum of all durations."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(b"".join(metrics.page()).decode())
        for sample in family.samples
        if sample.name == f"mcp_{side}_session_duration_seconds_sum"
    )


def errors(metrics: Metrics) -> list[str]:
    """Return the errors of the sessions with upstreams that are over, of each session one; empty without one."""
    return sorted(key[2] for key, count in counts(metrics, "client").items() for _ in range(count))


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredHarness]:
    with BackgroundLoop() as running:
        yield SecuredHarness(running, tmp_path, {"shop": local_entry()}, POLICIES, ("one", "two"))


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_of_a_host(secured: SecuredHarness, frontend: str, version: str) -> None:
    """Proves: D9. Counted when it ends; hosts of 2026-07-28 have none."""
    metrics = metered(secured.app)
    async with secured.connect_as((frontend, version), "one") as host:
        await host.ask("tools/list").message()
        assert counts(metrics, "server") == {}
    if version == MODERN:
        async with secured.connect_as(("http", VERSIONS[0]), "one"):
            pass
        await until(lambda: counts(metrics, "server"))
        assert [key[0] for key in counts(metrics, "server")] == [VERSIONS[0]]
    else:
        transport = "pipe" if frontend == "stdio" else "tcp"
        await until(lambda: counts(metrics, "server") == {(version, transport, ""): 1})
        assert 0 < seconds(metrics, "server") < 60


@pytest.mark.parametrize("frontend", ["http", "sse"])
async def test_a_session_whose_key_is_taken_away(secured: SecuredHarness, frontend: str) -> None:
    """Proves: D9. It ends by an error; those of other keys go on."""
    metrics = metered(secured.app)
    async with (
        secured.connect_as((frontend, VERSIONS[0]), "two") as other,
        secured.connect_as((frontend, VERSIONS[0]), "one"),
    ):
        lines = json.loads((secured.policies / "keys.yaml").read_text())["agents"]
        write_policies(secured.policies, {"agents": {"two": lines["two"]}}, "keys.yaml")
        await until(lambda: counts(metrics, "server") == {(VERSIONS[0], "tcp", "revoked"): 1})
        await other.ask("tools/list").message()


async def test_a_session_whose_host_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. Its stream is given up, which is an error."""
    monkeypatch.setattr(body_limits, "UNREAD_BYTES", 200_000)
    async with web_harness(tmp_path) as it, it.connect() as poster:
        metrics = metered(it.app)
        async with it.connect(small=True) as deaf:
            deaf.send(head("GET", "/sse"))
            assert (await deaf.answer()).status == 200
            target = (await deaf.event()).decode()
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2024-11-05"}}
            await poster.ask(target, hello)
            large = {"name": "up.echo", "arguments": {"size": 1_000_000}}
            for number in range(8):
                message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": large}
                await poster.ask(target, message)
            await until(lambda: it.refused("unread") == 1, "it was given up")
        await until(lambda: counts(metrics, "server") == {("2024-11-05", "tcp", "unread"): 1})
        assert (await poster.ask("/mcp", call(), **MODERN_HEADERS)).status == 200


async def test_a_stream_without_a_handshake_is_no_session(tmp_path: Path) -> None:
    """Proves: D9. Whoever opens a stream and leaves changes no figure."""
    async with web_harness(tmp_path) as it:
        metrics = metered(it.app)
        async with it.connect() as silent:
            silent.send(head("GET", "/sse"))
            assert (await silent.answer()).status == 200
        await until(lambda: it.app.gateway.admission.in_use["sessions"] == 0)
        assert counts(metrics, "server") == {}


async def test_an_upstream_that_ends(tmp_path: Path) -> None:
    """Proves: D9. Its session ended by an error, and the next one is a session of its own."""
    async with running_app(raw_stdio("frail", limits={"reconnect_wait": 0.01})) as harness:
        metrics = metered(harness.app)
        await harness.call("frail.leave")
        await until(lambda: harness.upstream("frail").lifecycle.state == "ready" and errors(metrics))
        await harness.check_echo("frail.echo")
        assert errors(metrics) == ["connection_lost"]


def server(name: str, url: str, **limits: Any) -> ServerConfig:
    return server_config(name, type="http", url=url, protocol="legacy", limits=limits)


async def test_an_upstream_that_is_taken_out_or_rests(tmp_path: Path) -> None:
    """Proves: D9. Neither is an error, whatever the connection is."""
    async with raw_http() as raw:
        resting = server("resting", raw.url, idle_timeout=0.05)
        program = raw_stdio("program", limits={"idle_timeout": 0.05})
        async with running_app(server("web", raw.url), resting, program) as harness:
            # What rested before this is not counted; each is woken.
            await until(lambda: all(harness.upstream(name).state == "stopped" for name in ("resting", "program")))
            metrics = metered(harness.app)
            await harness.check_echo("resting.echo")
            await harness.check_echo("program.echo")
            await until(lambda: {key[1] for key in counts(metrics, "client")} == {"tcp", "pipe"})
            before = len(errors(metrics))
            harness.app.supervisor.reconfigure([resting, program], (), 5.0)
            await until(lambda: len(errors(metrics)) > before)
            assert set(errors(metrics)) == {""}


async def test_a_session_that_the_server_forgot() -> None:
    """Proves: D9. It expired, and the one in its place ends by itself."""
    async with raw_http() as raw, running_app(server("web", raw.url)) as harness:
        metrics = metered(harness.app)
        raw.sessions.clear()
        await harness.check_echo("web.echo")
        # That of the lists expires too, once they are read again.
        assert set(errors(metrics)) == {"session_expired"}
        address = [sample.labels for sample in client_rows(metrics)]
        assert {(one["server_address"], one["server_port"]) for one in address} == {
            ("127.0.0.1", raw.url.rsplit(":", 1)[1].partition("/")[0])
        }
        harness.app.supervisor.reconfigure([], (), 5.0)
        await until(lambda: "" in errors(metrics))
        assert set(errors(metrics)) == {"", "session_expired"}


def client_rows(metrics: Metrics) -> list[Any]:
    return [
        sample
        for family in text_string_to_metric_families(b"".join(metrics.page()).decode())
        if family.name == "mcp_client_session_duration_seconds"
        for sample in family.samples
    ]


async def test_an_upstream_that_is_given_up() -> None:
    """Proves: D9. As it is when it answers no health checks, though its connection is open."""
    async with running_app(raw_stdio("frail", limits={"reconnect_wait": 600})) as harness:
        metrics = metered(harness.app)
        shared = harness.upstream("frail").shared
        assert shared.session is not None
        shared.lose(shared.session, "it does not answer")
        await until(lambda: errors(metrics))
        assert errors(metrics) == ["given_up"]


@pytest.mark.parametrize(
    ("mode", "listing", "failure"), [("leaves_after_list", None, "connection_lost"), ("serve", 5, "given_up")]
)
async def test_a_start_that_fails_after_the_handshake(tmp_path: Path, mode: str, listing: object, failure: str) -> None:
    """Proves: D9. The session that there was for a moment ended by an error."""
    path = None
    if listing is not None:
        path = tmp_path / "listing.json"
        path.write_text(json.dumps({"tools": listing}))
    async with running_app(raw_stdio("short", mode, listing=path, limits={"reconnect_wait": 0.01})) as harness:
        metrics = metered(harness.app)
        await until(lambda: len(errors(metrics)) > 1)
        assert set(errors(metrics)) == {failure}
