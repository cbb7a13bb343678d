"""Commands that people copy into a shell, on POSIX and on Windows."""

import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.shell import (
    foreign_operands,
    foreign_word,
    in_powershell,
    in_turn,
    json_word,
    keep_private,
    let_read,
    let_write,
    make_folder,
    move_file,
    remove_file,
    set_variable,
    shell_line,
    shell_word,
    split_line,
)
from tests.install.test_paste import argv

_VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.text(st.sampled_from("\"$`%&|<>^();'@#!\\\u201d\n")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_WORDS = st.lists(st.text(st.sampled_from("ab \\\"'&^,%(é\t")), min_size=1)


@given(_WORDS)
def test_a_program_gets_the_words_that_were_meant(words: list[str]) -> None:
    assert argv(shell_line(words, windows=True)) == words
    assert shlex.split(shell_line(words, windows=False)) == words


@given(st.text())
def test_what_a_shell_of_windows_reads_as_its_own_is_in_quotes(word: str) -> None:
    shown = shell_word(word, windows=True)
    assert shown.startswith('"') or re.fullmatch(r"[\w.:\\/+=@-]+", shown)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (r"C:\Tools\op.exe read op://a/b", [r"C:\Tools\op.exe", "read", "op://a/b"]),
        (r'"C:\Program Files\op.exe" "a b\"', ["C:\\Program Files\\op.exe", "a b\\"]),
        (r"""op '{"a": 1}' # b""", ["op", '{"a": 1}', "#", "b"]),
    ],
)
def test_a_line_of_windows_keeps_its_paths(line: str, words: list[str]) -> None:
    assert split_line(line, windows=True) == words


@given(st.text(st.sampled_from("ab \\\"'#")))
def test_a_line_of_posix_is_split_as_a_shell_does(line: str) -> None:
    try:
        expected = shlex.split(line)
    except ValueError:
        with pytest.raises(ValueError, match="No"):
            split_line(line, windows=False)
    else:
        assert split_line(line, windows=False) == expected


def test_every_program_is_one_of_the_system() -> None:
    old, new = "a b", "c"
    posix = [
        make_folder(old, windows=False),
        move_file(old, new, windows=False),
        remove_file(old, windows=False),
        let_read(old, windows=False),
        let_write(old, windows=False),
        set_variable("A", old, windows=False),
    ]
    assert posix == [
        "mkdir -p 'a b'",
        "mv 'a b' c",
        "rm 'a b'",
        "chmod u+r 'a b'",
        "chmod u+rwX 'a b'",
        "export A='a b'",
    ]
    windows = [
        make_folder(old, windows=True),
        move_file(old, new, windows=True),
        remove_file(old, windows=True),
        let_read(old, windows=True),
        let_write(old, windows=True),
        set_variable("A", old, windows=True),
    ]
    assert windows == [
        'mkdir "a b"',
        'move "a b" c',
        'del "a b"',
        'icacls "a b" /reset',
        'attrib -r "a b"',
        'setx A "a b"',
    ]


def test_a_file_is_kept_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_private("a b", windows=False) == "chmod 600 'a b'"
    monkeypatch.delenv("USERDOMAIN", raising=False)
    monkeypatch.setenv("USERNAME", "ada")
    assert keep_private("a", windows=True) == 'icacls a /inheritance:r /grant:r ada:F "*S-1-5-18:F"'


@pytest.mark.parametrize(
    ("program", "windows", "told"),
    [
        (r'"C:\Program Files\a.exe"', True, " (in PowerShell, write `& ` before it)"),
        (r"C:\Tools\a.exe", True, ""),
        ('"a b"', False, ""),
    ],
)
def test_powershell_needs_a_sign_before_a_quoted_program(program: str, windows: bool, told: str) -> None:
    assert in_powershell(program, windows=windows) == told


def test_two_commands_are_one_line_where_the_shell_can_stop_between_them() -> None:
    assert in_turn("a", "b", windows=False) == "`a && b`"
    assert in_turn("a", "b", windows=True) == "`a`, then `b`"


@given(st.text() | st.text(st.sampled_from("a-\"'$`%&|\u201c\n")))
def test_no_shell_reads_a_word_that_a_server_chose(word: str) -> None:
    shown = foreign_word(word, windows=True)
    within = shown.removeprefix('"').removesuffix('"')
    assert not set(within) & set('"$`%\u201c\u201d\u201e\n')
    assert argv(shown) == [word] or shown == "NAME"
    posix = foreign_word(word, windows=False)
    assert shlex.split(posix) == [word] or (posix == "NAME" and not word.isprintable())


@given(_VALUES)
def test_no_shell_of_windows_runs_a_part_of_a_json_value(value: Any) -> None:
    """Their shells disagree about the quotes within a word, so a sign must do no harm within quotes or outside."""
    shown = json_word(value, windows=True)
    assert not set(shown) & set("$`%&|<>^();'@#!\u201c\u201d\u201e\n")
    assert json.loads(argv(shown)[0]) == value
    assert json.loads(shlex.split(json_word(value, windows=False))[0]) == value


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["get"], "get"), (["--all"], "-- --all"), (["a", "-h"], "-- a -h"), (["a b"], "'a b'"), (["a\x1b[2J"], "NAME")],
)
def test_no_command_takes_a_foreign_word_for_an_option(words: list[str], shown: str) -> None:
    assert foreign_operands(*words, windows=False) == shown
