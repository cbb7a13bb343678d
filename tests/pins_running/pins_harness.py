"""A server whose definitions a test changes, an aggregator in front of it with a database, and a host."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import RpcError
from aggregator.storage.database import open_database
from aggregator.storage.records import PinRow
from tests.faults.app_harness import BOUND, AppHarness, Json, server_config
from tests.polling import until
from tests.tool_lists import of_servers

PROGRAM: Final = Path(__file__).with_name("changing_stdio.py")
_OBJECT: Final = {"type": "object", "properties": {"title": {"type": "string"}}}


def tool(name: str, description: str | None = None, **more: Any) -> Json:
    """Return a tool that says something of its own.

    One with a description takes one title of its own, so that a change of it breaks calls as they were approved.
    """
    if description is None:
        said = f"Create, show or change one {name} of the whole project."
        return {"name": name, "description": said, "inputSchema": _OBJECT, **more}
    title = {"type": "string", "const": f"title-{crc32(ascii(description).encode())}"}
    schema = {"type": "object", "properties": {"title": title}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


def reworded(name: str, description: str, **more: Any) -> Json:
    """Return a tool with other words that takes the same calls as `tool(name)`."""
    return {**tool(name), "description": description, **more}


class ChangingServer:
    """A server program with the file of its definitions, in a folder with the database of the aggregator."""

    def __init__(self, folder: Path, name: str = "shop") -> None:
        self.name = name
        self.file = folder / f"{name}.json"
        self.folder = folder
        self.storage = f"sqlite+aiosqlite:///{folder / 'a.db'}"
        self.tools: list[Json] = [tool("order"), tool("invoice")]
        self.more: Json = {}
        self.write()

    def write(self) -> None:
        """Have the server say from now on what stands in `tools` and `more`."""
        whole = self.file.with_suffix(".new")
        whole.write_text(json.dumps({"tools": self.tools, **self.more}))
        # The server may read at any moment, and never half a file.
        whole.replace(self.file)

    def says(self, *tools: Json, **more: Any) -> None:
        """Have the server say something else from now on: `prompts`, `templates`, `instructions` by keyword."""
        if tools:
            self.tools = list(tools)
        self.more |= more
        self.write()

    def config(self, **fields: Any) -> ServerConfig:
        """Return the entry of the server."""
        command: Json = {"type": "stdio", "command": sys.executable, "args": ("-I", "-S", str(PROGRAM), str(self.file))}
        return server_config(self.name, **(command | fields))

    async def rows(self) -> Mapping[tuple[str, str], PinRow]:
        """Return the rows of this server, as another process reads them."""
        async with open_database(self.storage) as database:
            return {(row.kind, row.name): row for row in await database.pins.all(self.name)}

    async def approve(self, kind: str, name: str, digest: str | None = None) -> bool:
        """Approve what was seen of an item, as another process does it."""
        async with open_database(self.storage) as database:
            return await database.pins.approve(self.name, kind, name, digest, "ada", 1_700_000_000.0)

    async def approve_held(self) -> None:
        """Approve what was seen of each held item, as another process does it."""
        async with open_database(self.storage) as database:
            for row in await database.pins.all(self.name):
                if row.held:
                    assert await database.pins.approve(self.name, row.kind, row.name, None, "ada", 1_700_000_000.0)


class PinsHarness(AppHarness):
    """A running aggregator in front of changing servers."""

    async def listed(self) -> list[str]:
        """Return the names of the listed tools, as they are called, but for `announce`."""
        answer = await self.ask("tools/list", {})
        names = of_servers(one["name"] for one in json.loads(bytes(answer["tools"])))
        return [name.partition(".")[2] for name in names if not name.endswith(".announce")]

    async def announce(self, server: ChangingServer) -> None:
        """Have the server tell that its lists changed."""
        await self.call(f"{server.name}.announce")

    async def refused(self, method: str, params: Json) -> RpcError:
        """Return the error of a request that is refused."""
        try:
            await self.ask(method, params)
        except RpcError as error:
            return error
        raise AssertionError(f"{method} was answered")

    async def settled(self) -> None:
        """Wait until everything that is new about pins is written."""
        sync = self.app.pins
        assert sync is not None
        await until(lambda: sync.settled, "what is new is written")


@asynccontextmanager
async def running(*servers: ServerConfig, storage: str | None, **rest: Any) -> AsyncIterator[PinsHarness]:
    """Run an aggregator, once each server has connected or failed."""
    lock, policies = rest.pop("lock", None), rest.pop("policies", None)
    config = Config(servers=servers, startup_wait=BOUND, **rest)
    app = build_app(config, policies, storage, keeps_records=storage is not None, lock=lock)
    async with app.running():
        await app.supervisor.wait_all_tried(BOUND)
        yield PinsHarness(app)
