"""`aggregator remove`, `enable`, `disable`, `rename`: one entry changes, comments stay, what names it is told."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from aggregator.cli.servers.edit import open_config
from aggregator.config.files.find import own_file, trust_list
from aggregator.config.files.jsonfile import read_object
from aggregator.domain.errors import OperatorError
from tests.end_to_end.programs import start
from tests.end_to_end.server_harness import raw_stdio_entry

from .conftest import Run

MINE = """{
  // my servers
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]}, // c1
    /* c2 */
    "git hub": {
      "url": "http://127.0.0.1:9/mcp", // c3
      "disabled": false,
      "fallbacks": ["time"],
      "tools": {"fallbacks": {"get_*": ["time.now", "other.now"]}},
    },
  },
  "pinned": ["time.*"], // c4
  "log": {"levels": {"server.time": "debug"}},
  "notify": {"me": {"servers": ["time", "x"]}},
}
"""
POLICIES = """# c1
roles:
  all:
    allow:
      - time.*   # c2
      - server:time
      - t?me.now
      - "*"
    deny: [time.set, "resource:time.*", "prompt:time.*", "skill:time.*"]
    limits:
      time.*: {per_minute: 3}
tenants:
  acme: {servers: [time, other]}
agents:
  a:
    bindings: {now: time}
"""
CASES = """cases:
  - {agent: a, tool: time.now, expect: allow, why: time.now must work}
