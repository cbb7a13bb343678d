"""`aggregator.json` is edited while the program runs."""

import asyncio
import json
import signal
from typing import Any, Final

import pytest

from tests import ON_WINDOWS
from tests.end_to_end.programs import until_ended
from tests.end_to_end.scripted_host import BOUND, VERSIONS, ScriptedHost, over_http, over_sse
from tests.operating.program_harness import ProgramHarness, server, stdio_program, words
from tests.peers.processes import is_alive
from tests.peers.toolbox import Json
from tests.tool_lists import of_servers

CHANGED: Final = "notifications/tools/list_changed"
LEGACY: Final = VERSIONS[0]


async def process_of(host: ScriptedHost, tool: str) -> Json:
    """The process that answers, and its token."""
    found: Json = json.loads(words(await host.call(tool).result()))
    return found


async def names(host: ScriptedHost) -> set[str]:
    return set(of_servers(tool["name"] for tool in await host.list()))


@pytest.mark.skipif(ON_WINDOWS, reason="a process in a session of its own leaves the group that stands in for a job")
async def test_servers_come_and_go_and_the_others_notice_nothing(harness: ProgramHarness) -> None:
    """Proves: D11, E4. Who stays keeps process and call; hosts are told once of what is gone, and that ends its call
    first, and takes with it what it left in a session of its own."""
    own, its = harness.folder / "own", harness.folder / "its"
    stays = {"stays": server("--sidecar", str(own))}
    harness.write_config({**stays, "goes": server("--sidecar", str(its))})
    async with harness.serving() as served, over_sse(served.url, LEGACY) as host:
        first, goes = await process_of(host, "stays.who"), await process_of(host, "goes.who")
        kept, last = harness.wait(host, "stays.wait", "kept"), harness.wait(host, "goes.wait", "last")
        await kept.wait_begun()
        await last.wait_begun()
        await host.list()
        await harness.reload(stays, "server goes is removed")
        await host.inbox.named(CHANGED)
        assert await names(host) == {"stays.who", "stays.wait"}
        assert (await host.call("goes.who").error())["code"] == -32602
        assert is_alive(goes["pid"])
        kept.release()
        last.release()
        assert words(await last.call.result()) == words(await kept.call.result()) == "waited"
        await until_ended(goes["pid"], int(its.read_text()))
        assert [message["method"] for message in host.inbox.messages] == [CHANGED]
        await harness.reload({"comes": server(), **stays}, "server comes is ready")
        listed = of_servers(tool["name"] for tool in await host.list())
        assert listed == ["comes.who", "comes.wait", "stays.who", "stays.wait"]
        assert (await process_of(host, "stays.who"))["pid"] == first["pid"]
        assert is_alive(int(own.read_text()))


async def test_a_changed_server_is_replaced_and_the_old_one_drains(harness: ProgramHarness) -> None:
    """Proves: D11. Also when only a file changed that its entry names; what stands in it is hidden from the first line
    on that the new one prints. Its tools never leave the list."""
    secret = harness.folder / "token"
    secret.write_text("a-first-secret\n")
    entry = server("--prints", env={"TOKEN": f"${{file:{secret}}}"})
    harness.write_config({"box": entry, "other": server()})
    async with harness.serving() as served, over_sse(served.url, LEGACY) as host:
        old, other, listed = await process_of(host, "box.who"), await process_of(host, "other.who"), await host.list()
        held = harness.wait(host, "box.wait")
        await held.wait_begun()
        secret.write_text("a-second-secret\n")
        await harness.wait_for_log("server box is connected anew (env)")
        assert await host.list() == listed
        new = await process_of(host, "box.who")
        assert (old["token"], new["token"]) == ("a-first-secret", "a-second-secret")
        assert is_alive(old["pid"])
        held.release()
        assert words(await held.call.result()) == "waited"
        await until_ended(old["pid"])
        assert (await process_of(host, "other.who"))["pid"] == other["pid"]
        assert CHANGED not in [message["method"] for message in host.inbox.messages]
        await harness.wait_for_log("my token is [redacted]", 2)
    assert "secret" not in harness.log.replace(str(secret), "")


