"""`python -m examples.amap`: serve the AMap example over HTTP+SSE, or with `--stdio` over stdio."""

import argparse
import asyncio
import os

from mcp.server.stdio import stdio_server

from examples.amap.server import build_server
from examples.amap.sse_server import serve


def main() -> None:
    """Read the command line and serve; the expected key comes from AMAP_EXAMPLE_KEY, else it is `demo-key`."""
    parser = argparse.ArgumentParser(prog="python -m examples.amap", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8791, help="port, 0 for any free one (default: %(default)s)")
    parser.add_argument("--stdio", action="store_true", help="speak on standard input and output instead; no key")
    options = parser.parse_args()
    if options.stdio:
        asyncio.run(_stdio())
    else:
        serve(
            build_server(), host=options.host, port=options.port, key=os.environ.get("AMAP_EXAMPLE_KEY") or "demo-key"
        )


async def _stdio() -> None:
    server = build_server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    main()
