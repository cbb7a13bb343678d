"""Secrets in the entries that `aggregator import` takes over: kept, moved, and never shown."""

import hashlib
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.grounds import CANARY, WITH_FILES, machine_with_fixtures, put
from tests.hosts.person import Person, claude, cursor, outcomes


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
    assert "warning: 3 secrets now in the clear" in done.stderr
    assert "`aggregator remove github db maps`, then `aggregator import --write --secrets keyring`" in done.stderr
    assert person.servers["github"]["env"] == {"GITHUB_TOKEN": "canary-github-1"}
    backup = person.config.with_name("aggregator.json.bak")
    assert {stat.S_IMODE(file.stat().st_mode) for file in (person.config, backup)} == {0o600}
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


def test_no_file_of_a_secret_is_a_device_of_windows(person: Person) -> None:
    """`nul.API_TOKEN` would be the null device there."""
    cursor(person, {"nul": {"command": "uvx", "args": ["x"], "env": {"API_TOKEN": "canary-nul-1"}}})
    person.run("--write", "--secrets", "file")
    (kept,) = (person.config.parent / "secrets").iterdir()
    assert (kept.name, kept.read_text()) == ("secret-nul.API_TOKEN", "canary-nul-1\n")
    assert person.servers["nul"]["env"] == {"API_TOKEN": "${file:secrets/secret-nul.API_TOKEN}"}


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


def test_files_are_offered_first_where_no_keyring_answers(person: Person) -> None:
    none = Person(person.home, person.folder, {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"})
    with_secrets(none)
    shown = none.at_terminal(answers="y\n\n")
    assert "The keyring cannot be used now: " in shown
    assert "[file]" in shown
    assert CANARY not in shown + none.config.read_text()


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
    hosts = {host.title for host in WITH_FILES}
    if "--json" in args:
        report = json.loads(done.stdout)
        assert {file["host"] for file in report["files"]} == {host.id for host in WITH_FILES}
        assert report["written"] is ("--write" in args)
    else:
        assert {line.partition(":")[0] for line in done.stdout.splitlines()} >= hosts
    if "--write" in args:
        assert "canary-env-4f9a7c21e8-claude-desktop" in person.config.read_text()


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