"""


@pytest.fixture
def mine(config: Path) -> Path:
    config.write_text(MINE)
    (config.parent / "policies" / "cases").mkdir(parents=True)
    (config.parent / "policies" / "main.yaml").write_text(POLICIES)
    (config.parent / "policies" / "cases" / "all.yaml").write_text(CASES)
    return config


def test_a_server_is_removed_and_what_names_it_is_told(mine: Path, run: Run) -> None:
    code, said = run("remove", "time")
    assert code == 0
    assert mine.read_text() == MINE.replace(
        '    "time": {"command": "uvx", "args": ["mcp-server-time"]}, // c1\n', "    // c1\n"
    )
    assert mine.with_name("aggregator.json.bak").read_text() == MINE
    policies = mine.parent / "policies"
    places = [line.strip().rpartition(": ")[::2] for line in said.splitlines() if line.startswith("  ")]
    assert places == [
        (f"{mine}:9", "time"),
        (f"{mine}:10", "time.now"),
        (f"{mine}:13", "time.*"),
        (f"{mine}:14", "server.time"),
        (f"{mine}:15", "time"),
        (f"{policies}/cases/all.yaml:2", "time.now"),
        (f"{policies}/main.yaml:5", "time.*"),
        (f"{policies}/main.yaml:6", "server:time"),
        (f"{policies}/main.yaml:7", "t?me.now"),
        (f"{policies}/main.yaml:9", "time.set"),
        (f"{policies}/main.yaml:9", "resource:time.*"),
        (f"{policies}/main.yaml:9", "prompt:time.*"),
        (f"{policies}/main.yaml:9", "skill:time.*"),
        (f"{policies}/main.yaml:11", "time.*"),
        (f"{policies}/main.yaml:13", "time"),
        (f"{policies}/main.yaml:16", "time"),
    ]
    assert f"{mine}.bak" in said
    assert "loads the change" in said


def test_a_server_that_is_there_twice_is_removed_whole(config: Path, run: Run) -> None:
    """Else the entry that did not count before would count from now on."""
    config.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "a": {"command": "z"}}}')
    run("remove", "a")
    assert read_object(config)["mcpServers"] == {"b": {"command": "y"}}


def test_a_name_that_another_server_has_in_other_letters_is_taken(config: Path, run: Run) -> None:
    config.write_text('{"mcpServers": {"a": {"command": "x"}, "my maps": {"command": "y"}}}')
    for taken in ("my-maps", "a"):
        with pytest.raises(OperatorError, match=r"has a server .* already"):
            run("rename", "a", taken)


def test_a_server_is_renamed_with_what_names_it_in_the_configuration(mine: Path, run: Run) -> None:
    run("rename", "time", "clock")
    assert mine.read_text() == (
        MINE.replace('"time"', '"clock"').replace("time.now", "clock.now").replace("time.*", "clock.*")
    ).replace("server.time", "server.clock")
    assert (mine.parent / "policies" / "main.yaml").read_text() == POLICIES


def test_policies_are_renamed_where_that_is_asked_for(mine: Path, run: Run) -> None:
    _, said = run("rename", "time", "clock", "--policies")
    changed = (mine.parent / "policies" / "main.yaml").read_text()
    assert changed == (
        POLICIES.replace("- time.*   # c2", '- "clock.*"   # c2')
        .replace("- server:time", '- "server:clock"')
        .replace("time.set", "clock.set")
        .replace(":time.*", ":clock.*")
        .replace("      time.*:", '      "clock.*":')
        .replace("[time, other]", "[clock, other]")
        .replace("{now: time}", "{now: clock}")
    )
    cases = (mine.parent / "policies" / "cases" / "all.yaml").read_text()
    assert cases == CASES.replace("tool: time.now", "tool: clock.now")
    left = [line for line in said.splitlines() if line.startswith("  ")]
    assert left == [f"  {mine.parent}/policies/main.yaml:7: t?me.now"], "a wildcard is for a person to decide"


def test_policies_can_be_renamed_afterwards(mine: Path, run: Run) -> None:
    _, said = run("rename", "time", "clock")
    assert "`aggregator rename time clock --policies`" in said
    run("rename", "time", "clock", "--policies")
    assert "clock.set" in (mine.parent / "policies" / "main.yaml").read_text()


def test_a_prefix_of_its_own_stays_so_patterns_go_on_to_match(config: Path, run: Run) -> None:
    config.write_text('{"mcpServers": {"time": {"command": "x", "prefix": "t"}}}')
    (config.parent / "policies").mkdir()
    (config.parent / "policies" / "a.yaml").write_text("roles: {a: {allow: [t.now, server:time]}}\n")
    (config.parent / "policies" / "B.YML").write_text("roles: {b: {deny: [server:time]}}\n")
    _, said = run("rename", "time", "clock", "--policies")
    assert (config.parent / "policies" / "B.YML").read_text() == 'roles: {b: {deny: ["server:clock"]}}\n'
    assert (config.parent / "policies" / "a.yaml").read_text() == 'roles: {a: {allow: [t.now, "server:clock"]}}\n'
    assert "Its tools are now called" not in said


@pytest.mark.parametrize(
    ("entry", "others", "on", "expected"),
    [
        ({}, {}, False, {"enabled": False}),
        ({}, {"b": {"disabled": True}}, False, {"disabled": True}),
        ({}, {"b": {"isActive": True}}, False, {"isActive": False}),
        ({"disabled": True}, {}, True, {"disabled": False}),
        ({"isActive": False}, {}, True, {"isActive": True}),
        ({"enabled": True, "disabled": False}, {}, False, {"enabled": False, "disabled": False}),
        ({"disabled": "true"}, {}, True, {"disabled": False}),
    ],
)
def test_the_switch_is_written_as_the_file_has_it(
    config: Path, run: Run, entry: dict[str, object], others: dict[str, object], on: bool, expected: dict[str, object]
) -> None:
    config.write_text(json.dumps({"mcpServers": {"a": {"command": "x", **entry}, **others}}))
    run("enable" if on else "disable", "a")
    assert read_object(config)["mcpServers"] == {"a": {"command": "x", **expected}, **others}


def test_what_stands_so_already_is_not_written(mine: Path, run: Run) -> None:
    code, said = run("enable", "time", "git hub")
    assert (code, said) == (0, "time is enabled already.\ngit hub is enabled already.\n")
    assert not mine.with_name("aggregator.json.bak").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("remove", "tme"), "has no server 'tme'. Did you mean `time`"),
        (("disable", "nothing like it"), "has no server"),
        (("rename", "time", "git-hub"), "has a server 'git-hub' already"),
        (("rename", "time", "time"), "already"),
        (("rename", "time", "a b"), "Write a-b"),
        (("rename", "time", "é"), "cannot be a server's name"),
        (("rename", "time", "_x"), "cannot be a server's name"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    mine: Path, run: Run, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(OperatorError) as caught:
        run(*words)
    assert said in str(caught.value)
    assert mine.read_text() == MINE


def test_a_server_is_named_by_its_id_too(mine: Path, run: Run) -> None:
    run("remove", "git-hub")
    assert list(open_config(mine).servers) == ["time"]


def test_the_root_of_vs_code_is_edited_where_the_file_uses_it(config: Path, run: Run) -> None:
    config.write_text('{"servers": {"a": {"command": "x"}}}')
    edit = open_config(None)
    edit.add_entry("b", {"command": "y"})
    edit.write()
    assert json.loads(config.read_text()) == {"servers": {"a": {"command": "x"}, "b": {"command": "y"}}}
    with pytest.raises(OperatorError, match="has a server 'a' already"):
        open_config(None).add_entry("a", {})


def test_where_there_is_none_the_users_own_is_made(home: Path) -> None:
    edit = open_config(None)
    assert edit.is_new
    edit.add_entry("time", {"command": "uvx"})
    assert edit.write() is None
    own = own_file(os.environ)
    assert json.loads(own.read_text()) == {"mcpServers": {"time": {"command": "uvx"}}}
    assert stat.S_IMODE(own.stat().st_mode) == 0o600


def test_a_trusted_file_stays_trusted_and_no_other_becomes_so(home: Path, run: Run) -> None:
    here = Path.cwd() / "aggregator.json"
    here.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}')
    with pytest.raises(OperatorError, match="is not trusted"):
        run("remove", "a")
    run("remove", "a", "--config", str(here))
    with pytest.raises(OperatorError):
        trust_list(os.environ).check(here)
    run("trust")
    run("disable", "b")
    trust_list(os.environ).check(here)
    assert read_object(here)["mcpServers"] == {"b": {"command": "y", "enabled": False}}


def test_what_is_wrong_with_a_file_is_said_as_it_is_trusted(home: Path, run: Run) -> None:
    """Beside what it starts."""
    path = home / "aggregator.json"
    path.write_text('{"mcpServers": {"a": {"command": "x", "args": ["y"]}}, "htpp": {}}')
    _, said = run("trust", str(path))
    server, problem, *_ = said.splitlines()
    assert "x y" in server
    assert "htpp" in problem


def test_the_list_of_trusted_files_says_how_each_is(home: Path, run: Run) -> None:
    paths = {name: home / name / "aggregator.json" for name in ("same", "other", "gone", "folder")}
    for path in paths.values():
        path.parent.mkdir()
        path.write_text('{"mcpServers": {}}')
        run("trust", str(path))
    paths["other"].write_text('{"mcpServers": {"a": {"command": "x"}}}')
    paths["gone"].unlink()
    paths["folder"].unlink()
    paths["folder"].mkdir()
    _, said = run("trust", "--list")
    states = {Path(line.split()[0]).parent.name: line.split(maxsplit=1)[1] for line in said.splitlines()[1:]}
    assert states == {"same": "trusted", "other": "changed since", "gone": "gone", "folder": "cannot be read"}


@pytest.fixture
def serving(config: Path) -> Path:
    config.write_text(json.dumps({"mcpServers": {"box": raw_stdio_entry()}, "http": {"port": 0}}))
    return config


async def test_a_running_gateway_takes_the_edit_over(serving: Path, home: Path, run: Run) -> None:
    """E7: a server that is disabled and enabled again goes and comes without a restart."""
    process = await start("serve", "--config", str(serving), cwd=home, HOME=str(home))
    lines: list[str] = []
    try:
        await _until(process.stderr, lines, "server box is ready")
        run("disable", "box")
        await _until(process.stderr, lines, "server box is stopped")
        run("enable", "box")
        await _until(process.stderr, lines, "server box is ready")
    finally:
        process.terminate()
        await process.communicate()


async def _until(stream: object, lines: list[str], said: str) -> None:
    async with asyncio.timeout(60):
        while True:
            line = (await stream.readline()).decode()  # type: ignore[attr-defined]
            assert line, f"ended before {said!r}:\n{''.join(lines)}"
            lines.append(line)
            if said in line:
                return