async def test_what_needs_no_connection_changes_in_place_and_what_cannot_change_waits(harness: ProgramHarness) -> None:
    """Proves: D11, E9. Filters, time-outs, words, names, what is listed and logged: the process stays. What has to wait
    for a restart is named, and the command line counts whatever the file says."""
    harness.write_config({"box": server()})
    async with harness.serving("--log-level", "info") as served, over_sse(served.url, LEGACY) as host:
        before = await process_of(host, "box.who")
        amended = server(tools={"exclude": ["wait"]}, timeout="7s", description="Other words", prefix="crate")
        more: Json = {"expose": "search", "pinned": ["crate.*"], "read_tool": True, "log": {"level": "error"}}
        harness.write_config({"box": amended}, **more, http={"path": "/other", "port": 1})
        harness.read_again()
        await harness.wait_for_log(
            "server box has other settings (prefix, description, timeout, tools.exclude) on the same connection"
        )
        await host.inbox.named(CHANGED)
        listed = await names(host)
        assert {"crate.who", "search_tools"} <= listed
        assert not {"crate.wait", "box.who", "read_tool"} & listed
        assert (await process_of(host, "crate.who"))["pid"] == before["pid"]
        assert "in effect: expose, pinned\n" in harness.log
        for setting in ("http.path", "read_tool"):
            assert f"`{setting}` cannot be changed while the program runs" in harness.log
        assert (await harness.ready())["config"]["wait_for_restart"] == ["http.path", "read_tool"]


@pytest.mark.parametrize(("option", "waits"), [((), ["log.json"]), (("--log-json",), [])])
async def test_the_option_for_the_log_counts_whatever_the_file_says(
    harness: ProgramHarness, option: tuple[str, ...], waits: list[str]
) -> None:
    """Proves: F1. A log that is JSON by the command line does not wait for a restart to become it by the file."""
    harness.write_config({"box": server()})
    async with harness.serving("--log-level", "info", *option):
        await harness.reload({"box": server()}, "in effect: expose", expose="search", log={"json": True})
        assert (await harness.ready())["config"]["wait_for_restart"] == waits


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


async def test_a_broken_file_changes_nothing_and_is_told(harness: ProgramHarness) -> None:
    """Proves: E9, C4. In the log with the place, on the health page and in the audit; until it is mended."""
    good: Json = {"box": server()}
    harness.write_config(good)
    async with harness.serving() as served, over_http(served.url, VERSIONS[-1]) as host:
        before = await process_of(host, "box.who")
        for content, said in BROKEN:
            refusals = harness.log.count(said)
            if content is None:
                harness.config.unlink()
            elif isinstance(content, str):
                harness.write(content)
            else:
                harness.write_config(content)
            harness.read_again()
            await harness.wait_for_log(said, refusals + 1)
            config = await harness.wait_for_problem(said)
            assert config["broken"] is True
            assert await names(host) == {"box.who", "box.wait"}
            assert (await process_of(host, "box.who"))["pid"] == before["pid"]
        await harness.reload({**good, "more": server()}, "server more is ready")
        in_order = {"file": str(harness.config), "broken": False, "problems": [], "wait_for_restart": []}
        assert (await harness.ready())["config"] == in_order
        harness.signal(signal.SIGTERM)
        assert await harness.ended() == 0
    kinds = [row["kind"] for row in await harness.audit() if row.get("kind", "").startswith("config_")]
    assert set(kinds) == {"config_refused", "config_reloaded"}
    assert kinds[-1] == "config_reloaded"


async def test_the_files_as_they_were_end_what_was_said_of_them(harness: ProgramHarness) -> None:
    """An editor writes half a file, then the same one as before: the last word is not that it cannot be used."""
    policy = harness.folder / "policies" / "main.yaml"
    policy.parent.mkdir()
    policy.write_text('agents:\n  local:\n    allow: ["*"]\n')
    good: Json = {"box": server()}
    harness.write_config(good)
    async with harness.serving():
        harness.write('{"mcpServers": {"box')
        await harness.wait_for_log("the configuration as it is now cannot be used")
        harness.write_config(good)
        await harness.wait_for_log("configuration: its files can be used again")
        policy.write_text("agents: [")
        await harness.wait_for_log("the rules that were in force stay")
        policy.write_text("agents: {local: {alow: []}}")
        await harness.wait_for_log("alow")
        told = harness.log.count("policies: revision")
        policy.write_text('agents:\n  local:\n    allow: ["box.*"]\n')
        await harness.wait_for_log("policies: revision", told + 1)
        assert harness.log.count("policies: the files can be used again") == 1


async def test_the_stdio_frontend_reloads_too(harness: ProgramHarness) -> None:
    """Proves: D11. SIGHUP, or a while, and the host hears of the new tools."""
    harness.write_config({"box": server()})
    async with stdio_program(harness.config, LEGACY) as (process, host):
        await host.named("box__who")
        harness.write_config({"box": server(), "two": server()})
        if not ON_WINDOWS:
            process.send_signal(signal.SIGHUP)
        await host.named("two__who")
        assert await names(host) == {"box__who", "box__wait", "two__who", "two__wait"}
        process.stdin.close()
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0
