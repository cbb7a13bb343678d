"""One row of usage, in the form exchanged with the table. This module is light."""

from typing import NamedTuple

# Pairs of a moment, in seconds since 1970 by the group's clock, and the calls made up to it, oldest first.
Times = tuple[tuple[float, int], ...]


class UsageRow(NamedTuple):
    """The calls that one replica has charged to one counter; they count until `expires`, by the group's clock.

    `times` is None where only the number counts.
    """

    counter: str
    used: int
    times: Times | None
    expires: float
