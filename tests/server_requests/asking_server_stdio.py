"""The asking server on its own pipes: `python -m tests.server_requests.asking_server_stdio legacy|modern [asks-first]`.

`asks-first`: it wants to know the roots as soon as it is greeted, as file servers do.
"""

import asyncio
import json
import os
import sys
from typing import Any

from tests.peers.toolbox import Json
from tests.server_requests.asking_server import AskingServer, ClientConnection


def put(message: Json) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


async def main(era: str, *, asks_first: bool) -> None:
    asking_server, connection = AskingServer(era), ClientConnection()
    connection.standing = put
    asking: set[asyncio.Task[None]] = set()
    running: dict[Any, asyncio.Task[None]] = connection.running
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def run(message: Json) -> None:
        try:
            put(await asking_server.respond(connection, message, put))
        finally:
            running.pop(message["id"], None)

    async def ask_first() -> None:
        answer = await connection.ask(put, "roots/list", {})
        asking_server.event_log.note("first refused" if "error" in answer else "first answered")

    while line := await reader.readline():
        message = json.loads(line)
        if message.get("method") == "notifications/initialized" and asks_first:
            asking.add(asyncio.create_task(ask_first()))
        if "method" in message and "id" not in message:
            asking_server.event_log.note(f"heard {message['method']}")
        if "id" in message and "method" in message:
            running[message["id"]] = asyncio.create_task(run(message))
        else:
            connection.hear(message)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], asks_first="asks-first" in sys.argv))
