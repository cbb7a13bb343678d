"""`aggregator policy ...`: what is printed, and the exit code."""

import asyncio
import json
import os
import re
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path
from socket import socket
from typing import Final

import pytest

from aggregator.app.catalog_sync import fingerprint
from aggregator.cli.policy import policy
from aggregator.config.errors import ConfigError
from aggregator.config.load import load
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.policy.files.checking import check
from aggregator.policy.files.folder import read_folder
from aggregator.policy.files.starter import starter
from aggregator.storage.database import open_database
from aggregator.storage.records import Definition, ServerCatalog
from tests.end_to_end.scripted_host import VERSIONS, over_http
from tests.operating.program_harness import ProgramHarness, server
from tests.policy.build import tool
from tests.tool_lists import of_servers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def harness(tmp_path: Path) -> ProgramHarness:
    return ProgramHarness(tmp_path)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example configuration in a folder of its own, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "aggregator.example.json", tmp_path)
    return Path("aggregator.example.json")


@pytest.fixture
def example(config: Path) -> Path:
    shutil.copytree(ROOT / "policies" / "example", "policies")
    shutil.copytree(ROOT / "policies" / "cases", "policies/cases")
    return config


def test_without_files_all_is_open(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.check(config) == 0
    assert capsys.readouterr().out == (
        "policies: no policy files, so the local agent may do everything. `aggregator policy init` begins.\n"
    )
    with pytest.raises(OperatorError, match="no policy files"):
        policy.run_cases(config)


def test_the_first_file_without_servers_allows_nothing(tmp_path: Path) -> None:
    """And shows how a server is named."""
    (tmp_path / "main.yaml").write_text(starter([], "schema.json"), encoding="utf-8")
    made = check(*read_folder(tmp_path))
    assert made.documents is not None, made.problems
    assert made.documents.roles["everything"].rules == ()
    assert "- server:time" in starter([], "schema.json")


def test_init_allows_what_works_now(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.init(config) == 0
    assert policy.check(config) == 0
    assert "policies: 1 file, 1 agent, revision " in capsys.readouterr().out
    made = check(*read_folder(Path("policies")))
    assert made.documents is not None
    allowed = [rule.pattern.text for rule in made.documents.roles["everything"].rules]
    assert allowed == ["server:amap", "server:legal", "server:time"]
    text = Path("policies/main.yaml").read_text(encoding="utf-8")
    with pytest.raises(OperatorError, match="has policy files already"):
        policy.init(config)
    assert Path("policies/main.yaml").read_text(encoding="utf-8") == text
    # What it shows in comments is right once the comment signs are gone.
    shown = "roles:\n" + text.split("  # reader:")[1].split("\n\n")[0].join(("  # reader:", "\n"))
    shown += "defaults:" + text.split("# defaults:")[1].split("\n\n")[0]
    shown += "\nlabels:" + text.split("# labels:")[1]
    Path("policies/main.yaml").write_text(re.sub(r"(?m)^(  )?# ?", r"\1", shown), encoding="utf-8")
    assert policy.check(config) == 0
    assert "1 file, 0 agents" in capsys.readouterr().out


def test_check_says_what_is_wrong(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.check(example) == 0
    Path("policies/more.yaml").write_text("agents:\n  x: {allow: [tme.*]}\n", encoding="utf-8")
    assert policy.check(example) == 0
    said = capsys.readouterr().out
    assert 'warning: policies/more.yaml:2: agents.x.allow: No tool matches "tme.*". Did you mean "time.*"?' in said
    Path("policies/more.yaml").write_text(
        "agents:\n  x: {allow: []}\nroles:\n  y: {arguments: {t.x: {minimum: 1, pattern: '(?<=a+)b'}}}\n",
        encoding="utf-8",
    )
    assert policy.check(example) == 1
    assert "error: policies/more.yaml:4: " in capsys.readouterr().out
    assert policy.check(example, as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["revision"] is None
    assert report["problems"][0]["severity"] == "error"


@pytest.mark.slow
def test_diff_says_what_a_file_would_change_and_writes_nothing(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("policies/roles.yaml").read_text(encoding="utf-8")
    edited = Path("roles.yaml")
    edited.write_text(before.replace("allow:", 'deny: ["*.get_*"]\n    allow:', 1), encoding="utf-8")
    assert policy.diff(example, edited, connect=True) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'deny "*.get_*" of role reader, added (policies/roles.yaml:6): allow -> deny'
    assert "legal.get_document_template" in said[1]
    edited.write_text(before.replace("allow:", "alow:", 1), encoding="utf-8")
    assert policy.diff(example, edited) == 1
    assert "Did you mean `allow`?" in capsys.readouterr().out
    assert policy.diff(example, Path("policies/roles.yaml"), remove=True) == 1
    assert "There is no role" in capsys.readouterr().out
    assert policy.diff(example, Path("policies/roles.yaml")) == 0
    assert capsys.readouterr().out.startswith("No decision changes.\n")
    assert Path("policies/roles.yaml").read_text(encoding="utf-8") == before
    with pytest.raises(OperatorError, match="cannot be read"):
        policy.diff(example, Path("none.yaml"))


def test_explain(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.explain(example, "courier", "amap.maps_weather") == 0
    assert capsys.readouterr().out.startswith("courier, amap.maps_weather: allow\n")
    assert policy.explain(example, "courier", "amap.maps_ip_location") == 1
    assert policy.explain(example, "lawyer", "resource:legal.x://y") == 0
    capsys.readouterr()
    assert policy.explain(example, None, "amap.maps_weather") == 0
    assert capsys.readouterr().out == "allow   courier\nallow   local\n"
    with pytest.raises(OperatorError, match="is no full name"):
        policy.explain(example, "courier", "maps_weather")
    with pytest.raises(OperatorError, match="Name an agent"):
        policy.explain(Path("aggregator.example.json"), None, None)


JUDGED: Final = "Judged by its name alone. With --connect the tool's annotations count"


def test_explain_says_if_it_knows_the_name_alone(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without stored tools only the name is known; with them, and for a resource, there is nothing to add."""
    assert policy.explain(example, "courier", "amap.maps_weather") == 0
    assert JUDGED in capsys.readouterr().out
    assert policy.explain(example, "lawyer", "resource:legal.x://y") == 0
    assert JUDGED not in capsys.readouterr().out

    async def tools(_: Config) -> tuple[ToolRecord, ...]:
        return (tool("amap.maps_weather"),)

    monkeypatch.setattr("aggregator.cli.policy.policy_setup._tools", tools)
    assert policy.explain(example, "courier", "amap.maps_weather", connect=True) == 0
    assert JUDGED not in capsys.readouterr().out


def test_explain_after_what_was_read(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("policies/flow.yaml").write_text(
        "labels:\n  untrusted: [legal.*]\n  outward: [amap.*]\n"
        "flow:\n  - {after: untrusted, calls: outward, then: deny}\n",
        encoding="utf-8",
    )
    assert policy.explain(example, "courier", "amap.maps_weather") == 0
    assert "after untrusted: it is refused (policies/flow.yaml:5)" in capsys.readouterr().out
    for after in ("legal.search_cases", "untrusted"):
        assert policy.explain(example, "courier", "amap.maps_weather", after=[after]) == 1
        assert "  <- decides" in capsys.readouterr().out
    assert policy.explain(example, "courier", "amap.maps_weather", after=["lega.search_cases"]) == 0
    assert capsys.readouterr().out.startswith("There is no server lega. Did you mean legal.search_cases?\n")
    assert policy.explain(example, None, "amap.maps_weather", after=["untrusted"]) == 0
    assert capsys.readouterr().out == ""
    with pytest.raises(OperatorError, match="Did you mean `untrusted`"):
        policy.explain(example, "courier", "amap.maps_weather", after=["untrustd"])


def test_explain_of_a_name_that_nothing_has(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: C12. It says what was meant, and does not advise to allow what is not there."""
    for name, meant in (
        ("amp.maps_weather", "There is no server amp. Did you mean amap.maps_weather?"),
        ("resource:lega.x://y", "There is no server lega. Did you mean resource:legal.x://y?"),
        ("zzzzzz.x", "There is no server zzzzzz."),
    ):
        assert policy.explain(example, "courier", name) == 1
        said = capsys.readouterr().out
        assert said.splitlines()[0] == meant
        assert "to change it" not in said
        assert policy.explain(example, None, name) == 1
        assert capsys.readouterr().out == f"{meant}\n"


def test_check_knows_names_as_hosts_spell_them(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pattern with a wildcard is valid, and none of these can match: so a denial would count for nothing."""
    for written, meant in (
        ("mcp__time__*", 'Did you mean "time.*"?'),
        ("time__convert_*", 'Did you mean "time.convert_*"?'),
        ("mcp__aggregator__tme__*", 'Did you mean "time.*"?'),
        ("mcp__time.convert_time", 'Did you mean "time.convert_time"?'),
        ("aggregator.time.convert_time", 'Did you mean "time.convert_time"?'),
        ("zzzzzz*", "Correct it, or take it out."),
    ):
        file = f"agents:\n  x:\n    allow: [time.*]\n    deny: ['{written}']\n"
        Path("policies/more.yaml").write_text(file, encoding="utf-8")
        assert policy.check(example) == 0
        said = capsys.readouterr().out
        assert f'warning: policies/more.yaml:4: agents.x.deny: No tool matches "{written}". {meant}' in said
    for written in ("tim*", "time*", "*__x", "[tx]ime__*"):  # each can match a name of a server
        Path("policies/more.yaml").write_text(f"agents:\n  x: {{allow: ['{written}']}}\n", encoding="utf-8")
        assert policy.check(example) == 0
        assert "No tool matches" not in capsys.readouterr().out


def test_explain_knows_names_as_hosts_spell_them(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for written, meant in (
        ("mcp__time__convert_time", "time.convert_time"),
        ("time/convert_time", "time.convert_time"),
        ("prompt:time__ask", "prompt:time.ask"),
        ("other__tool", "other.tool"),
    ):
        with pytest.raises(OperatorError, match=f"is no full name. Did you mean {meant}?"):
            policy.explain(example, "courier", written)
    with pytest.raises(OperatorError, match=r"is no full name\. Write server\.tool"):
        policy.explain(example, "courier", "resource:time/x")
    assert policy.explain(example, "courier", "mcp__time.convert_time") == 1
    assert "There is no server mcp__time. Did you mean time.convert_time?" in capsys.readouterr().out


@pytest.mark.slow
def test_explain_knows_what_a_server_had_when_it_was_connected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: C12. From the database, without starting anything; and with --connect, what it has now."""
    legal = {"command": sys.executable, "args": ["-m", "examples.legal"]}
    config = tmp_path / "gateway.json"
    config.write_text(json.dumps({"mcpServers": {"legal": legal}, "storage": "sqlite:///kept.db"}), encoding="utf-8")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yaml").write_text("agents:\n  a: {allow: [legal.search_statutes]}\n", encoding="utf-8")
    assert policy.explain(config, "a", "legal.serch_cases") == 1
    assert 'add "legal.serch_cases" to `allow`' in capsys.readouterr().out, "nobody knows yet what it has"
    asyncio.run(_keep(config, "search_cases"))
    for connect, when in ((False, "had no such tool when it was last connected"), (True, "has no such tool now")):
        capsys.readouterr()
        assert policy.explain(config, "a", "legal.serch_cases", connect) == 1
        said = capsys.readouterr().out
        assert said.startswith(f"Server legal {when}. Did you mean legal.search_cases?\n")
        assert "to change it" not in said
        assert policy.explain(config, "a", "legal.search_cases", connect) == 1
        assert 'add "legal.search_cases" to `allow`' in capsys.readouterr().out


async def _keep(config: Path, tool: str) -> None:
    """Note in the database that the one server was connected and has this tool."""
    loaded = load(config, {})
    assert loaded.storage is not None
    (server,) = loaded.config.servers
    tools = (Definition(tool, "digest", "{}"),)
    async with open_database(loaded.storage) as database:
        about = ServerCatalog(server.id, fingerprint(server), "stdio", "2025-11-25", "{}", "{}", None, tools)
        await database.catalogs.keep(about, now=time.time())


def test_the_cases_of_the_example(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.run_cases(example) == 0
    assert capsys.readouterr().out == "9 cases, 0 failed.\n"
    Path("policies/cases/more.yaml").write_text(
        "cases:\n  - {agent: courier, tool: amap.maps_weather, arguments: {city: 1}, expect: allow}\n", encoding="utf-8"
    )
    assert policy.run_cases(example) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "FAILED: policies/cases/more.yaml:2: courier, amap.maps_weather: expected allow, got invalid"
    )
    assert '(arguments "amap.maps_weather" of agent courier, policies/agents.yaml:17)' in said


@pytest.mark.slow
def test_connected_to_the_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    legal = {"command": sys.executable, "args": ["-m", "examples.legal"], "trusted": True}
    config = tmp_path / "aggregator.json"
    config.write_text(json.dumps({"mcpServers": {"legal": legal}}), encoding="utf-8")
    (tmp_path / "policies" / "cases").mkdir(parents=True)
    (tmp_path / "policies" / "a.yaml").write_text(
        "agents:\n  a:\n    allow: [legal.serch_cases, legal.search_statutes]\n    annotations: {destructive: deny}\n",
        encoding="utf-8",
    )
    (tmp_path / "policies" / "cases" / "a.yaml").write_text(
        "cases:\n  - {agent: a, tool: legal.search_statutes, arguments: {keywords: 3}, expect: invalid}\n",
        encoding="utf-8",
    )
    assert policy.check(config, connect=True) == 0
    said = capsys.readouterr().out
    assert 'No tool matches "legal.serch_cases". Did you mean "legal.search_cases"?' in said
    assert policy.explain(config, "a", None) == 0
    assert capsys.readouterr().out == "allow   legal.search_statutes\n"
    assert policy.explain(config, "a", "legal.search_statutes") == 1, "unconnected, the worst is assumed"
    assert policy.run_cases(config, connect=True) == 0


def test_broken_files_are_not_explained(example: Path) -> None:
    Path("policies/more.yaml").write_text("agents: [\n", encoding="utf-8")
    with pytest.raises(OperatorError, match=r"policies/more.yaml:1: "):
        policy.explain(example, "local", "time.x")


def test_without_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    assert policy.check(None) == 0
    with pytest.raises(ConfigError):
        policy.check(Path("none.json"))


def _no_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder without one the working folder."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "none"))


def test_init_writes_nothing_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C7. It would allow nothing, and empty an aggregator whose file is called otherwise."""
    _no_configuration(tmp_path, monkeypatch)
    with closing(socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        monkeypatch.setattr(policy, "address", lambda http: f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConfigError, match=r"aggregator\.json exists.*--config"):
            policy.init(None)
    for servers in ({}, {"off": {"command": "x", "enabled": False}}):
        Path("gateway.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        with pytest.raises(OperatorError, match=r"gateway\.json has no server that is switched on"):
            policy.init(Path("gateway.json"))
    assert [file.name for file in Path().iterdir()] == ["gateway.json"]


@pytest.mark.slow
async def test_init_takes_the_configuration_of_a_running_aggregator(
    harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: C7. It goes on with all it had."""
    harness.write_config({"box": server()})
    monkeypatch.setenv("HOME", str(harness.folder))
    _no_configuration(harness.folder, monkeypatch)
    async with harness.serving() as served, over_http(served.url, VERSIONS[-1]) as host:
        monkeypatch.setattr(policy, "address", lambda http: served.url)
        assert await asyncio.to_thread(policy.init, None) == 0
        await harness.wait_for_log("policies: revision ")
        assert set(of_servers(tool["name"] for tool in await host.list())) == {"box.who", "box.wait"}
    said = capsys.readouterr()
    assert said.err == f"aggregator: configuration: {harness.config} (of the aggregator that runs at {served.url})\n"
    assert f"{harness.folder / 'policies' / 'main.yaml'}: what works now still works" in said.out


@pytest.mark.parametrize("told", [None, [], {"file": None}, {"file": "relative.json"}, {"file": "/proc/1/environ"}])
def test_init_believes_no_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever answers at the address may be somebody else's."""
    _no_configuration(tmp_path, monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(policy, "asked", lambda base: {"ready": True, "config": told})
    with pytest.raises(ConfigError, match=r"There is no configuration"):
        policy.init(None)
    assert not list(Path().iterdir())


def test_the_schemas_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for of_cases in (False, True):
        assert policy.print_schema(of_cases) == 0
        assert json.loads(capsys.readouterr().out)["type"] == "object"
