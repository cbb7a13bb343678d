"""A server over HTTP that answers only under `/port`, with its key in the address: `keyed_server.py --port N --key K`.

It says its key on stderr.
"""

import argparse
import asyncio
import sys

from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter


class KeyedServer(RawHttpServer):
    """A raw server that refuses requests without its key."""

    def __init__(self, port: int, key: str) -> None:
        super().__init__()
        self.port = port
        self._target = f"/port?key={key}"

    async def ordinary(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.target == self._target:
            await super().ordinary(seen, reply)
        else:
            await reply.send(401, f"{seen.target} is not {self._target}")


async def serve(port: int, key: str) -> None:
    print(f"my key is {key}", file=sys.stderr, flush=True)
    await KeyedServer(port, key).start()
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--key")
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.key))
