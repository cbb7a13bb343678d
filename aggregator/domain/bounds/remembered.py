"""Bounds of the definitions that are remembered: more is not pinned, so that an endless list fills no disk."""

from typing import Final

LONGEST_DEFINITION: Final = 2**20
"""Characters of one definition."""
LONGEST_NAME: Final = 4_000
"""Characters of the name of an item."""
MOST_ITEMS: Final = 20_000
"""Items of one server."""
