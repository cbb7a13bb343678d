"""`aggregator import`, run as people run it."""

import hashlib
import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aggregator.hosts.every_host import HOSTS
from tests.hosts.grounds import CANARY, SYSTEMS, machine_with_fixtures, put

ROOT = Path(__file__).parents[2]
CLAUDE = Path(".config") / "Claude" / "claude_desktop_config.json"
CURSOR = Path(".cursor") / "mcp.json"


@dataclass(frozen=True)
class Person:
    """A person with a home and a working folder, who runs the command."""

    home: Path
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / ".config" / "aggregator" / "aggregator.json"

    @property
    def servers(self) -> dict[str, Any]:
        servers: dict[str, Any] = json.loads(self.config.read_text())["mcpServers"]
        return servers

    def run(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "aggregator", "import", *args],
            cwd=self.folder,
            env=self.whole_environ(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def at_terminal(self, *args: str, answers: str, interrupt: bool = False) -> str:
        """Run the command at a terminal of its own, and return what stands there after it.

        `interrupt`: end it at its first question, as Ctrl+C does.
        """
        keyboard, terminal = pty.openpty()
        program = subprocess.Popen(
            [sys.executable, "-m", "aggregator", "import", *args],
            cwd=self.folder,
            env=self.whole_environ(),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        os.write(keyboard, answers.encode())
        shown = b""
        while True:
            try:
                part = os.read(keyboard, 4096)
            except OSError:  # Linux says so when the program has closed the terminal
                break
            if not part:
                break
            shown += part
            if interrupt and b"[y/N]" in shown:
                program.send_signal(signal.SIGINT)
        os.close(keyboard)
        assert program.wait(30) in (0, 1, -signal.SIGINT)
        return shown.decode()

    def whole_environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            **self.environ,
        }


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "home").mkdir()
    (tmp_path / "folder").mkdir()
    return Person(tmp_path / "home", tmp_path / "folder")


def claude(person: Person, servers: dict[str, Any]) -> None:
    put(person.home / CLAUDE, json.dumps({"mcpServers": servers}))


def cursor(person: Person, servers: dict[str, Any]) -> None:
    put(person.home / CURSOR, json.dumps({"mcpServers": servers}))


def outcomes(person: Person, *args: str) -> dict[str, tuple[str, str | None]]:
    """Return the outcome and the key of every entry, by host and name."""
    report = json.loads(person.run("--json", *args).stdout)
    return {
        f"{file['host']}/{server['name']}": (server["outcome"], server["key"])
        for file in report["files"]
        for server in file["servers"]
    }


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
    assert stat.S_IMODE(person.config.stat().st_mode) == 0o640


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
    person.run("--write")
    folder = str(person.folder)
    assert person.servers == {
        "a": {"command": f"{folder}/tools/bin/server", "args": ["data"], "cwd": f"{folder}/tools"},
        "b": {"command": "node", "args": [f"{folder}/index.js"], "envFile": f"{folder}/.env", "cwd": folder},
    }


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
    shown = person.run("--write").stdout
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


def with_secrets(person: Person) -> None:
    claude(
        person,
        {
            "github": {
                "command": "docker",
                "args": ["run", "-e", "T", "image"],
                "env": {"GITHUB_TOKEN": "canary-github-1"},
            },
            "db": {"command": "uvx", "args": ["server-db", "postgres://ada:canary-db-2@localhost/x"]},
        },
    )
    put(
        person.home / ".codeium" / "windsurf" / "mcp_config.json",
        '{"mcpServers": {"maps": {"serverUrl": "https://maps.example/sse?key=canary-maps-3-0123456789"}}}',
    )


def test_secrets_are_kept_with_a_warning_and_for_the_owner_alone(person: Person) -> None:
    with_secrets(person)
    put(person.config, '{"mcpServers": {}}').chmod(0o644)
    done = person.run("--write")
    assert "Secrets in the clear: variable GITHUB_TOKEN." in done.stdout
    assert "Secrets in the clear: argument 2." in done.stdout
    assert "3 secrets now in the clear" in done.stderr
    assert person.servers["github"]["env"] == {"GITHUB_TOKEN": "canary-github-1"}
    assert stat.S_IMODE(person.config.stat().st_mode) == 0o600
    assert CANARY not in done.stdout + done.stderr


def test_secrets_move_into_files(person: Person) -> None:
    with_secrets(person)
    done = person.run("--write", "--secrets", "file")
    text = person.config.read_text()
    assert CANARY not in text + done.stdout + done.stderr
    assert person.servers["db"]["args"][1] == "postgres://ada:${file:secrets/db.URL_PASSWORD}@localhost/x"
    kept = person.config.parent / "secrets"
    assert {file.name: file.read_text() for file in kept.iterdir()} == {
        "github.GITHUB_TOKEN": "canary-github-1\n",
        "db.URL_PASSWORD": "canary-db-2\n",
        "maps.KEY": "canary-maps-3-0123456789\n",
    }
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept.iterdir()} == {0o600}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert set(outcomes(person).values()) == {("present", None)}


