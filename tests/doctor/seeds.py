"""The form of a seeded misconfiguration."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable

from tests.doctor.place import Examined, Place

# Functions of both kinds; what they return is waited for where that can be done, else dropped.
Make = Callable[[Place], object]
Mend = Callable[[Place, Examined], object]


@dataclass(frozen=True)
class Seed:
    """A misconfiguration: how it is made, the code that names it, and how the mend that is printed is applied.

    Without `mend` the command in the fix is run. `tells` is a word of the fix. Without `connects` nothing is started.
    `args_after`: the options once it is mended, if they are others.
    """

    name: str
    code: str
    make: Make
    mend: Mend | None = None
    tells: str = ""
    args: tuple[str, ...] = ()
    connects: bool = False
    severity: str | None = None
    args_after: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.name


async def settled(result: object) -> None:
    """Wait for what a function of a seed began, if it began anything."""
    if isawaitable(result):
        await result
