"""Tables of commands: as wide as the terminal, or wide enough for all in a file or a pipe."""

import io
import sys

import pytest

from aggregator.cli.runtime.screen import Screen


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdout", "stderr", "width"),
    [
        (Terminal(), False, 90),
        (io.StringIO(), False, 160),
        (Terminal(), True, 90),
        (io.StringIO(), True, 90),
    ],
    ids=["terminal", "pipe", "stderr", "stderr-beside-a-pipe"],
)
def test_how_wide_a_table_is(monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO, stderr: bool, width: int) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert Screen(stderr=stderr).width == width
