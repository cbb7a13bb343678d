"""The command line of `aggregator stdio`, where it is as plain as hosts write it.

Hosts wait for the first answer, and typer takes longer to import than everything before it. What is not understood here
is left to typer, errors and help included.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# Options with a value, by the field they set; and the values of those that have only some.
VALUED = {"--config": "config", "-c": "config", "--agent": "agent", "--names": "names", "--log-level": "log_level"}
CHOICES = {"names": ("canonical", "compatible"), "log_level": ("debug", "info", "warning", "error")}


class StdioOptions(NamedTuple):
    """The arguments of `stdio.run`."""

    config: Path | None = None
    agent: str | None = None
    names: str | None = None
    log_level: str | None = None
    log_json: bool = False


def plain_stdio(arguments: Sequence[str]) -> StdioOptions | None:
    """Return the options if this is the command `stdio` with every option given once, as a word, with its value."""
    if not arguments or arguments[0] != "stdio":
        return None
    found: dict[str, str] = {}
    log_json, words = False, iter(arguments[1:])
    for word in words:
        if word == "--log-json":
            log_json = True
            continue
        field, value = VALUED.get(word), next(words, "-")
        if field is None or field in found or value.startswith("-") or value not in CHOICES.get(field, (value,)):
            return None
        if not value.isprintable() or not value:
            return None
        found[field] = value
    config = found.pop("config", None)
    return StdioOptions(Path(config) if config is not None else None, log_json=log_json, **found)
