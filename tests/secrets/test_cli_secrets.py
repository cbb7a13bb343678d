"""`aggregator secrets`, as a user runs it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.cli.secrets import store as keyring_store
from aggregator.domain.errors import OperatorError
from tests import ON_WINDOWS
from tests.end_to_end.programs import ProgramResult, environment, run
from tests.peers.file_keyring import keep

CANARY: Final = "c4nary-in-the-mine-88"


async def secrets(*args: str, stdin: str = "", cwd: Path | None = None, **more: str) -> ProgramResult:
    ended = await run("secrets", *args, stdin=stdin.encode(), cwd=cwd or Path.cwd(), **more)
    assert CANARY not in ended.out + ended.err
    return ended


def kept(keyring: Path) -> Any:
    """What a keyring holds."""
    return json.loads(keyring.read_text())["kept"] if keyring.exists() else {}


def config_in(folder: Path, **env: str) -> Path:
    file = folder / "aggregator.json"
    file.write_text(json.dumps({"mcpServers": {"box": {"command": "x", "env": env}}}))
    return file


async def test_set_list_test_delete(keyring: Path, tmp_path: Path) -> None:
    """Proves: D9. A name is listed with the servers that refer to it; the list is for this user alone."""
    config = str(config_in(tmp_path, A="${keyring:github}", B="${keyring:other}"))
    stored = await secrets("set", "github", "--config", config, stdin=f"{CANARY}\n")
    assert stored.code == 0
    assert stored.out.splitlines()[0] == "The secret `github` is stored. Refer to it as ${keyring:github}."
    assert "connection of box" in stored.out
    assert kept(keyring) == {"aggregator/github": CANARY}
    names = tmp_path / "own" / "aggregator" / "keyring-names.json"
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    assert json.loads(names.read_text()) == {"names": ["github"]}
    listed = await secrets("list", "--config", config)
    assert [line.split() for line in listed.out.splitlines()[1:]] == [["github", "yes", "box"], ["other", "no", "box"]]
    tried = await secrets("test", "--config", config, "--json")
    assert tried.code == 1
    found = {one["reference"]: one["problem"] for one in json.loads(tried.out)}
    assert found["${keyring:github}"] is None
    assert "`aggregator secrets set other`" in found["${keyring:other}"]
    deleted = await secrets("delete", "github", "--config", config)
    assert deleted.code == 0
    assert "still referred to by box" in deleted.err
    assert kept(keyring) == {}
    again = await secrets("delete", "github")
    assert again.code == 2
    assert "The keyring holds no secret `github`." in again.err
    assert json.loads((await secrets("list", "--json")).out) == []


@pytest.mark.parametrize(("kind", "in_the_clear"), [("FileKeyring", False), ("PlaintextKeyring", True)])
async def test_a_keyring_in_the_clear_is_told(keyring: Path, kind: str, in_the_clear: bool) -> None:
    """D9: the value is stored, and its user knows how well."""
    stored = await secrets("set", "github", stdin=CANARY, PYTHON_KEYRING_BACKEND=f"tests.peers.file_keyring.{kind}")
    assert stored.code == 0
    assert kept(keyring) == {"aggregator/github": CANARY}
    assert ("keeps secrets in a file in the clear" in stored.err) == in_the_clear


@pytest.mark.parametrize(
    ("given", "value"),
    [(f"{CANARY}\r\n", CANARY), (f" {CANARY} ", f" {CANARY} "), (f"{CANARY}\nline\n", f"{CANARY}\nline")],
)
async def test_what_is_piped_in_is_the_value(keyring: Path, given: str, value: str) -> None:
    """But for the line break at its end."""
    assert (await secrets("set", "github", stdin=given)).code == 0
    assert kept(keyring) == {"aggregator/github": value}


@pytest.mark.parametrize("more", [[CANARY], [CANARY, "x"], ["--", CANARY]])
async def test_a_value_on_the_command_line_is_refused_and_not_printed(keyring: Path, more: list[str]) -> None:
    refused = await secrets("set", "github", *more, stdin="value-from-stdin")
    assert refused.code == 2
    assert "never given as an argument" in refused.err
    assert not kept(keyring)


@pytest.mark.parametrize(
    ("name", "stdin", "said"),
    [
        ("github", "", "is empty"),
        ("github", "\n", "is empty"),
        ("github", "x" * 65_537, "64 KiB"),
        ("a}b", CANARY, "cannot be the name"),
        ("${x}", CANARY, "cannot be the name"),
        (" x", CANARY, "cannot be the name"),
        ("", CANARY, "cannot be the name"),
        ("x" * 201, CANARY, "cannot be the name"),
    ],
)
async def test_what_is_not_stored(keyring: Path, name: str, stdin: str, said: str) -> None:
    refused = await secrets("set", name, stdin=stdin)
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert said in refused.err
    assert not kept(keyring)


@pytest.mark.parametrize(
    ("behaviour", "said"), [("locked", "the keyring is locked"), ("broken", "the keyring failed (RuntimeError)")]
)
async def test_a_keyring_that_fails(keyring: Path, behaviour: str, said: str) -> None:
    """What it says of the failure, which may hold a value, is not repeated."""
    keep(keyring, {"github": CANARY}, behaviour)
    for command in ("set", "delete"):
        failed = await secrets(command, "github", stdin="x")
        assert failed.code == 2
        assert said in failed.err
        assert len(failed.err.splitlines()) == 1


@pytest.mark.parametrize("backend", ["fail", "null"])
async def test_a_machine_without_a_keyring(keyring: Path, backend: str) -> None:
    """It is said before a value is asked for, with what to do instead."""
    refused = await secrets("set", "github", stdin=CANARY, PYTHON_KEYRING_BACKEND=f"keyring.backends.{backend}.Keyring")
    assert refused.code == 2
    assert "${file:PATH}" in refused.err
    assert "mode 0600" in refused.err


async def test_secrets_are_stored_before_there_is_a_configuration(keyring: Path, tmp_path: Path) -> None:
    """And in a folder with one that is not trusted, which is told."""
    assert (await secrets("set", "one", stdin=CANARY, cwd=tmp_path)).code == 0
    config_in(tmp_path, A="${keyring:one}")
    stored = await secrets("set", "two", stdin=CANARY, cwd=tmp_path)
    assert stored.code == 0
    assert "is not trusted" in stored.err
    assert set(kept(keyring)) == {"aggregator/one", "aggregator/two"}
    (tmp_path / "broken.json").write_text("{")
    assert (await secrets("set", "three", "--config", "broken.json", stdin=CANARY, cwd=tmp_path)).code == 2
    assert "aggregator/three" not in kept(keyring)


async def test_a_damaged_list_of_names_is_told(keyring: Path, tmp_path: Path) -> None:
    names = tmp_path / "own" / "aggregator" / "keyring-names.json"
    names.parent.mkdir(parents=True)
    for content in ("{", "[]", '{"names": [1]}', '{"names": "x"}'):
        names.write_text(content)
        listed = await secrets("list")
        assert listed.code == 2
        assert f"{names} is not a list of names" in listed.err


@pytest.mark.skipif(ON_WINDOWS, reason="it needs a pseudo-terminal of POSIX")
def test_a_typed_value_is_not_echoed(keyring: Path) -> None:
    """On a terminal of its own, whose output is all that a person sees."""
    command = [sys.executable, "-m", "aggregator", "secrets", "set", "github"]
    terminal = subprocess.Popen(
        [sys.executable, "-c", f"import pty, sys; sys.exit(pty.spawn({command!r}) >> 8)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    with terminal:
        assert terminal.stdin is not None
        assert terminal.stdout is not None
        seen = b""
        while b"not shown): " not in seen:
            part = os.read(terminal.stdout.fileno(), 1024)
            assert part, seen
            seen += part
        terminal.stdin.write(f"{CANARY}\n".encode())
        terminal.stdin.flush()
        seen += terminal.stdout.read()
    assert b"is stored" in seen
    assert CANARY.encode() not in seen
    assert kept(keyring) == {"aggregator/github": CANARY}


def test_other_commands_store_what_they_find(keyring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import` and `add` ask first whether there is a keyring."""
    assert keyring_store.can_store() is None
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    problem = keyring_store.can_store()
    assert problem is not None
    assert problem.startswith("The keyring cannot be used: no keyring answers on this machine.")
    with pytest.raises(OperatorError, match="cannot be the name"):
        keyring_store.store("a}b", CANARY)
    with pytest.raises(OperatorError, match="cannot be the name"):
        keyring_store.delete("a}b")


