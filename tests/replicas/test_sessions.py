"""Sessions of the handshake eras that any replica takes up, and the same process after a restart."""

import time
from pathlib import Path

from aggregator.frontends.web.sessions.session_ids import LIFETIME
from tests.end_to_end.server_harness import local_entry
from tests.polling import until
from tests.replicas.sharing import in_turns, sharing, turning_host
from tests.server_requests.entries import stdio_entry

SERVERS = {"peer": local_entry()}


async def test_a_session_is_served_by_every_replica(tmp_path: Path) -> None:
    async with sharing(tmp_path, SERVERS, 3) as shared, turning_host() as host:
        await host.greet(shared.running[0].url)
        turns = in_turns(shared.running)
        for number in range(9):
            result = await host.call(next(turns), "peer.echo", {"text": str(number)})
            assert str(number) in str(result), result
        assert [replica.sessions() for replica in shared.running] == [1, 1, 1]


async def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with sharing(tmp_path, SERVERS, 1, alone=True) as shared, turning_host() as host:
        (before,) = shared.running
        await host.greet(before.url)
        await before.leave()
        shared.running.clear()
        after = await shared.add()
        assert "again" in str(await host.call(after.url, "peer.echo", {"text": "again"}))
        async with host.streaming(after.url) as events:
            told = {(await events.next())["method"] for _ in range(3)}
        assert told == {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}


async def test_what_a_host_ended_stays_ended_everywhere_and_after_a_restart(tmp_path: Path) -> None:
    """The other replicas have let go of it before the host gets its answer, so that no request slips in between."""
    async with sharing(tmp_path, SERVERS, 2) as shared, turning_host() as host:
        one, two = shared.running
        await host.greet(one.url)
        await host.call(two.url, "peer.echo", {"text": "known here too"})
        assert await host.end(one.url) == 204
        assert two.sessions() == 0
        for replica in (two, one, await shared.add()):
            answer = await host.ask(replica.url, "ping")
            assert answer.status == 404, answer.body
            assert "ended or never was" in str(answer.messages)


async def test_an_idle_session_takes_no_memory_and_goes_on(tmp_path: Path) -> None:
    async with (
        sharing(tmp_path, SERVERS, 1, alone=True, http={"session_idle_timeout": 0.2}) as shared,
        turning_host() as host,
    ):
        (replica,) = shared.running
        await host.greet(replica.url)
        await until(lambda: replica.sessions() == 0, "it was let go of")
        assert (await host.ask(replica.url, "ping")).result == {}
        assert replica.sessions() == 1


async def test_an_id_is_good_for_its_lifetime(tmp_path: Path) -> None:
    http = {"session_idle_timeout": 0.1}
    async with sharing(tmp_path, SERVERS, 1, alone=True, http=http) as shared, turning_host() as host:
        (replica,) = shared.running
        await host.greet(replica.url)
        await until(lambda: replica.sessions() == 0, "it was let go of")
        clock = replica.app.replication.clock
        now = time.monotonic()
        clock.measure(now, clock.now() + LIFETIME + 1, now)
        answer = await host.ask(replica.url, "ping")
        assert answer.status == 404, answer.body


async def test_the_log_level_is_known_at_every_replica(tmp_path: Path) -> None:
    """What a host has set in a session goes with it, to replicas that have the session already and to others."""
    servers = {"asker": stdio_entry("legacy")}
    async with sharing(tmp_path, servers, 2) as shared, turning_host() as host:
        one, two = shared.running
        await host.greet(one.url)
        assert (await host.ask(two.url, "ping")).result == {}
        assert (await host.ask(one.url, "logging/setLevel", {"level": "error"})).result == {}
        (session,) = two.web._sessions._by_name.values()
        await until(lambda: session.host.log_level == "error", "the other replica knows it")
        three = await shared.add()
        assert (await host.ask(three.url, "ping")).result == {}
        (session,) = three.web._sessions._by_name.values()
        assert session.host.log_level == "error"
