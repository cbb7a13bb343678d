"""Servers that do not start here: what a model is told of them, and what no server is configured."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aggregator.config.load import load_mapping
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.connection_causes import CAUSES
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.views.first_steps import first_steps, own_program
from aggregator.gateway.views.instructions import (
    MOST_TOKENS,
    MOST_TOKENS_SHORT,
    instructions,
    instructions_about,
    instructions_at_start,
)
from aggregator.gateway.views.start_faults import fault_sentence, missing_programs, start_fault
from aggregator.upstream.lifecycle.states import State, StateAndReason
from tests import ON_WINDOWS
from tests.end_to_end.programs import converse
from tests.meta.conftest import TOOLS, MetaHarness, OpenHarness
from tests.peers.toolbox import Json

CANARY: Final = "canary-0123456789-abcdef"


class KnownToAgent(NamedTuple):
    """A server that has told nothing of itself."""

    config: ServerConfig
    state: State
    instructions: str = ""
    start_fault: str = ""


def server(name: str, command: str = "none", **fields: Any) -> ServerConfig:
    return ServerConfig(id=name, key=name, prefix=name, type="stdio", command=command, **fields)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("the command 'uvx' was not found; install uv", "`uvx` was not found on PATH"),
        ('the command "a\'b" was not found; is it installed', "`a'b` was not found on PATH"),
        ("the command '/home/ada/bin/serve' was not found; x", "`serve` is not where its entry says"),
        ("the command 'run' may not be run: Permission denied", "`run` may not be run"),
        ("'run' cannot be run: the interpreter its first line names is not there", "`run` may not be run"),
        (f"its process ended with exit code 3; it last said: {CANARY}", "its program ended with exit code 3"),
        ("it is in a crash loop: its process ended with signal 11", "its program ended with signal 11"),
        ("did not answer within 60 s", "it did not answer in time"),
        (f"http://x.example: {CAUSES['unknown_ca'].words}", CAUSES["unknown_ca"].sentence),
        (f"it refused our credentials: {CANARY}", ""),
        ("", ""),
    ],
)
def test_the_fault_is_told_in_our_words(reason: str, told: str) -> None:
    assert start_fault("unavailable", reason, connected=False) == told
    assert CANARY not in told
    assert start_fault("unavailable", reason, connected=True) == "", "it has started here before"
    assert (
        start_fault("reconnecting", reason, connected=False) == start_fault("starting", reason, connected=False) == ""
    )


def test_a_program_that_no_path_has_is_known_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").write_text("#!/bin/sh\n")
    (tmp_path / "there").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    servers = [
        server("a", "there"),
        server("b", "not-there"),
        server("c", "/no/such/program"),
        server("d", "not-there", enabled=False),
        server("e", "there", env={"PATH": "/no/such/folder"}),
        server("f", os.path.basename(sys.executable)),
    ]
    assert missing_programs(servers) == {
        "b": "`not-there` was not found on PATH",
        "e": "`there` was not found on PATH",
    }


def test_the_sentence_joins_servers_of_one_fault_and_counts_the_rest() -> None:
    assert fault_sentence([]) == ""
    one = "time does not start here: `uvx` was not found on PATH; run `aggregator doctor`."
    assert fault_sentence([("time", "`uvx` was not found on PATH")]) == one
    said = fault_sentence([("a", "x"), ("b", "y"), ("c", "x"), ("d", "x"), ("e", "z")])
    assert said == (
        "a and c do not start here: x; b does not start here: y; 2 more do not either; run `aggregator doctor`."
    )
    assert fault_sentence([("a\n`b", "x")]).startswith("ab does")
    assert len(fault_sentence([("n" * 500, "x")])) < 150


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("count", [1, 3, 20, 200])
def test_the_sentence_is_within_the_budget_of_the_instructions(count: int, short: bool) -> None:
    """F5: and before what is said of each server."""
    servers = [server(f"server-{at}", description="Notes and what goes with them") for at in range(count)]
    faults = {one.id: "`npx-of-some-length` was not found on PATH" for one in servers}
    text = instructions(servers, {}, short=short, faults=faults)
    assert estimate(text) <= (MOST_TOKENS_SHORT if short else MOST_TOKENS)
    assert "server-0 " in text
    assert "not start here: `npx-of-some-length` was not found on PATH" in text
    assert text == instructions(servers, {}, short=short, faults=dict(faults))


async def test_a_later_session_and_the_list_of_servers_say_it(open_harness: OpenHarness) -> None:
    """Proves: E9. Of a server that never started; the list is not empty, and the doctor is named."""
    async with open_harness(tools={}, down=dict.fromkeys(("maps", "git"), "unavailable")) as harness:
        for upstream in harness.app.upstreams.values():
            reason = "the command 'never' was not found; is it installed"
            upstream.lifecycle.current = StateAndReason("unavailable", reason, since=time.time())
        host = harness.host("local")
        told = await harness.ask(host, "initialize", {"protocolVersion": "2025-06-18"})
        sentence = "maps and git do not start here: `never` was not found on PATH; run `aggregator doctor`."
        assert sentence in told["result"]["instructions"]
        listed = await harness.ask(host, "tools/list", {})
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["list_servers"]
        assert "search_tools" not in told["result"]["instructions"]
        said = await harness.text(host, "list_servers")
        assert "; git does not start here: `never` was not found on PATH; run `aggregator doctor`" in said


async def test_an_agent_that_may_use_no_server_still_gets_an_empty_list(open_harness: OpenHarness) -> None:
    """Its policy is no fault of this machine, and names of servers are not told."""
    rules = {"agents": {"local": {"allow": ["other.*"]}}}
    async with open_harness(policies=rules, down={"maps": "unavailable"}) as harness:
        host = harness.host("local")
        listed = await harness.ask(host, "tools/list", {})
        assert listed["result"]["tools"] == []
        told = await harness.ask(host, "initialize", {"protocolVersion": "2025-06-18"})
        assert "maps" not in told["result"]["instructions"]


async def _first_session(tmp_path: Path, servers: Json) -> list[Json]:
    """Return the answers of a host's first requests over stdio: `initialize`, the list, and `list_servers`."""
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": servers, "http": {"port": 0}}))
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude-ai", "version": "1"}}
    asked = [("initialize", first), ("tools/list", {}), ("tools/call", {"name": "list_servers", "arguments": {}})]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": f"r{at}", "method": method, "params": params})
        for at, (method, params) in enumerate(asked)
    ]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    spoken = "".join(f"{line}\n" for line in lines).encode()
    said = await converse("stdio", "--config", str(config), stdin=spoken, until={"r0", "r1", "r2"})
    messages = [json.loads(line) for line in said.out.splitlines()]
    assert CANARY not in said.out
    return [next(one for one in messages if one.get("id") == f"r{at}")["result"] for at in range(3)]


