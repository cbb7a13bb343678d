"""What hosts and people do at several replicas in turn: it works whichever of them is asked.

Three processes of `aggregator serve` on one PostgreSQL; each step says which one it goes to.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio

from tests.end_to_end.programs import run
from tests.end_to_end.scripted_host import BOUND, MODERN
from tests.peers.serving import serving
from tests.peers.toolbox import Json
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.replicas.group import Group, group
from tests.replicas.travelling import TravellingHost, travelling
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import ABLE, ANSWERS, FORM
from tests.server_requests.replies import resume, text_as_json

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANDSHAKE: Final = "2025-11-25"
YES: Final = ANSWERS["form"]
AGREE: Final = {"action": "accept", "content": {"allow": True}}
LIMIT: Final = 8
POLICY: Final = f"""
agents:
  one:
    allow: [server:web]
    confirm: [web.release]
    limits: {{web.note: {{per_minute: {LIMIT}}}}}
  two: {{allow: [server:web]}}
  queued: {{allow: [server:web], confirm: [web.release], confirm_by: queue}}
"""


class SharedGroup:
    """The group, the server behind it, and the keys of the agents."""

    def __init__(self, replicas: Group, server: AskingWebServer, keys: dict[str, str]) -> None:
        self.group = replicas
        self.server = server
        self.keys = keys

    @property
    def urls(self) -> list[str]:
        """Return the addresses of the replicas."""
        return [member.url for member in self.group.members]

    @asynccontextmanager
    async def host(
        self, version: str = HANDSHAKE, agent: str = "one", able: Json | None = None
    ) -> AsyncIterator[TravellingHost]:
        """Connect a host of an agent."""
        async with travelling(self.urls, version, self.keys[agent], ABLE if able is None else able) as host:
            yield host

    async def command(self, *args: str) -> str:
        """Run a command with the group's configuration; return what it prints."""
        done = await run(*args, "--config", str(self.group.config))
        assert done.code == 0, done.err
        return done.out

    async def post(self, replica: int, path: str, body: Json, agent: str = "one") -> tuple[int, Any]:
        """Post to one replica; return the status and the body."""
        headers = {"authorization": f"Bearer {self.keys[agent]}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self.urls[replica] + path, json=body) as answer,
        ):
            return answer.status, await answer.json()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory, postgres_cluster: Cluster) -> AsyncIterator[SharedGroup]:
    """A group of three that every test of the module shares."""
    storage = postgres_cluster.url(postgres_cluster.new_database())
    server = AskingWebServer("legacy")
    async with serving(server) as url:
        servers = {"web": {"type": "http", "url": f"{url}/mcp"}}
        folder: Path = tmp_path_factory.mktemp("group")
        async with group(folder, storage, servers, balanced=False, policies={"all.yaml": POLICY}) as replicas:
            found = SharedGroup(replicas, server, {})
            for agent in ("one", "two", "queued"):
                found.keys[agent] = (await found.command("keys", "new", agent)).strip()
            await _known_everywhere(found.urls, found.keys["queued"])
            yield found


async def _lets_in(url: str, key: str) -> bool:
    headers = {"authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{url}/v1/tools") as answer:
        return answer.status == 200


async def _known_everywhere(urls: list[str], key: str) -> None:
    """Return once every replica lets a key in."""

    async def known() -> bool:
        return all([await _lets_in(url, key) for url in urls])

    await until(known, "the key is known")


async def test_a_session_begun_at_one_goes_on_at_every_other(shared: SharedGroup) -> None:
    async with shared.host() as host:
        for replica in (1, 2, 0, 1):
            assert "web.ask" in {tool["name"] for tool in await host.at(replica).list()}
            result = await host.at(replica).call("web.steps", {"count": 0}).result()
            assert result["content"][0]["text"] == "stepped"


async def test_a_session_ended_at_one_is_ended_everywhere(shared: SharedGroup) -> None:
    async with shared.host() as host:
        for replica in (0, 1, 2):
            await host.at(replica).list()
        client, headers = host.http._client, host.http.headers({})
        assert (await client.delete("/mcp", headers=headers)).status_code == 204

        for replica in (1, 2, 0):
            # At once: the host was told that it has ended.
            message = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
            answer = await host.at(replica).http._client.post("/mcp", json=message, headers=headers)
            assert answer.status_code == 404
        host.http.session = None


async def test_another_agent_cannot_go_on_with_a_session(shared: SharedGroup) -> None:
    async with shared.host() as host, shared.host(agent="two") as other:
        other.http.session, own = host.http.session, other.http.session
        for replica in (0, 1, 2):
            other.at(replica)
            message = {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}
            answer = await other.http._client.post("/mcp", json=message, headers=other.http.headers(message))
            assert answer.status_code == 404
        other.http.session = own


async def test_a_question_asked_at_one_is_answered_through_another(shared: SharedGroup) -> None:
    async with shared.host() as host:
        call = host.at(0).call("web.ask", {"key": "through", "rounds": [[FORM]]})
        (question,) = await host.inbox.named("elicitation/create")
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
        await host.at(1).wire.notify(answer)
        assert text_as_json(await call.result())["answers"][0][0]["content"] == YES["content"]
    assert shared.server.server.begun["through"] == 1


