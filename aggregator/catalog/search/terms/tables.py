"""Read the language tables in `data/`, line by line. Each table names its source.

Law: no table is specific to one catalog.
"""

from importlib import resources
from typing import Final

_DATA: Final = resources.files("aggregator.catalog") / "data"


def lines(name: str) -> list[str]:
    """Return the lines of a table, without remarks."""
    text = (_DATA / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
