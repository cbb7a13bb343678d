"""The commands an operator types, as processes: what they print, where, and how they end."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator import __version__
from aggregator.cli.commands import app
from aggregator.domain.errors import OperatorError
from tests.end_to_end.programs import run
from tests.end_to_end.server_harness import local_entry, raw_stdio_entry, write_config
from tests.peers.library import Library, http_app
from tests.peers.serving import serving
from tests.peers.toolbox import DEFINITIONS


@pytest.fixture
def one(tmp_path: Path) -> str:
    """A configuration with one good server."""
    return str(write_config(tmp_path, {"box": raw_stdio_entry()}))


@pytest.mark.parametrize(
    "command",
    [
        "keys new {}",
        "keys revoke {}",
        "keys expire {} 1d",
        "approvals show {}",
        "audit show {}",
        "audit tail --agent {}",
        "audit tail --tool {}",
        "policy explain a {}",
        "call box.echo text={}",
        "tools {}",
        "status --url {}",
    ],
)
def test_an_argument_that_is_no_text(command: str) -> None:
    """F8: What was typed in another encoding is refused by name, whatever the command does with it."""
    with pytest.raises(OperatorError, match=r"udcff' is not UTF-8 text"):
        app(command.format("\udcff").split(), standalone_mode=False)


async def test_more_lines_than_a_database_can_count(tmp_path: Path) -> None:
    """F8: A number has a bound that is told."""
    ended = await run("audit", "tail", "-n", "99999999999999999999", "--config", str(write_config(tmp_path, {})))
    assert ended.code == 2
    assert "less than or equal to 1000000" in ended.err


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """One good, one that is not there, one switched off by the operator, one for want of a variable, one broken."""
    servers = {
        "box": raw_stdio_entry("--version", "2026-07-28"),
        "missing": {"command": "no-such-program-anywhere"},
        "off": raw_stdio_entry(enabled=False),
        "keyless": {"url": "http://127.0.0.1:9/mcp?key=${NO_SUCH_KEY_ANYWHERE}"},
        "broken": {"comand": "typo"},
    }
    return str(write_config(tmp_path, servers))


async def test_version() -> None:
    """F8: one line."""
    ended = await run("version")
    assert (ended.code, ended.out, ended.err) == (0, f"aggregator {__version__}\n", "")


@pytest.mark.parametrize("command", [[], ["serve"], ["stdio"], ["check"], ["tools"], ["call"], ["version"]])
async def test_help_on_everything(command: list[str]) -> None:
    """F8: `--help` says what it does and ends with 0."""
    ended = await run(*command, "--help")
    assert ended.code == 0
    assert "Usage: " in ended.out
    assert ended.err == ""


async def test_check_of_what_is_well(one: str) -> None:
    """C1: a row per server: state, era, tools, time; exit 0 and silence on stderr."""
    ended = await run("check", "--config", one)
    assert ended.code == 0, ended
    (row,) = (line for line in ended.out.splitlines() if line.split()[:1] == ["box"])
    assert re.search(rf"box +stdio +ready +legacy 2025-06-18 +{len(DEFINITIONS)} +\d+\.\d\d s", row)
    assert ended.err == ""


async def test_check_of_what_is_not(mixed: str) -> None:
    """C1, E1, E9: exit 1; who, what is wrong and the mend; the good one is still shown as good."""
    ended = await run("check", "--config", mixed)
    assert ended.code == 1
    rows = {line.split()[0]: line for line in ended.out.splitlines() if line.strip()}
    assert re.search(r"ready +modern 2026-07-28", rows["box"])
    assert "unavailable" in rows["missing"]
    assert "disabled" in rows["off"]
    assert "disabled" in rows["keyless"]
    said = " ".join(ended.out.split())
    assert "'no-such-program-anywhere' was not found" in said
    assert "NO_SUCH_KEY_ANYWHERE" in said
    assert "mcpServers.broken" in said
    assert "command" in said
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("kind", ["sse", "http", "auto"])
async def test_check_of_an_address_where_nothing_listens(tmp_path: Path, kind: str) -> None:
    """E1: every transport gives up at once and says so, on every Python."""
    server = {"type": kind, "url": "http://127.0.0.1:9/sse"}
    ended = await run("check", "--config", str(write_config(tmp_path, {"gone": server})))
    assert ended.code == 1, ended
    assert "nothing listens there" in ended.out
    assert ended.err == ""


async def test_check_as_json(mixed: str) -> None:
    """C1, E9: the same for programs."""
    ended = await run("check", "--json", "--config", mixed)
    assert ended.code == 1
    report = json.loads(ended.out)
    rows = {row["server"]: row for row in report["servers"]}
    assert rows.keys() == {"box", "missing", "off", "keyless"}
    assert rows["box"]["state"] == "ready"
    assert rows["box"]["era"] == "modern 2026-07-28"
    assert rows["box"]["tools"] == len(DEFINITIONS)
    assert rows["box"]["problem"] is None
    assert "was not found" in rows["missing"]["problem"]
    assert any("mcpServers.broken" in problem for problem in report["problems"])


async def test_check_says_by_which_transport_a_server_was_reached(tmp_path: Path) -> None:
    """C1: what `auto` has come to; what was configured, if nothing was reached."""
    async with serving(http_app(Library("lib"))) as url:
        servers: dict[str, dict[str, Any]] = {
            "lib": {"type": "auto", "url": f"{url}/mcp"},
            "off": {"type": "auto", "url": f"{url}/mcp", "enabled": False},
        }
        path = write_config(tmp_path, servers)
        ended = await run("check", "--json", "--config", str(path))
    assert {row["server"]: row["type"] for row in json.loads(ended.out)["servers"]} == {"lib": "http", "off": "auto"}


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("postgresql+nosuch://user:hidden-word@host/db", "storage: The storage URL cannot be used"),
        ("/var/lib/aggregator.db", "storage: The storage URL cannot be used"),
        ("sqlite:////dev/null/a.db", "storage: The database /dev/null/a.db cannot be written."),
    ],
)
async def test_check_of_a_database_that_cannot_be(tmp_path: Path, storage: str, said: str) -> None:
    """E9: exit 1, though every server is well: `serve` would not start with it."""
    path = write_config(tmp_path, {"box": raw_stdio_entry()}, storage=storage)
    ended = await run("check", "--config", str(path))
    assert ended.code == 1
    assert said in " ".join(ended.out.split())
    assert "hidden-word" not in ended.out + ended.err
    as_json = await run("check", "--json", "--config", str(path))
    assert said.removeprefix("storage: ") in json.loads(as_json.out)["storage"]


async def test_check_of_a_database_from_before_the_first_release(tmp_path: Path) -> None:
    """E9: `serve` would not start with it."""
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('0015')")
    path = write_config(tmp_path, {"box": raw_stdio_entry()}, storage="sqlite:///old.db")
    ended = await run("check", "--json", "--config", str(path))
    assert ended.code == 1
    assert f"{tmp_path / 'old.db'} was made by a version" in json.loads(ended.out)["storage"]
    assert "before the first release (schema 0015)" in json.loads(ended.out)["storage"]


async def test_tools(one: str) -> None:
    """C5, E12: a line each: name and what it does."""
    ended = await run("tools", "--config", one)
    assert ended.code == 0
    assert [line.partition(":")[0] for line in ended.out.splitlines()] == [f"box.{one['name']}" for one in DEFINITIONS]
    assert "Everything it was sent" in ended.out.splitlines()[0]
    assert ended.err == ""


async def test_tools_are_found_by_words(one: str) -> None:
    """E12, B2: best first, at the level of detail that is asked for; nothing found is said by the status."""
    found = await run("tools", "everything sent", "--limit", "2", "--level", "2", "--config", one)
    assert found.code == 0
    assert json.loads(found.out.splitlines()[0])["name"] == "box.echo"
    assert len(found.out.splitlines()) <= 2
    assert "weak matches" not in found.err
    weak = await run("tools", "cancel everything at the hairdresser", "--json", "--config", one)
    assert json.loads(weak.out), "the tools are printed all the same"
    assert weak.err.startswith("weak matches: no tool")
    nothing = await run("tools", "zxqvjk", "--config", one)
    assert (nothing.code, nothing.out) == (1, "")


async def test_tools_within_a_budget(one: str) -> None:
    """B2: whole tools only, and how many were left out."""
    ended = await run("tools", "--max-tokens", "40", "--config", one)
    lines = ended.out.splitlines()
    assert 0 < len(lines) < len(DEFINITIONS)
    assert f"{len(DEFINITIONS) - len(lines)} more do not fit 40 tokens" in ended.err


async def test_tools_as_json(tmp_path: Path) -> None:
    """C6: whole definitions, and only one server's when asked."""
    config = str(write_config(tmp_path, {"box": raw_stdio_entry(), "here": local_entry()}))
    ended = await run("tools", "--json", "--server", "box", "--config", config)
    assert json.loads(ended.out) == [{**tool, "name": f"box.{tool['name']}"} for tool in DEFINITIONS]
    assert ended.err == ""


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        (["text=12", "n=34", "other=[1]", "word=plain"], {"text": "12", "n": 34, "other": [1], "word": "plain"}),
        (["--arguments", '{"n": 5, "deep": {"a": [null]}}'], {"n": 5, "deep": {"a": [None]}}),
        ([' {"n": 5, "text": "x=1"}'], {"n": 5, "text": "x=1"}),
        ([], {}),
    ],
)
async def test_call(one: str, arguments: list[str], received: object) -> None:
    """C8: values are read as the tool's schema says; the text of the result goes to stdout."""
    ended = await run("call", "box.echo", *arguments, "--config", one)
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == received