async def test_the_first_answer_over_stdio_says_what_does_not_start(tmp_path: Path) -> None:
    """Proves: E9. Before any server is started; a server's own last words reach no host."""
    dies = ["-c", f"import sys; sys.stderr.write('{CANARY}'); sys.exit(3)"]
    servers = {"time": {"command": "not-on-any-path"}, "dies": {"command": sys.executable, "args": dies}}
    first, listed, seen = await _first_session(tmp_path, servers)
    sentence = "time does not start here: `not-on-any-path` was not found on PATH; run `aggregator doctor`."
    assert sentence in first["instructions"]
    assert [tool["name"] for tool in listed["tools"]] == ["list_servers"]
    text = seen["content"][0]["text"]
    assert sentence.rstrip(".") in text
    assert "dies does not start here: its program ended with exit code 3; run `aggregator doctor`" in text


@pytest.mark.parametrize(("state", "told"), [("starting", True), ("ready", False), ("stopped", False)])
def test_a_host_that_asks_before_its_servers_were_tried_is_told_too(state: State, told: bool) -> None:
    """On Windows no request is read before the servers begin to start."""
    seen = [KnownToAgent(server("time", "not-on-any-path"), state)]
    assert ("time does not start here: `not-on-any-path`" in instructions_about(seen, short=False)) is told


