"""Background work that goes on: what raises is begun again, and said where operators look."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text

log = logging.getLogger(__name__)

# Seconds until failed work is begun again: the first time, and at most, since each pause is twice the one before.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
# Seconds that work has to go on for until its failure is over.
STEADY: Final = 60.0

Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Failure:
    kind: str
    times: int
    pause: float
    # When the work was begun again; None until then.
    begun: float | None = None


class KeptWork:
    """The background work of a process. `clock` and `pause` are for tests."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._failures: dict[str, _Failure] = {}

    def __repr__(self) -> str:
        return f"<KeptWork, failed: {', '.join(self._failures) or 'none'}>"

    @property
    def problem(self) -> str | None:
        """The work that failed and does not go on yet, or not for long; None if all goes on."""
        return (
            "; ".join(self._described(name, one) for name, one in self._failures.items() if not self._over(one)) or None
        )

    async def keep(self, name: str, work: Work) -> None:
        """Do `work` until it returns or is cancelled. If it raises, do it again, after a pause that grows.

        `name`: what operators read, as in "the search index".
        """
        try:
            while not await self._done(name, work):
                pass
        finally:
            # Cancelled work, such as that of an ended connection, is no problem.
            self._failures.pop(name, None)

    async def _done(self, name: str, work: Work) -> bool:
        """Do `work` once. If it raises, wait until it is to begin again, and return False."""
        try:
            await work()
        except Exception as error:  # of any kind: what ends here would stay away until a restart
            failure = self._failed(name, error)
            # An error with words for operators, such as a database that is away, needs no traceback.
            words, shown = (f" ({error_text(error)})", None) if isinstance(error, OperatorError) else ("", error)
            log.error("%s failed%s, and begins again in %g s", name, words, failure.pause, exc_info=shown)
            await self._pause(failure.pause)
            failure.begun = self._clock()
            return False
        return True

    def _failed(self, name: str, error: Exception) -> _Failure:
        before = self._failures.get(name)
        kind = type(error).__name__
        if before is None or self._over(before):
            found = _Failure(kind, 1, FIRST_PAUSE)
        else:
            found = _Failure(kind, before.times + 1, min(2 * before.pause, LONGEST_PAUSE))
        self._failures[name] = found
        return found

    def _over(self, failure: _Failure) -> bool:
        return failure.begun is not None and self._clock() - failure.begun >= STEADY

    @staticmethod
    def _described(name: str, failure: _Failure) -> str:
        times = f" {failure.times} times in a row" if failure.times > 1 else ""
        now = "was begun again" if failure.begun is not None else f"begins again within {failure.pause:g} s"
        return f"{name} failed{times} ({failure.kind}) and {now}; the log says more"