async def test_a_call_under_way_at_one_is_cancelled_through_another(shared: SharedGroup) -> None:
    async with shared.host() as host:
        call = host.at(0).call("web.hold", {"key": "held"})
        async with asyncio.timeout(BOUND):
            await shared.server.server.event_log.until("started held")
        await host.at(2).wire.cancel(call)
        async with asyncio.timeout(BOUND):
            await shared.server.server.event_log.until("cancelled held")
        call.drop()


async def test_a_confirmation_asked_at_one_counts_at_another_and_once(shared: SharedGroup) -> None:
    async with shared.host(MODERN) as host:
        params = {"name": "web.release", "arguments": {"key": "confirmed"}}
        interim = await host.at(0).ask("tools/call", params).result()
        assert interim["resultType"] == "input_required", interim
        answers = [AGREE] * len(interim["inputRequests"])
        done = await resume(host.at(1), "tools/call", params, interim, answers).result()
        assert done["content"][0]["text"] == "released"
        for replica in (2, 1, 0):
            again = await resume(host.at(replica), "tools/call", params, interim, answers).result()
            assert again["resultType"] == "input_required", "a state is good once"


async def test_a_parked_call_goes_on_through_another(shared: SharedGroup) -> None:
    async with shared.host(MODERN) as host:
        params = {"name": "web.ask", "arguments": {"key": "parked", "rounds": [[FORM], [FORM]]}}
        interim = await host.at(0).ask("tools/call", params).result()
        interim = await resume(host.at(1), "tools/call", params, interim, [YES]).result()
        result = await resume(host.at(2), "tools/call", params, interim, [YES]).result()
        assert len(text_as_json(result)["answers"]) == 2
    assert shared.server.server.begun["parked"] == 1


async def test_a_log_level_set_at_one_holds_at_another(shared: SharedGroup) -> None:
    lines = [{"level": level, "data": level} for level in ("debug", "error")]
    async with shared.host() as host:
        await host.at(0).ask("logging/setLevel", {"level": "error"}).result()
        await host.at(1).call("web.log", {"lines": lines}).result()
        await host.at(2).call("web.log", {"lines": lines}).result()
        heard = await host.inbox.named("notifications/message", 2)
        assert [message["params"]["level"] for message in heard] == ["error", "error"]


async def test_who_waits_at_one_is_let_on_by_a_yes_given_elsewhere(shared: SharedGroup) -> None:
    async with shared.host(agent="queued") as host:
        call = host.at(0).call("web.release", {"key": "queue"})

        async def pending() -> list[Json]:
            listed: list[Json] = json.loads(await shared.command("approvals", "list", "--json"))
            return [one for one in listed if one["status"] == "pending"]

        await until(pending, "the question is in the queue")
        (question,) = await pending()
        await shared.command("approvals", "approve", question["id"])
        assert (await call.result())["content"][0]["text"] == "released"


async def test_a_limit_holds_over_all_replicas_within_its_bound(shared: SharedGroup) -> None:
    async with shared.host() as host:
        let_through = 0
        for number in range(4 * LIMIT):
            result = await host.at(number % 3).call("web.note", {"entry": f"n{number}"}).result()
            let_through += not result.get("isError")
        # docs/limits.md: one slice for each replica beyond the limit, here of one call.
        assert LIMIT <= let_through <= LIMIT + 3


async def test_a_key_revoked_elsewhere_is_refused_everywhere(shared: SharedGroup) -> None:
    key = (await shared.command("keys", "new", "two")).strip()
    await _known_everywhere(shared.urls, key)
    await shared.command("keys", "revoke", key.split("_")[1])

    async def refused() -> bool:
        return not any([await _lets_in(url, key) for url in shared.urls])

    await until(refused, "the key is refused")
    assert await _lets_in(shared.urls[0], shared.keys["two"])


async def test_v1_counts_the_calls_of_a_conversation_over_all_replicas(shared: SharedGroup) -> None:
    body = {"conversation_id": "chat-1", "tool_call": {"name": "web.note", "arguments": {"entry": "v1"}}}
    codes = []
    for number in range(9):
        _, answer = await shared.post(number % 3, "/v1/tool_calls", body, agent="two")
        codes.append((answer.get("error") or {}).get("code"))
    assert 3 <= codes.count(None) <= 6


async def test_every_answer_has_one_row_whichever_replica_gave_it(shared: SharedGroup) -> None:
    async with shared.host(agent="two") as host:
        for number in range(12):
            await host.at(number % 3).call("web.note", {"entry": f"row{number}"}, **{"io.test/user": "x"}).result()

    async def written() -> bool:
        rows = [json.loads(line) for line in (await shared.command("audit", "export")).splitlines()]
        return [row.get("tool_name") for row in rows if row.get("agent_id") == "two"].count("web.note") >= 12

    await until(written, "each call has its row")
    assert "none missing, none changed" in await shared.command("audit", "verify")


async def test_a_host_goes_on_after_every_replica_was_started_anew(tmp_path: Path, postgres_cluster: Cluster) -> None:
    storage = postgres_cluster.url(postgres_cluster.new_database())
    async with serving(AskingWebServer("legacy")) as url:
        servers = {"web": {"type": "http", "url": f"{url}/mcp"}}
        async with (
            group(tmp_path, storage, servers, 2, balanced=False) as replicas,
            travelling([member.url for member in replicas.members], HANDSHAKE) as host,
        ):
            await host.list()
            for member in list(replicas.members):
                member.send(signal.SIGKILL)
                await replicas.remove(member)
            for _ in range(2):
                await replicas.add()
            host.route.urls = [member.url for member in replicas.members]
            assert "web.ask" in await host.named("web.ask")
