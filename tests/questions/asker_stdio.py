"""The asker on its own pipes: `python -m tests.questions.asker_stdio legacy|modern [VERSION]`."""

import asyncio
import json
import os
import sys
from typing import Any

from tests.peers.toolbox import Json
from tests.questions.asker import Asker, Connection


def put(message: Json) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


async def main(era: str, version: str | None) -> None:
    asker, connection = Asker(era), Connection()
    connection.version = version or connection.version
    connection.standing = put
    running: dict[Any, asyncio.Task[None]] = connection.running
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def run(message: Json) -> None:
        try:
            put(await asker.respond(connection, message, put))
        finally:
            running.pop(message["id"], None)

    while line := await reader.readline():
        message = json.loads(line)
        if "id" in message and "method" in message:
            running[message["id"]] = asyncio.create_task(run(message))
        else:
            connection.hear(message)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