async def test_trusting_a_folder_says_what_it_runs_for_secrets(keyring: Path, tmp_path: Path) -> None:
    """And runs nothing of it."""
    ran = tmp_path / "ran"
    file = config_in(tmp_path, A=f"${{command:touch {ran}}}")
    file.write_text(json.dumps({**json.loads(file.read_text()), "secrets": {"commands": ["touch"]}}))
    trusted = await run("trust", cwd=tmp_path)
    assert trusted.code == 0
    assert f"box: starts x, runs touch {ran} for a secret" in trusted.out
    assert not ran.exists()


class _Library:
    """A keyring as Windows has it."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def get_keyring(self) -> object:
        return type("WinVaultKeyring", (), {"__module__": "keyring.backends.Windows"})()

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[name] = value

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get(name)


@pytest.mark.parametrize(("value", "fits"), [("a" * 1280, True), ("a" * 1281, False), ("\U0001f511" * 641, False)])
def test_the_credential_manager_of_windows_takes_so_much(
    value: str, fits: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = _Library()
    monkeypatch.setattr(keyring_store, "_library", lambda: library)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    if fits:
        keyring_store.store("key", value)
    else:
        with pytest.raises(OperatorError, match="Credential Manager of Windows takes 1,280 characters"):
            keyring_store.store("key", value)
    assert (library.kept == {"key": value}) is fits