async def test_without_any_server_a_host_is_told_the_first_steps(tmp_path: Path) -> None:
    """The commands can be copied: the program by its path, if no PATH has it."""
    first, listed, seen = await _first_session(tmp_path, {})
    assert first["instructions"] == seen["content"][0]["text"]
    assert [tool["name"] for tool in listed["tools"]] == ["list_servers"]
    assert " import --write` takes over the servers of Claude" in first["instructions"]
    assert "`aggregator add NAME" in first_steps(at_machine=False)


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"time": {"command": "x", "auth": CANARY}}, "time is left out: `auth` cannot be used"),
        ({"time": {"url": f"htp://{CANARY}"}}, "time is left out: `url` cannot be used"),
        (
            {"my time": {"command": "x", "tools": {"timeout": CANARY}}},
            "my-time is left out: `tools` cannot be used",
        ),
        ({CANARY: "x", "b": {}}, f"{CANARY} and b are left out: the entry cannot be used"),
        ([CANARY], "mcpServers is left out: it is no object in { }"),
    ],
)
async def test_an_entry_of_a_wrong_form_is_not_told_as_none(tmp_path: Path, entries: Any, told: str) -> None:
    """All entries are wrong: a host is told which, and no value of the file."""
    named = {"mcpServers": entries}
    loaded = load_mapping(named, {})
    assert instructions_at_start(loaded.config, None) == f"{told}; run `aggregator doctor`."
    assert not [one for one in loaded.problems if CANARY in one.message]


async def test_a_host_reads_which_entries_are_left_out(tmp_path: Path) -> None:
    """Of one wrong entry alone; in the first answer over stdio and in `list_servers`."""
    first, listed, seen = await _first_session(tmp_path, {"time": {"command": "x", "auth": "Bearer 1"}})
    assert first["instructions"] == "time is left out: `auth` cannot be used; run `aggregator doctor`."
    assert [tool["name"] for tool in listed["tools"]] == ["list_servers"]
    assert seen["content"][0]["text"] == first["instructions"]


RULES: Final = {"agents": {"local": {"allow": ["*"]}, "guest": {"allow": ["maps.*"]}}}


@pytest.mark.parametrize("policies", [None, RULES])
async def test_a_wrong_entry_beside_good_ones_is_named_to_those_who_might_use_it(policies: Json | None) -> None:
    entries = {"maps": {"command": "never"}, "time": {"command": "x", "auth": "Bearer 1"}}
    harness = MetaHarness(load_mapping({"mcpServers": entries}, {}).config, {"maps": TOOLS["maps"]}, policies)
    sentence = "time is left out: `auth` cannot be used; run `aggregator doctor`."
    begun: Json = {"protocolVersion": "2025-06-18"}
    async with Tasks("the gateway of a test") as tasks:
        tasks.start(harness.app.gateway.run())
        tasks.start(harness.app.updates.run())
        for agent, named in [("local", True), *([("guest", False)] if policies else [])]:
            host = harness.host(agent)
            instructions = (await harness.ask(host, "initialize", begun))["result"]["instructions"]
            said = [instructions, await harness.text(host, "list_servers")]
            said += [await harness.text(host, "search_tools", query=query) for query in ("zzzz qqqq", "time zzzz")]
            assert [sentence in one for one in said] == [named] * 4, agent
            for tool_name in ("list_servers", "search_tools"):
                assert (await harness.text(host, tool_name, server="time") == sentence) is named
        await tasks.cancel()


def test_the_program_is_named_as_a_terminal_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    mark = '"' if ON_WINDOWS else "'"
    assert own_program() == f"{mark}{folder / 'python'}{mark} -m aggregator"
    (folder / "aggregator").write_text("")
    assert own_program() == f"{mark}{folder / 'aggregator'}{mark}"
    assert ("`& ` before it" in first_steps(at_machine=True)) is ON_WINDOWS
    on_path = tmp_path / "aggregator"
    on_path.write_text("")
    on_path.chmod(0o755)
    assert own_program() == "aggregator"
