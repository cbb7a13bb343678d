"""Read the tables about language in `data/`, line by line. Each says where it comes from.

Law: no table is about one catalog.
"""

from importlib import resources
from typing import Final

_DATA: Final = resources.files("aggregator.catalog") / "data"


def lines(name: str) -> list[str]:
    """Return the lines of a table, without remarks."""
    text = (_DATA / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
