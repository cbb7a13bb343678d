"""Variables in texts."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.config.servers.expand import Expander, ExpandError
from aggregator.secret_sources.reference import SecretReference
from tests import ON_WINDOWS

ENVIRON = {"KEY": "k-123", "EMPTY": "", "TRICKY": "${KEY}", "SOME_KEY": "s-1", "WHERE": "token.txt"}


@pytest.fixture
def expander(tmp_path: Path) -> Expander:
    (tmp_path / "token.txt").write_bytes(b"\xef\xbb\xbft-456\r\n")
    return Expander(ENVIRON, tmp_path, {"some-key": None, "region": "eu", "open": None})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plain $5 $$ $KEY {x}", "plain $5 $$ $KEY {x}"),
        ("${KEY}", "k-123"),
        ("a${KEY}b${env:KEY}c", "ak-123bk-123c"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("${env:NONE:-d}", "d"),
        ("${NONE:-${ALSO:-${KEY}}!}", "k-123!"),
        ("${TRICKY}", "${KEY}"),
        ("${$}{KEY} ${$}", "${KEY} $"),
        ("$${KEY}", "$k-123"),
        ("${file:token.txt}", "t-456"),
        ("${file:${WHERE}}", "t-456"),
        ("${input:some-key}", "s-1"),
        ("${input:region}", "eu"),
        ("${pathSeparator}${/}", os.sep * 2),
    ],
)
def test_a_text_is_completed(expander: Expander, written: str, meant: str) -> None:
    assert expander.expand(written) == meant


def test_hosts_names_for_folders(expander: Expander, tmp_path: Path) -> None:
    text = expander.expand("${workspaceFolder}|${workspaceFolder:api}|${workspaceFolderBasename}|${userHome}")
    assert text == f"{tmp_path}|{tmp_path}|{tmp_path.name}|{Path.home()}"
    assert not expander.secrets


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("${NONE}", "variable NONE"),
        ("${env:NONE}", "variable NONE"),
        ("${input:open}", "variable OPEN"),
        ("${input:un known}", "variable UN_KNOWN"),
        ("${file:absent.txt}", "file absent.txt"),
        ("${file:.}", "not an ordinary file"),
        ("${file:a\0b}", "cannot be read"),
        ("${command:pick}", "command:pick"),
        ("${}", "not a reference"),
        ("${a b}", "not a reference"),
        ("${KEY", "closing"),
        ("${A:-" * 50 + "}" * 50, "nested too deeply"),
    ],
)
def test_what_is_missing_is_named(expander: Expander, written: str, names: str) -> None:
    with pytest.raises(ExpandError) as caught:
        expander.expand(written)
    assert names in caught.value.message
    assert caught.value.fix


@pytest.mark.skipif(not ON_WINDOWS, reason="a backslash is no letter in a command line of POSIX")
def test_the_path_of_a_program_on_windows_is_kept(tmp_path: Path) -> None:
    expander = Expander({"VAULT": "a b"}, tmp_path, commands=(r"C:\Tools\op.exe",))
    _, reference, _ = expander.parts(r"${command:C:\Tools\op.exe read ${VAULT} 'x y'}")
    assert isinstance(reference, SecretReference)
    assert reference.words == (r"C:\Tools\op.exe", "read", "a b", "x y")


def test_files_that_are_no_secrets(expander: Expander, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    for name, complaint in (("big", "larger than 1 MiB"), ("binary", "not UTF-8")):
        with pytest.raises(ExpandError, match=complaint):
            expander.expand(f"${{file:{name}}}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the platform has no named pipes")
def test_a_pipe_does_not_keep_us_waiting(expander: Expander, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExpandError, match="not an ordinary file"):
        expander.expand("${file:pipe}")


def test_what_was_put_in_is_known_as_secret(expander: Expander) -> None:
    """Proves: D1."""
    expander.expand("${SOME_KEY:-default} ${KEY} ${file:token.txt} ${NONE:-default} ${EMPTY}")
    assert expander.secrets == {"s-1", "k-123", "t-456"}
    assert "k-123" not in repr(expander)


@pytest.mark.parametrize(
    "written", ["${KEY}", "${env:KEY}", "${KEY:-d}", "${env:KEY:-d}", "${NONE:-${KEY}}", "a ${KEY:-${NONE}} b"]
)
def test_however_a_variable_is_written_its_value_is_a_secret(expander: Expander, written: str) -> None:
    assert "k-123" in expander.expand(written)
    assert expander.secrets == {"k-123"}


def test_the_path_of_a_file_may_be_a_secret_too(expander: Expander) -> None:
    with pytest.raises(ExpandError) as caught:
        expander.expand("${file:${KEY}}")
    assert "k-123" not in caught.value.message + caught.value.fix


pieces = st.sampled_from(["${", "}", ":-", "$", "KEY", "NONE", "env:", "file:", "input:", "/", "..", "a", " ", "\0"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(), st.lists(pieces, max_size=30).map("".join)))
def test_any_text_is_completed_or_refused_without_a_leak(tmp_path: Path, text: str) -> None:
    secret = "never-to-be-shown"
    expander = Expander({"KEY": secret}, tmp_path)
    said = ""
    try:
        expander.expand(text)
    except ExpandError as error:
        said = error.message + error.fix + str(error)
    assert secret not in said
