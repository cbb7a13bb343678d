"""The upstreams of these tests, and what hosts do with resources and prompts: list, read, subscribe."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakSet

from tests.end_to_end.scripted_host import META, HttpWire, ScriptedHost
from tests.end_to_end.server_harness import ROOT
from tests.passthrough.everything import Everything
from tests.peers.library import Library, SseApp, http_app
from tests.peers.sdk import LegacyOnly
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json

# id -> the era the aggregator has to end up with.
UPSTREAMS: Final[Mapping[str, str]] = {
    "local_modern": "2026-07-28",
    "local_legacy": "2025-11-25",
    "stdio_modern": "2026-07-28",
    "stdio_legacy": "2025-11-25",
    "http_modern": "2026-07-28",
    "http_legacy": "2025-11-25",
    "sse": "2025-11-25",
}
LISTS: Final[Mapping[str, str]] = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
UPDATED: Final = "notifications/resources/updated"
_libraries: dict[str, Library] = {}
# Hosts whose session has its standing stream.
_standing: WeakSet[ScriptedHost] = WeakSet()


def __getattr__(name: str) -> Library:
    """Return the server that the `target` of a `local` upstream names."""
    try:
        return _libraries[name]
    except KeyError:
        raise AttributeError(name) from None


def local(library: Library, **fields: Any) -> Json:
    """The entry of a library in this process."""
    name = f"library_{len(_libraries)}"
    _libraries[name] = library
    return {"target": f"{__name__}:{name}", **fields}


def entries(background: BackgroundLoop) -> dict[str, Json]:
    """One entry for each of UPSTREAMS."""
    program = {"command": sys.executable, "args": ["-m", "tests.passthrough.everything"], "cwd": str(ROOT)}
    local = {"target": "tests.passthrough.everything:Everything"}
    modern, legacy = (http_app(Everything()) for _ in range(2))
    return {
        "local_modern": local,
        "local_legacy": {**local, "protocol": "legacy"},
        "stdio_modern": program,
        "stdio_legacy": {**program, "protocol": "legacy"},
        "http_modern": {"url": f"{background.open(serving(modern))}/mcp"},
        "http_legacy": {"type": "http", "url": f"{background.open(serving(LegacyOnly(legacy)))}/mcp"},
        "sse": {"type": "sse", "url": f"{background.open(serving(SseApp(Everything())))}/sse"},
    }


async def listed(host: ScriptedHost, method: str) -> list[Json]:
    """Every page of a list."""
    found: list[Json] = []
    params: Json = {}
    while True:
        page = await host.ask(method, params).result()
        found += page[LISTS[method]]
        if "nextCursor" not in page:
            return found
        params = {"cursor": page["nextCursor"]}


async def read(host: ScriptedHost, uri: str) -> Json:
    """The first part of what was read."""
    result = await host.ask("resources/read", {"uri": uri}).result()
    part: Json = result["contents"][0]
    return part


@asynccontextmanager
async def subscribed_to(host: ScriptedHost, **wanted: Any) -> AsyncIterator[Json]:
    """Subscribe a host to changes as its era and frontend require; yield the acknowledged filter."""
    if host.modern:
        listening = host.ask("subscriptions/listen", {"notifications": wanted})
        acknowledged = await host.inbox.until(lambda message: subscription_of(message) == listening.id)
        assert acknowledged[0]["method"] == "notifications/subscriptions/acknowledged"
        yield acknowledged[0]["params"]["notifications"]
        await host.wire.cancel(listening)
        return
    if isinstance(host.wire, HttpWire) and host not in _standing:
        _standing.add(host)
        host.wire.stand()
        await host.inbox.named("standing")
    for uri in wanted.get("resourceSubscriptions", ()):
        assert await host.ask("resources/subscribe", {"uri": uri}).result() == {}
    yield wanted


def subscription_of(message: Json) -> Any:
    """The subscription that a notification belongs to."""
    params = message.get("params") or {}
    return params.get("_meta", {}).get(f"{META}subscriptionId")


def updates(host: ScriptedHost) -> list[str]:
    """Return the URIs of the updates that the host has received so far."""
    return [m["params"]["uri"] for m in host.inbox.messages if m.get("method") == UPDATED]


async def first_update(host: ScriptedHost, uri: str) -> Json:
    """The first notification of a resource's change."""
    found = await host.inbox.until(lambda m: m.get("method") == UPDATED and m["params"]["uri"] == uri)
    return found[0]
