"""Second rounds of a server with a process for each session, at real processes: they go to the one that asked.

The asking server refuses a `requestState` that it did not make.
"""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from tests.peers.toolbox import Json
from tests.replicas.group import group
from tests.replicas.sharing import EventReader, TurningHost, modern, turning_host
from tests.replicas.worker_harness import workers
from tests.server_requests.entries import ABLE, ANSWERS, FORM, stdio_entry

SERVERS: Final = {"asker": stdio_entry("modern", isolation="per_session")}
YES: Final = ANSWERS["form"]
ROUNDS: Final = 2


async def sent(host: TurningHost, at: str, params: Json) -> Json:
    headers, message = modern("tools/call", params, ABLE)
    answer = await host.client.post(f"{at}/mcp", json=message, headers=headers)
    streamed = answer.headers["content-type"].startswith("text/event-stream")
    found: Any = await EventReader(answer).next() if streamed else answer.json()
    return dict(found["result"])


async def answered_elsewhere(places: Sequence[tuple[TurningHost, str]]) -> None:
    """Begin a call at each place, and bring each answer to another one, in turns."""
    begun: list[tuple[Json, Json]] = []
    for number, (host, at) in enumerate(places):
        params = {"name": "asker.ask", "arguments": {"key": f"k{number}", "rounds": [[FORM]] * ROUNDS}}
        begun.append((params, await sent(host, at, params)))
    for turn in range(1, ROUNDS + 1):
        for number, (params, interim) in enumerate(begun):
            assert interim["resultType"] == "input_required", interim
            back = {"inputResponses": dict.fromkeys(interim["inputRequests"], YES)}
            host, at = places[(number + turn) % len(places)]
            begun[number] = params, await sent(host, at, {**params, **back, "requestState": interim["requestState"]})
    for _, result in begun:
        assert json.loads(result["content"][0]["text"])["answers"] == [[YES]] * ROUNDS


async def test_workers_bring_answers_to_the_process_that_asked(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(workers(tmp_path, mcpServers=SERVERS))
        hosts = [await stack.enter_async_context(turning_host()) for _ in range(6)]
        await answered_elsewhere([(host, running.url) for host in hosts])


async def test_replicas_on_postgresql_bring_answers_to_the_process_that_asked(
    tmp_path: Path, postgres_url: str
) -> None:
    async with group(tmp_path, postgres_url, SERVERS, 2, balanced=False) as running, turning_host() as host:
        await answered_elsewhere([(host, member.url) for member in running.members * 2])
