"""Servers that run only while somebody needs them: `start`, `limits.idle_timeout`, and what is listed meanwhile."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aggregator.app import catalog_sync as catalog_cache
from aggregator.app.build import build_app
from aggregator.app.catalog_sync import catalog_of, fingerprint
from aggregator.cli import check, tools
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import LimitsConfig
from aggregator.domain.errors import HostError
from aggregator.domain.uris.exposed import wrapped
from aggregator.gateway.host import Host
from aggregator.storage.database import open_database
from aggregator.upstream.lifecycle import idle as rest
from aggregator.upstream.sessions.negotiate import Negotiated
from tests.faults.app_harness import BOUND, AppHarness, Json, lines_of, raw_stdio, running_app, text_of
from tests.faults.test_cached_catalog import GatedServer, listed, notified_methods
from tests.peers.processes import is_alive
from tests.polling import until

GREETING = Negotiated("2025-06-18", {"name": "r"}, {"tools": {}}, None)
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "hang", "leave")]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_cache, "COALESCE", 0.01)
    monkeypatch.setattr(catalog_cache, "LAST_MOMENT", BOUND)


@pytest.fixture
def gated(tmp_path: Path) -> GatedServer:
    """A server that starts when it is told, and a database."""
    made = GatedServer(tmp_path)
    made.has("echo", "hang")
    made.open()
    return made


@asynccontextmanager
async def remembering(storage: str, *servers: ServerConfig) -> AsyncIterator[AppHarness]:
    """The product with a database in which all of these have been seen; a list would wait for minutes."""
    async with open_database(storage) as database:
        for config in servers:
            kept = catalog_of(config.id, fingerprint(config), "stdio", GREETING, {"tool": TOOLS})
            await database.catalogs.keep(kept, now=1e9)
    async with running(storage, *servers) as harness:
        yield harness


@asynccontextmanager
async def running(storage: str, *servers: ServerConfig) -> AsyncIterator[AppHarness]:
    app = build_app(Config(servers=servers, startup_wait=600, straggler_wait=600), None, storage, keeps_records=True)
    async with app.running():
        yield AppHarness(app)


def starts(log: Path) -> list[int]:
    """The processes there have been."""
    return [int(line.split()[1]) for line in lines_of(log) if line.startswith("start")]


async def until_idle(harness: AppHarness, name: str) -> None:
    await until(
        lambda: harness.upstream(name).state == "stopped" and harness.upstream(name).shared.session is None,
        f"{name} is asleep",
    )


async def test_a_hundred_servers_of_which_three_run(gated: GatedServer, tmp_path: Path) -> None:
    """Proves: C4, D11, F4. All are listed at once; those that are called are started, each once, and no other."""
    log = tmp_path / "log"
    many = [
        raw_stdio(f"s{number}", log=log, start="on_call", protocol="legacy", on_new="show") for number in range(100)
    ]
    async with remembering(gated.storage, *many) as harness:
        assert len(await listed(harness)) == 300
        calls = [harness.call(f"s{number}.echo", say="x") for number in (3, 50, 99) for _ in range(10)]
        answers = await asyncio.gather(*calls)
        assert {text_of(answer) for answer in answers} == {"x"}
        assert len(starts(log)) == 3
        states = [upstream.state for upstream in harness.app.upstreams.values()]
        assert (states.count("ready"), states.count("stopped")) == (3, 97)
        assert harness.app.report()[0], "it is ready"
        assert len(await listed(harness)) == 97 * 3 + 3 * 11


async def test_one_start_for_all_who_wait(gated: GatedServer, tmp_path: Path) -> None:
    """Proves: C4. Also where the start takes its time: they wait for it as long as a call may take."""
    log = tmp_path / "log"
    config = gated.config(start="on_call", env={"RAW_LOG": str(log)})
    gated.close()
    async with remembering(gated.storage, config) as harness:
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.leave"]
        assert harness.upstream("shop").state == "stopped"
        assert harness.upstream("shop").reason == "it starts with its first call"
        calls = [asyncio.create_task(harness.call("shop.echo", say="x")) for _ in range(20)]
        await until(lambda: harness.upstream("shop").state == "starting", "it is wanted")
        assert not any(call.done() for call in calls)
        assert harness.app.report()[0], "one that is woken does not make the program unready"
        gated.open()
        assert {text_of(answer) for answer in await asyncio.gather(*calls)} == {"x"}
        assert len(starts(log)) == 1


async def test_nothing_but_use_starts_it(gated: GatedServer) -> None:
    """Proves: C4, F4. Lists, searches, descriptions and wrong names do not; hosts hear of no change."""
    async with remembering(gated.storage, gated.config(start="on_call")) as harness:
        heard = notified_methods(harness)
        await listed(harness)
        for name, arguments in (
            ("search_tools", {"query": "echo"}),
            ("describe_tools", {"names": ["shop.echo"]}),
            ("list_servers", {}),
        ):
            text_of(await harness.ask("tools/call", {"name": name, "arguments": arguments}))
        for method in ("resources/list", "prompts/list"):
            await harness.ask(method, {})
        with pytest.raises(Exception, match="Unknown tool"):
            await harness.call("shop.ecko")
        assert harness.upstream("shop").state == "stopped"
        assert heard == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": wrapped("shop", "demo://a")}),
        ("prompts/get", {"name": "shop.greet"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "shop.greet"}, "argument": {}}),
    ],
)
async def test_a_read_and_a_prompt_start_it(gated: GatedServer, method: str, params: Json) -> None:
    """Proves: C4. Though only its tools are known from the last time; this one turns out to have no such thing."""
    async with remembering(gated.storage, gated.config(start="on_call")) as harness:
        await listed(harness)
        assert harness.upstream("shop").state == "stopped"
        with pytest.raises(HostError):
            await harness.ask(method, params)
        assert harness.upstream("shop").state == "ready"


# The keywords that a schema has got since the last time, the refusal of a call that fitted it then, and what is listed
# afterwards. Calls that were approved would fail: the definition is held.
CHANGED_SINCE: dict[str, tuple[Json, str, list[str]]] = {
    "bounded": ({"maxProperties": 0}, "tool_held", []),
    "steered": ({"required": ["word"]}, "tool_held", []),
}


@pytest.mark.parametrize("change", CHANGED_SINCE)
async def test_what_starts_is_asked_before_it_is_called(gated: GatedServer, change: str) -> None:
    """Proves: F4, D2. What is only known from the last time does not decide what is called now."""
    keywords, refusal, remaining = CHANGED_SINCE[change]
    gated.has({"name": "echo", "inputSchema": {"type": "object", **keywords}})
    async with remembering(gated.storage, gated.config(start="on_call")) as harness:
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.leave"]
        answer = await harness.call("shop.echo", say="x")
        assert answer["_meta"]["aggregator/error"]["code"] == refusal
        # A list without any other tool has one that says why.
        assert await listed(harness) == (remaining or [])


async def test_one_that_nobody_knows_is_started_once_to_learn_it(gated: GatedServer, tmp_path: Path) -> None:
    """Proves: C4, F4. It stops at once, what it has is kept, and the next time nothing is started at all."""
    log = tmp_path / "log"
    config = gated.config(start="on_call", env={"RAW_LOG": str(log)})
    async with running(gated.storage, config) as harness:
        assert "shop.echo" in await listed(harness)
        await until_idle(harness, "shop")
        await until(lambda: not is_alive(starts(log)[0]), "its process is gone")
        assert "shop.echo" in await listed(harness)
        await harness.check_echo("shop.echo")
        assert len(starts(log)) == 2
    async with running(gated.storage, config) as harness:
        assert "shop.echo" in await listed(harness)
        assert harness.upstream("shop").state == "stopped"
    assert len(starts(log)) == 2


async def test_one_that_nobody_knows_and_somebody_calls_at_once(tmp_path: Path) -> None:
    """Proves: C4. It is not stopped only to be started again."""
    log = tmp_path / "log"
    app = build_app(Config(servers=(raw_stdio("s", log=log, start="on_call"),), startup_wait=600))
    async with app.running():
        harness = AppHarness(app)
        await asyncio.gather(harness.check_echo("s.echo"), harness.check_echo("s.echo"))
        await harness.check_echo("s.echo")
        assert harness.upstream("s").state == "ready"
    assert len(starts(log)) == 1


async def test_a_lazy_one_holds_nobody_up(gated: GatedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C4, F4. What is known of it is listed, nothing waits, and it comes up by itself."""
    gated.close()
    unknown = gated.config("unknown", start="lazy", prefix="unknown", cwd=str(Path(sys.prefix)))
    async with remembering(gated.storage, gated.config(start="lazy")) as harness:
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.leave"]
        await until(lambda: harness.upstream("shop").state == "starting", "its time has come")
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.leave"]
        gated.open()
        await until(lambda: harness.tools() == ["shop.echo", "shop.hang"], "it is there")
    gated.close()
    async with running(gated.storage, unknown) as harness:
        assert await listed(harness) == []
        await until(lambda: harness.upstream("unknown").state == "starting", "its time has come")
        assert await listed(harness) == []
        assert harness.app.report()[0]


