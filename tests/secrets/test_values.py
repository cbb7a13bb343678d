"""The values of references: what a keyring and programs may say, and what is told where there is no value."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator import DISTRIBUTION
from aggregator.domain.shell import shell_word
from aggregator.secret_sources.reference import LONGEST_NAME, SecretReference, SecretUnavailable, name_fault, shortened
from aggregator.secret_sources.values import keyring_problem, value_of
from tests.peers.file_keyring import keep

PLENTY: Final = 60.0
CANARY: Final = "c4nary-in-the-mine-88"


def in_keyring(name: str) -> SecretReference:
    return SecretReference("keyring", f"${{keyring:{name}}}", name=name)


def printed(script: str) -> SecretReference:
    return SecretReference("command", "${command:teller it}", words=(sys.executable, "-I", "-S", "-c", script))


def problem_of(reference: SecretReference, limit: float = PLENTY) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        value_of(reference, limit)
    said = f"{caught.value.message} {caught.value.fix}"
    assert CANARY not in said
    assert caught.value.fix
    return said


@pytest.mark.parametrize("name", ["github", "a b/c:d", "密钥", "-x", "--help", "name@host", "'quo\"ted'"])
def test_a_name_may_have_odd_characters(keyring: Path, name: str) -> None:
    keep(keyring, {name: f" {CANARY}\nsecond line"})
    assert value_of(in_keyring(name), PLENTY) == f" {CANARY}\nsecond line"


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [("locked", "the keyring is locked"), ("broken", "the keyring failed (RuntimeError)")],
)
def test_a_keyring_that_gives_nothing(keyring: Path, behaviour: str, said: str) -> None:
    """The text of its error, which may hold a value, is in no message."""
    keep(keyring, {"github": CANARY}, behaviour)
    found = problem_of(in_keyring("github"))
    assert said in found
    assert found.startswith("`${keyring:github}` has no value: ")


def test_a_keyring_that_prints_changes_nothing(keyring: Path) -> None:
    keep(keyring, {"github": CANARY}, "printing")
    assert value_of(in_keyring("github"), PLENTY) == CANARY


def test_a_keyring_that_waits_for_a_person(keyring: Path) -> None:
    keep(keyring, {"github": CANARY}, "hang")
    found = problem_of(in_keyring("github"), 3.0)
    assert "did not answer within 3 s" in found
    assert "`secrets.timeout`" in found


def test_a_name_that_is_not_there(keyring: Path) -> None:
    keep(keyring, {})
    assert "`aggregator secrets set github`" in problem_of(in_keyring("github"))
    assert f"`aggregator secrets set {shell_word('a; id')}`" in problem_of(in_keyring("a; id"))


def test_a_machine_without_a_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    assert "${file:PATH}" in problem_of(in_keyring("github"))
    problem = keyring_problem(PLENTY)
    assert problem is not None
    assert "no keyring answers" in problem.message


def test_a_machine_without_the_library(keyring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keyring.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert f"pip install {shell_word(f'{DISTRIBUTION}[keyring]')}" in problem_of(in_keyring("github"))


def test_no_module_of_the_working_folder_is_imported(
    keyring: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that was cloned from somewhere cannot take the place of the library."""
    keep(keyring, {"github": CANARY})
    for name in ("keyring.py", "json.py"):
        (tmp_path / name).write_text("open('imported', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    assert value_of(in_keyring("github"), PLENTY) == CANARY
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("script", "value"),
    [
        (f"print('{CANARY}')", CANARY),
        (f"print('{CANARY}', end='')", CANARY),
        (f"print('{CANARY}', end='\\r\\n')", CANARY),
        (f"print(' {CANARY} \\n\\n')", f" {CANARY} "),
        ("print('-----BEGIN X-----\\nabc\\n-----END X-----')", "-----BEGIN X-----\nabc\n-----END X-----"),
        (
            "print('clé 密钥'.encode().decode('utf-8')) if 0 else __import__('os').write(1, 'clé 密钥'.encode())",
            "clé 密钥",
        ),
    ],
)
def test_what_a_program_prints_is_the_value(script: str, value: str) -> None:
    """But for the line break at its end."""
    assert value_of(printed(script), PLENTY) == value


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("pass", "is empty"),
        ("print('\\r\\n')", "is empty"),
        (f"print('\\x1b[31m{CANARY}\\x1b[0m')", "control characters"),
        (f"print('{CANARY}\\0')", "control characters"),
        (f"__import__('os').write(1, b'{CANARY}\\xff')", "not UTF-8 text"),
        (f"print('{CANARY}' * 9999)", "printed more than 64 KiB"),
        (f"print('{CANARY}'); __import__('sys').exit('{CANARY}')", "ended with exit code 1"),
    ],
)
def test_what_is_no_secret_is_refused(script: str, said: str) -> None:
    found = problem_of(printed(script))
    assert said in found
    assert f"${{command:{shortened(sys.executable)} ...}}" in found


def test_a_program_that_is_slow() -> None:
    assert "took longer than 1 s" in problem_of(printed("import time; time.sleep(600)"), 1.0)


def test_a_program_is_looked_up_in_whole_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of PATH that is relative, or empty, would mean the working folder."""
    teller = tmp_path / "teller"
    teller.write_text(f"#!/bin/sh\necho {CANARY}\n")
    teller.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    reference = SecretReference("command", "${command:teller}", words=("teller",))
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", "/nonexistent")))
    assert "not found on `PATH`" in problem_of(reference)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert value_of(reference, PLENTY) == CANARY


def test_no_shell_reads_the_words() -> None:
    words = (sys.executable, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", "$(id)", "; id", "a b", "*")
    assert json.loads(value_of(SecretReference("command", "x", words=words), PLENTY)) == list(words[3:])


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{CANARY}\r\n")
    reference = SecretReference("file", "${file:token}", name=str(file))
    assert value_of(reference, PLENTY) == CANARY
    file.unlink()
    os.mkfifo(file)
    assert "not an ordinary file" in problem_of(reference)


@given(st.text(max_size=LONGEST_NAME + 5))
def test_a_name_is_refused_or_can_stand_in_a_reference(name: Any) -> None:
    if name_fault(name) is None:
        assert name.strip() == name != ""
        assert not set(name) & set("${}\n\r\0")
        assert len(name) <= LONGEST_NAME
