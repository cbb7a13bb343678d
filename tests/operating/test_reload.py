"""`aggregator.json` is edited while the program runs."""

import asyncio
import json
import signal
from typing import Any, Final

from tests.journeys.hosts import BOUND, VERSIONS, Host, over_http, over_sse
from tests.journeys.programs import gone, is_alive
from tests.operating.place import Place, server, started_by, words
from tests.peers.toolbox import Json

CHANGED: Final = "notifications/tools/list_changed"
LEGACY: Final = VERSIONS[0]


async def who(host: Host, tool: str) -> Json:
    """The process that answers, and its token."""
    found: Json = json.loads(words(await host.call(tool).result()))
    return found


async def names(host: Host) -> set[str]:
    return {tool["name"] for tool in await host.list()}


async def test_servers_come_and_go_and_the_others_notice_nothing(place: Place) -> None:
    """Proves: D11, E4. Who stays keeps process and call; hosts are told once of what is gone, and that ends its call
    first, and takes with it what it left in a session of its own."""
    own, its = place.folder / "own", place.folder / "its"
    stays = {"stays": server("--sidecar", str(own))}
    place.put({**stays, "goes": server("--sidecar", str(its))})
    async with place.serving() as served, over_sse(served.url, LEGACY) as host:
        first, goes = await who(host, "stays.who"), await who(host, "goes.who")
        kept, last = place.wait(host, "stays.wait", "kept"), place.wait(host, "goes.wait", "last")
        await kept.begun()
        await last.begun()
        await host.list()
        await place.reload(stays, "server goes is removed")
        await host.inbox.named(CHANGED)
        assert await names(host) == {"stays.who", "stays.wait"}
        assert (await host.call("goes.who").error())["code"] == -32602
        assert is_alive(goes["pid"])
        kept.let_go()
        last.let_go()
        assert words(await last.call.result()) == words(await kept.call.result()) == "waited"
        await gone(goes["pid"], int(its.read_text()))
        assert [message["method"] for message in host.inbox.messages] == [CHANGED]
        await place.reload({"comes": server(), **stays}, "server comes is ready")
        assert [tool["name"] for tool in await host.list()] == ["comes.who", "comes.wait", "stays.who", "stays.wait"]
        assert (await who(host, "stays.who"))["pid"] == first["pid"]
        assert is_alive(int(own.read_text()))


async def test_a_changed_server_is_replaced_and_the_old_one_drains(place: Place) -> None:
    """Proves: D11. Also when only a file changed that its entry names; what stands in it is hidden from the first line
    on that the new one prints. Its tools never leave the list."""
    secret = place.folder / "token"
    secret.write_text("a-first-secret\n")
    entry = server("--prints", env={"TOKEN": f"${{file:{secret}}}"})
    place.put({"box": entry, "other": server()})
    async with place.serving() as served, over_sse(served.url, LEGACY) as host:
        old, other, listed = await who(host, "box.who"), await who(host, "other.who"), await host.list()
        held = place.wait(host, "box.wait")
        await held.begun()
        secret.write_text("a-second-secret\n")
        await place.logged("server box is connected anew (env)")
        assert await host.list() == listed
        new = await who(host, "box.who")
        assert (old["token"], new["token"]) == ("a-first-secret", "a-second-secret")
        assert is_alive(old["pid"])
        held.let_go()
        assert words(await held.call.result()) == "waited"
        await gone(old["pid"])
        assert (await who(host, "other.who"))["pid"] == other["pid"]
        assert CHANGED not in [message["method"] for message in host.inbox.messages]
        await place.logged("my token is [redacted]", 2)
    assert "secret" not in place.log.replace(str(secret), "")


async def test_what_needs_no_connection_changes_in_place_and_what_cannot_change_waits(place: Place) -> None:
    """Proves: D11, E9. Filters, time-outs, words, names, what is listed and logged: the process stays. What has to wait
    for a restart is named, and the command line counts whatever the file says."""
    place.put({"box": server()})
    async with place.serving("--log-level", "info") as served, over_sse(served.url, LEGACY) as host:
        before = await who(host, "box.who")
        amended = server(tools={"exclude": ["wait"]}, timeout="7s", description="Other words", prefix="crate")
        more: Json = {"expose": "search", "pinned": ["crate.*"], "read_tool": True, "log": {"level": "error"}}
        place.put({"box": amended}, **more, http={"path": "/other", "port": 1})
        place.signal(signal.SIGHUP)
        await place.logged("server box has other settings (prefix, description, timeout, tools) on the same connection")
        await host.inbox.named(CHANGED)
        listed = await names(host)
        assert {"crate.who", "search_tools"} <= listed
        assert not {"crate.wait", "box.who", "read_tool"} & listed
        assert (await who(host, "crate.who"))["pid"] == before["pid"]
        assert "in effect: expose, pinned\n" in place.log
        for setting in ("http.path", "read_tool"):
            assert f"`{setting}` cannot be changed while the program runs" in place.log
        assert (await place.ready())["config"]["wait_for_restart"] == ["http.path", "read_tool"]


BROKEN: Final[tuple[tuple[Any, str], ...]] = (
    ('{"mcpServers": {', "line 1, column"),
    ({"box": server(), "new": {"command": 7}}, "mcpServers.new.command"),
    ({"box": server(env={"TOKEN": "${NO_SUCH_VARIABLE}"})}, "The server is in use."),
    (json.dumps({"mcpServer": {"box": server()}}), "Did you mean `mcpServers`?"),
    ("{}", "The file lists no servers any more, and some are in use."),
    ("null", "expected an object at the root"),
    ('{"mcpServers": null}', "The file lists no servers any more"),
    ('{"mcpServers": {}}', "The file lists no servers any more"),
    (None, "There is no file"),
)


async def test_a_broken_file_changes_nothing_and_is_told(place: Place) -> None:
    """Proves: E9, C4. In the log with the place, on the health page and in the audit; until it is mended."""
    good: Json = {"box": server()}
    place.put(good)
    async with place.serving() as served, over_http(served.url, VERSIONS[-1]) as host:
        before = await who(host, "box.who")
        for content, said in BROKEN:
            refusals = place.log.count(said)
            if content is None:
                place.config.unlink()
            elif isinstance(content, str):
                place.write(content)
            else:
                place.put(content)
            place.signal(signal.SIGHUP)
            await place.logged(said, refusals + 1)
            config = await place.told(said)
            assert config["broken"] is True
            assert await names(host) == {"box.who", "box.wait"}
            assert (await who(host, "box.who"))["pid"] == before["pid"]
        await place.reload({**good, "more": server()}, "server more is ready")
        in_order = {"file": str(place.config), "broken": False, "problems": [], "wait_for_restart": []}
        assert (await place.ready())["config"] == in_order
        place.signal(signal.SIGTERM)
        assert await place.ended() == 0
    kinds = [row["kind"] for row in await place.audit() if row.get("kind", "").startswith("config_")]
    assert set(kinds) == {"config_refused", "config_reloaded"}
    assert kinds[-1] == "config_reloaded"


async def test_the_stdio_door_reloads_too(place: Place) -> None:
    """Proves: D11. SIGHUP, and the host hears of the new tools."""
    place.put({"box": server()})
    async with started_by(place.config, LEGACY) as (process, host):
        await host.named("box__who")
        place.put({"box": server(), "two": server()})
        process.send_signal(signal.SIGHUP)
        await host.named("two__who")
        assert await names(host) == {"box__who", "box__wait", "two__who", "two__wait"}
        process.stdin.close()
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0
