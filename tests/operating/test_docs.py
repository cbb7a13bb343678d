"""docs/running.md#operating names what there is."""

import re
from pathlib import Path
from typing import Final

from aggregator.cli import status
from aggregator.config.difference import AT_ONCE, IN_PLACE
from aggregator.config.server_config import GROUPS
from aggregator.domain.errors import CONNECTION_CLOSED, ShuttingDown
from aggregator.upstream.process.reaper import VARIABLE

TEXT: Final = (Path(__file__).parents[2] / "docs" / "running.md").read_text(encoding="utf-8")


def test_what_takes_effect_is_listed() -> None:
    """Proves: E9. Every setting that may change in place, and no other, stands in its paragraph."""
    fields, all_but = _sentence("* A change of these fields keeps the connection").split(
        ", and all of `limits` except for "
    )
    kept = {f"limits.{name}" for name in GROUPS["limits"].model_fields} - {f"limits.{one}" for one in _named(all_but)}
    for name in _named(fields):
        kept |= {f"{name}.{option}" for option in GROUPS[name].model_fields} if name in GROUPS else {name}
    assert kept | {"on_change.accept"} == IN_PLACE
    assert _named(_sentence("**Other settings** that take effect at once")) == AT_ONCE


def _sentence(begins: str) -> str:
    return " ".join(TEXT[TEXT.index(begins) :].split()).partition(". ")[0]


def _named(sentence: str) -> set[str]:
    return set(re.findall(r"`([a-z_.]+)`", sentence))


def test_codes_and_names_are_those_of_the_program() -> None:
    assert f"| {status.NOT_RUNNING} |" in TEXT
    assert VARIABLE in TEXT
    assert str(CONNECTION_CLOSED) in TEXT
    assert f"`{ShuttingDown.word}`" in TEXT
