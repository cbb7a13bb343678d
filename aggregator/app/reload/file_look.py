"""Watch the reading of files in a thread, and tell of a look that takes long, as on a mount that does not answer."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# Seconds after which the log mentions a look.
LONG: Final = 5.0


class FileLook:
    """The reading of the files that `name` says, one look after the other. `problem` tells of one that takes long."""

    def __init__(self, name: str, place: str) -> None:
        self._name = name
        self._place = place
        self.problem: str | None = None

    def __repr__(self) -> str:
        return f"<FileLook at the {self._name}{', which takes long' if self.problem else ''}>"

    async def take(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function that reads the files, which a thread calls."""
        timer = asyncio.get_running_loop().call_later(LONG, self._takes_long)
        try:
            found = await asyncio.to_thread(work, *args, **kwargs)
        finally:
            timer.cancel()
        if self.problem is not None:
            log.info("the %s in %s can be read again", self._name, self._place)
        self.problem = None
        return found

    def _takes_long(self) -> None:
        self.problem = (
            f"A look at the {self._name} in {self._place} has taken longer than {LONG:g} s, so changes are not seen: "
            "does the disk or mount under it answer? What is in force stays."
        )
        log.warning("%s", self.problem)
