"""Arguments of batch files reach them as they were written, or are refused; none becomes a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.system.batch_line import LONGEST, UnquotableArgument, batch_line, is_batch
from tests.windows.cmd_exe import batch_words, words_in_c

SHELL = r"C:\Windows\System32\cmd.exe"
NPX = r"C:\Program Files\nodejs\npx.cmd"
# With a value for every name an argument could hold that way.
VARIABLES = {"cd": r"C:\here", "path": "C:\\bin&calc", "a": "&calc", "username": 'x" & calc & "'}

TEXTS = st.text(st.sampled_from("ab \"\\%&|<>^()!:~,=;'@`\ttéä"), max_size=12)


@given(st.lists(TEXTS, max_size=4))
def test_every_argument_comes_as_written(args: list[str]) -> None:
    """Whatever characters it has, an argument is one word of the program behind the batch file."""
    file, text = batch_words(batch_line(SHELL, NPX, args), VARIABLES)
    assert file == NPX
    assert words_in_c(text) == args


@pytest.mark.parametrize(
    "word",
    [
        '"&calc.exe',
        "%PATH%",
        "%a%&calc",
        "%username%",
        "&calc",
        '" & calc & "',
        "^&calc",
        "trailing\\",
        '\\"',
        '{"a": "b c"}',
        "%%cd:~,%",
        "",
    ],
)
def test_known_attacks(word: str) -> None:
    """The words by which batch files were made to run other programs, before and after others."""
    _, text = batch_words(batch_line(SHELL, NPX, ["first", word, "last"]), VARIABLES)
    assert words_in_c(text) == ["first", word, "last"]


@pytest.mark.parametrize(
    ("word", "name"), [("a\nb", "a line break"), ("a\r", "a carriage return"), ("\0", "a zero byte")]
)
def test_what_cannot_be_passed_is_refused(word: str, name: str) -> None:
    """The error names the place of the argument, not its text, which may be a secret."""
    with pytest.raises(UnquotableArgument, match=f"argument 2 has {name}") as refused:
        batch_line(SHELL, NPX, ["first", word])
    assert word not in str(refused.value)


@pytest.mark.parametrize(
    "file",
    [
        *('C:\\a".cmd', "C:\\%a%.cmd", "C:\\a\n.cmd", "C:\\a\\", "C:\\a/", "C:\\a\x1a.cmd", "C:\\a\t.cmd"),
        *("\\\\?\\C:\\a.cmd", "\\\\?\\UNC\\box\\share\\a.cmd", "\\\\.\\C:\\a.cmd", "//?/C:/a.cmd"),
    ],
)
def test_a_path_that_cannot_be_quoted_is_refused(file: str) -> None:
    with pytest.raises(UnquotableArgument, match="path"):
        batch_line(SHELL, file, [])


def test_the_longest_line() -> None:
    """A line that is longer than what `cmd.exe` takes would lose its end."""
    room = LONGEST - len(batch_line(SHELL, NPX, [""]))
    assert len(batch_line(SHELL, NPX, ["x" * room])) == LONGEST
    with pytest.raises(UnquotableArgument, match=str(LONGEST + 1)):
        batch_line(SHELL, NPX, ["x" * (room + 1)])


def test_the_longest_line_is_counted_as_windows_counts() -> None:
    """A character beyond the first 65,536 is two for Windows, and a percent sign is written as eight."""
    room = LONGEST - len(batch_line(SHELL, NPX, [""]))
    for character, size in (("😀", 2), ("%", 8)):
        fits = character * (room // size)
        assert batch_line(SHELL, NPX, [fits])
        with pytest.raises(UnquotableArgument, match="characters together"):
            batch_line(SHELL, NPX, [fits + character])


@pytest.mark.parametrize(
    "word", ["!delayed!", "!a:~0,1!", "^!a^!", "a\tb", "日本語 😀", "＂&calc＂", "\u2028", "\ud800", "\x7f"]
)
def test_other_signs_that_programs_read(word: str) -> None:
    """Delayed variables, which are switched off, tabs, and what looks like a quote or a line break elsewhere."""
    line = batch_line(SHELL, NPX, ["first", word, "last"])
    assert "/v:OFF" in line.split(NPX)[0]
    _, text = batch_words(line, VARIABLES)
    assert words_in_c(text) == ["first", word, "last"]


@pytest.mark.parametrize(
    "file", ["C:\\a & b\\(x86)\\it's ^!\\npx.cmd", "\\\\box\\share\\npx.cmd", "C:/forward/npx.cmd"]
)
def test_paths_of_batch_files(file: str) -> None:
    assert batch_words(batch_line(SHELL, file, ["a b"]), VARIABLES)[0] == file


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("npx.cmd", True),
        ("NPX.BAT", True),
        ("npx.cmd. .", True),
        ("npx.exe", False),
        ("cmd", False),
        ("a.cmd.exe", False),
    ],
)
def test_which_programs_are_batch_files(name: str, expected: bool) -> None:
    assert is_batch(name) is expected