async def test_json_prints_the_whole_result(one: str) -> None:
    """As in every other command; an error is 1 all the same."""
    ended = await run("call", "box.echo", "n=5", "--json", "--config", one)
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(ended.out)
    assert json.loads(result["content"][0]["text"]) == {"n": 5}
    refused = await run("call", "box.refuse", "--json", "--config", one)
    assert (refused.code, json.loads(refused.out)["isError"]) == (1, True)


@pytest.mark.parametrize("words", [["box.echo", "--json", '{"n": 5}'], ["--json", '{"n": 5}', "box.echo"]])
async def test_json_before_an_object_still_gives_arguments(one: str, words: list[str]) -> None:
    ended = await run("call", *words, "--config", one)
    assert ended.code == 0
    assert json.loads(json.loads(ended.out)["content"][0]["text"]) == {"n": 5}
    assert ended.err == (
        "aggregator: --json prints the result as JSON. The object was taken for the arguments; give them with "
        "--arguments.\n"
    )


async def test_call_of_a_server_in_the_process(tmp_path: Path) -> None:
    """C4: nothing but the result is printed, from the first to the last."""
    ended = await run("call", "here__echo", "n=1", "--config", str(write_config(tmp_path, {"here": local_entry()})))
    assert (ended.code, ended.out, ended.err) == (0, '{"n": 1}\n', "")


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (["box.refuse"], 1, ["no"]),
        (["box.decline"], 2, ["The peer declines."]),
        (["box.ecko"], 2, ["Unknown tool", "box.echo"]),
        (["nobody.echo"], 2, ["Unknown tool"]),
        (["box.echo", "--arguments", "{"], 2, ["The arguments are not JSON"]),
        (["box.echo", "{"], 2, ["The arguments are not JSON"]),
        (["box.echo", "--arguments", "[]"], 2, ["must be an object"]),
        (["box.echo", "n=1", "--arguments", "{}"], 2, ["not both"]),
        (["box.echo", "{}", "--arguments", "{}"], 2, ["not both"]),
        (["box.echo", "n=1", "{}"], 2, ["key=value"]),
        (["box.echo", "novalue"], 2, ["key=value"]),
    ],
)
async def test_calls_that_fail(one: str, call: list[str], code: int, words: list[str]) -> None:
    """C12, E5: a tool's own error is 1, everything else 2, with one line that says what to do."""
    ended = await run("call", *call, "--config", one)
    assert ended.code == code
    for word in words:
        assert word in (ended.out if code == 1 else ended.err)
    assert "Traceback" not in ended.err
    if code == 2:
        assert ended.out == ""


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("serve", None, ["no file", "--config"]),
        ("stdio", "{", ["JSON", "line 1"]),
        ("check", "[]", ["object"]),
        ("tools", '{"mcpServers": {"a": {"command": "x" "y"}}}', ["line 1"]),
        ("tools", '{"mcpServers": {}, "polices": "rules"}', ["polices", "Did you mean"]),
    ],
)
async def test_a_file_that_cannot_be_used(tmp_path: Path, command: str, text: str | None, words: list[str]) -> None:
    """E9: which file, what is wrong and where; exit 2."""
    path = tmp_path / "aggregator.json"
    if text is not None:
        path.write_text(text)
    ended = await run(command, "--config", str(path))
    assert ended.code == 2
    assert "aggregator.json" in ended.err
    for word in words:
        assert word.lower() in ended.err.lower()
    assert "Traceback" not in ended.err


async def test_without_any_configuration(tmp_path: Path) -> None:
    """E7: every place looked at, and what to write there."""
    folder = str(tmp_path / "config")
    ended = await run("check", cwd=tmp_path, HOME=str(tmp_path), XDG_CONFIG_HOME=folder, APPDATA=folder)
    assert ended.code == 2
    assert str(tmp_path / "config") in ended.err
    assert "`aggregator init`" in ended.err


async def test_a_server_from_the_environment(tmp_path: Path) -> None:
    """C16: `<NAME>_MCP_SERVER_URL`, reported like any other."""
    config = str(write_config(tmp_path, {"box": raw_stdio_entry()}))
    ended = await run(
        "check", "--json", "--config", config, LEGAL_MCP_SERVER_URL="http://127.0.0.1:9/sse", LEGAL_MCP_TIMEOUT="500"
    )
    rows = {row["server"]: row for row in json.loads(ended.out)["servers"]}
    assert rows["legal"]["state"] == "unavailable"
    assert ended.code == 1
