"""docs/running.md#operating names what there is."""

import re
from pathlib import Path
from typing import Final

import pytest

from aggregator.cli import status
from aggregator.config.difference import AT_ONCE, IN_PLACE
from aggregator.domain.errors import CONNECTION_CLOSED, ShuttingDown
from aggregator.upstream.process.reaper import VARIABLE

TEXT: Final = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("begins", "names"),
    [("* Some fields need no new connection", IN_PLACE), ("**Other settings** that take effect at once", AT_ONCE)],
)
def test_what_takes_effect_is_listed(begins: str, names: frozenset[str]) -> None:
    """Proves: E9. Every setting that may change in place, and no other, stands in its paragraph."""
    sentence = TEXT[TEXT.index(begins) :].partition(". ")[0]
    assert set(re.findall(r"`([a-z_.]+)`", sentence)) == names


def test_codes_and_names_are_those_of_the_program() -> None:
    assert f"| {status.NOT_RUNNING} |" in TEXT
    assert VARIABLE in TEXT
    assert str(CONNECTION_CLOSED) in TEXT
    assert f"`{ShuttingDown.word}`" in TEXT