def with_keyring(person: Person) -> Person:
    keyring = {
        "PYTHON_KEYRING_BACKEND": "tests.peers.file_keyring.FileKeyring",
        "TEST_KEYRING": str(person.home / "keyring.json"),
    }
    return Person(person.home, person.folder, keyring)


def test_secrets_move_into_the_keyring(person: Person) -> None:
    person = with_keyring(person)
    with_secrets(person)
    done = person.run("--write", "--secrets", "keyring")
    assert CANARY not in person.config.read_text() + done.stdout + done.stderr
    assert person.servers["github"]["env"] == {"GITHUB_TOKEN": "${keyring:github.GITHUB_TOKEN}"}
    kept = json.loads((person.home / "keyring.json").read_text())["kept"]
    assert kept["aggregator/github.GITHUB_TOKEN"] == "canary-github-1"
    assert len(kept) == 3


def test_a_keyring_that_does_not_answer_leaves_all_as_it_was(person: Person) -> None:
    person = with_keyring(person)
    with_secrets(person)
    put(person.home / "keyring.json", '{"behaviour": "locked", "kept": {}}')
    done = person.run("--write", "--secrets", "keyring", code=2)
    assert "Unlock it and try again" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert not person.config.exists()


def test_a_yes_at_a_terminal(person: Person) -> None:
    with_secrets(person)
    shown = person.at_terminal(answers="y\nfile\n")
    assert "Add 3 servers to" in shown
    assert "3 secrets in the clear" in shown
    assert CANARY not in shown + person.config.read_text()
    assert len(person.servers) == 3


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", ""], ids=["no", "nothing", "end", "interrupt"])
def test_anything_but_a_yes_writes_nothing(person: Person, answer: str) -> None:
    with_secrets(person)
    shown = person.at_terminal(answers=answer, interrupt=not answer)
    assert "Add 3 servers to" in shown
    assert "Traceback" not in shown
    assert not person.config.exists()


@pytest.mark.parametrize("args", [(), ("--json",), ("--write",), ("--write", "--json")], ids=" ".join)
def test_no_secret_of_any_host_is_in_any_output(person: Person, args: tuple[str, ...], tmp_path: Path) -> None:
    machine = machine_with_fixtures("linux", tmp_path / "machine")
    person = Person(machine.home, machine.folder)
    done = person.run(*args)
    assert CANARY not in done.stdout + done.stderr
    hosts = {host.title for host in HOSTS}
    if "--json" in args:
        report = json.loads(done.stdout)
        assert {file["host"] for file in report["files"]} == {host.id for host in HOSTS}
        assert report["written"] is ("--write" in args)
    else:
        assert {line.partition(":")[0] for line in done.stdout.splitlines()} >= hosts
    if "--write" in args:
        assert "canary-env-4f9a7c21e8-claude-desktop" in person.config.read_text()


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_written_is_a_configuration_without_mistakes(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from aggregator.cli.hosts import import_hosts
    from aggregator.config.load import load

    machine = machine_with_fixtures(system, tmp_path)  # type: ignore[arg-type]
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


# Answers a call with the digest of what it was started with: the value itself would be taken out of what is shown.
SERVER = """
import hashlib, json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method, answer = request.get("method"), None
    if method == "initialize":
        who = {"name": "digests", "version": "1"}
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": who}
    elif method == "tools/list":
        answer = {"tools": [{"name": "digest", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        given = "|".join([os.environ.get("API_KEY", ""), *sys.argv[1:]])
        answer = {"content": [{"type": "text", "text": hashlib.sha256(given.encode()).hexdigest()}]}
    if answer is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}), flush=True)
"""


@pytest.mark.parametrize("choice", ["keep", "file", "keyring"])
def test_a_server_that_was_taken_over_is_started_with_its_secrets(person: Person, choice: str) -> None:
    """E7: What a host started is started here with the same values, wherever these are kept."""
    person = with_keyring(person)
    script = put(person.home / "server.py", SERVER)
    address = "postgres://ada:canary-pass-1@localhost/x"
    entry = {"command": sys.executable, "args": [str(script), address], "env": {"API_KEY": "canary-key-2"}}
    cursor(person, {"work": entry})
    person.run("--write", "--secrets", choice)
    assert (CANARY in person.config.read_text()) is (choice == "keep")
    done = subprocess.run(
        [sys.executable, "-m", "aggregator", "call", "work.digest"],
        cwd=person.folder,
        env={**person.whole_environ(), "XDG_STATE_HOME": str(person.home), "XDG_DATA_HOME": str(person.home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(f"canary-key-2|{address}".encode()).hexdigest() in done.stdout