async def test_a_lazy_one_is_started_by_the_first_call(gated: GatedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C4. Known or not, though its time has not come."""
    monkeypatch.setattr(rest, "LAZY_FROM", 600.0)
    monkeypatch.setattr(rest, "LAZY_TO", 600.0)
    async with remembering(gated.storage, gated.config(start="lazy")) as harness:
        await harness.check_echo("shop.echo")
    async with running(gated.storage, gated.config("new", start="lazy")) as harness:
        assert await listed(harness) == []
        assert harness.upstream("new").reason == "it starts in a moment, or with its first call"
        await harness.check_echo("new.echo")


async def test_one_that_cannot_be_started_stays_listed_and_is_told(gated: GatedServer) -> None:
    """Proves: D3, F4. With its first failure, like any other; it is tried again, and is back by itself."""
    gated.open("no")
    async with remembering(gated.storage, gated.config(start="on_call")) as harness:
        assert harness.upstream("shop").state == "starting"
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.leave"]
        answer = await harness.call("shop.echo", say="x")
        assert answer["_meta"]["aggregator/error"]["state"] == "unavailable"
        assert "exit code 1" in answer["content"][0]["text"]
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.leave"]
        gated.open()
        await until(lambda: harness.upstream("shop").state == "ready", "it is back")


# -- idle


async def test_what_nobody_uses_stops_and_what_is_called_starts(tmp_path: Path) -> None:
    """Proves: C4, D11. Its tools stay listed all the while, and no host hears of anything."""
    log = tmp_path / "log"
    async with running_app(
        raw_stdio("s", log=log, limits={"idle_timeout": 0.05}), raw_stdio("other", log=log)
    ) as harness:
        heard = notified_methods(harness)
        tools = harness.tools()
        for number in range(1, 4):
            await until_idle(harness, "s")
            assert harness.upstream("s").reason == "it was not used for 50ms; it starts with its next call"
            assert harness.tools() == tools
            await harness.check_echo("s.echo")
            assert len(starts(log)) == 2 + number
        assert harness.upstream("other").state == "ready"
        assert harness.upstream("s").reconnects == 0
        assert heard == []


async def test_a_long_call_keeps_it_awake(tmp_path: Path) -> None:
    """Proves: C4, A7"""
    log = tmp_path / "log"
    async with running_app(raw_stdio("s", log=log, limits={"idle_timeout": 0.01}, timeout=0.2)) as harness:
        answer = await harness.call("s.hang")
        assert answer["_meta"]["aggregator/error"]["code"] == "upstream_timeout"
        assert len(starts(log)) <= 2
        await until_idle(harness, "s")


async def test_no_call_is_lost_to_the_stop(tmp_path: Path) -> None:
    """Proves: A7, C4. Calls come at the very moment at which it stops, again and again: each has its answer."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("s", log=log, limits={"idle_timeout": 1e-6}, protocol="legacy")) as harness:
        upstream, moments = harness.upstream("s"), 0
        changed = upstream.lifecycle._on_change

        def count() -> None:
            nonlocal moments
            changed()
            moments += upstream.state == "stopped"

        upstream.lifecycle._on_change = count
        for number in range(20):
            calls = [asyncio.create_task(harness.call("s.echo", say=str(number))) for _ in range(1 + number % 3)]
            answers = await asyncio.gather(*calls)
            assert {text_of(answer) for answer in answers} == {str(number)}
            for _ in range(number % 7):
                await asyncio.sleep(0)
        assert moments
        assert upstream.in_flight == 0


async def test_a_call_in_the_moment_of_the_decision_waits_for_the_next_start(tmp_path: Path) -> None:
    """Proves: A7, C4. The decision is made in one step: whoever comes after it starts the server anew."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("s", log=log, limits={"idle_timeout": 0.05})) as harness:
        upstream = harness.upstream("s")
        await harness.check_echo("s.echo")
        calls: list[asyncio.Task[Json]] = []
        changed = upstream.lifecycle._on_change

        def at_once() -> None:
            changed()
            if upstream.state == "stopped" and not calls:
                calls.extend(asyncio.create_task(harness.call("s.echo", say="now")) for _ in range(3))

        upstream.lifecycle._on_change = at_once
        await until(lambda: calls, "it came to rest")
        assert {text_of(answer) for answer in await asyncio.gather(*calls)} == {"now"}
        assert len(starts(log)) >= 2


async def test_a_subscription_keeps_it_awake(tmp_path: Path) -> None:
    """Proves: C5. Whoever wants to hear of changes hears of them; another one sleeps meanwhile."""
    log = tmp_path / "log"
    async with running_app(
        raw_stdio("s", log=log, limits={"idle_timeout": 0.03}), raw_stdio("other", limits={"idle_timeout": 0.06})
    ) as harness:
        upstream = harness.upstream("s")
        upstream.subscriptions.want("file:///a")
        await harness.check_echo("s.echo")
        awake = len(starts(log))
        for _ in range(2):
            await harness.check_echo("other.echo")
            await until_idle(harness, "other")
        assert upstream.state == "ready"
        upstream.subscriptions.unwant("file:///a")
        await until_idle(harness, "s")
        assert len(starts(log)) == awake


async def test_connections_of_their_own_end_as_well(tmp_path: Path) -> None:
    """Proves: D11, C4. With `isolation` each host has a process; what nobody uses is ended, all of them in the end."""
    log = tmp_path / "log"
    lonely = raw_stdio("s", log=log, isolation="per_session", limits={"idle_timeout": 0.2}, protocol="legacy")
    async with running_app(lonely) as harness:
        for session in ("one", "two"):
            harness.host = Host("test", "canonical", version="2025-11-25", session=session)
            await harness.check_echo("s.echo")
        base, one, two = starts(log)
        async with asyncio.timeout(BOUND):
            while is_alive(one):
                await harness.check_echo("s.echo")
        assert is_alive(base)
        assert is_alive(two)
        await until(lambda: not any(map(is_alive, starts(log))), "all are ended")
        await harness.check_echo("s.echo")


async def test_a_shorter_time_counts_at_once(tmp_path: Path) -> None:
    """Proves: D11. One that was to run for ever stops once its configuration says so."""
    async with running_app(raw_stdio("s", log=tmp_path / "log")) as harness:
        await harness.check_echo("s.echo")
        upstream = harness.upstream("s")
        upstream.update(upstream.config.model_copy(update={"limits": LimitsConfig(idle_timeout=0.01)}))
        await until_idle(harness, "s")
        await harness.check_echo("s.echo")


def test_commands_that_look_at_every_server_start_every_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: E9. `check` and `tools` see what is there, whatever `start` says."""
    log = tmp_path / "log"
    entry = {"command": sys.executable, "args": raw_stdio("s").args, "env": {"RAW_LOG": str(log)}}
    entry |= {"start": "on_call", "limits": {"idle_timeout": "20ms"}, "protocol": "legacy"}
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}))
    assert check.run(config, as_json=True) == 0
    rows = json.loads(capsys.readouterr().out)["servers"]
    assert [(row["state"], row["tools"], row["problem"]) for row in rows] == [("ready", 11, None)] * 2
    assert len(starts(log)) == 2
    assert tools.run(config, None, "two", 1, None, None, as_json=False) == 0
    assert "two.echo" in capsys.readouterr().out
