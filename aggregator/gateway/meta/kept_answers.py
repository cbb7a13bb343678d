"""Answers of meta tools that are reused, without a task, while all of their sources stay the same.

Law: a kept answer is the one that a task would make now.
"""

from operator import is_
from typing import Any, Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.gateway.calls.direct import KeptAnswer
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.views import View, Views
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.codec import TooDeep, encode

# The meta tools whose answers depend on nothing but snapshots, if they say so.
KEPT: Final = frozenset({"search_tools", "describe_tools"})
# Answers that are kept; bytes of the arguments, and characters of the text, of one.
_MOST: Final = 256
_LONGEST_ARGUMENTS: Final = 1_000
_LONGEST_TEXT: Final = 16_000


class KeptAnswers:
    """The last answers of one moment: all are forgotten once a snapshot behind them is replaced."""

    def __init__(self, finder: Finder, views: Views, supervisor: Supervisor) -> None:
        self._finder = finder
        self._views = views
        self._supervisor = supervisor
        self._made_of: tuple[object, ...] = ()
        self._moment = object()
        self._answers: LruCache[tuple[str, str, bytes], KeptAnswer] = LruCache(_MOST)

    def moment(self) -> object:
        """Return an object that stands for all source snapshots of answers: a new one if any was replaced."""
        views = self._views
        made_of = (self._supervisor.moment, views.rulebook, views.trusted, *self._finder.made_of)
        if len(made_of) != len(self._made_of) or not all(map(is_, made_of, self._made_of)):
            self._made_of, self._moment = made_of, object()
            self._answers.clear()
        return self._moment

    def find(self, view: View, name: str, given: Any) -> KeptAnswer | None:
        """Return the answer to an equal call of an agent with the same rules; `given` are the arguments as they came.
        None if there is none.
        """
        self.moment()
        written = _written(given)
        return self._answers.get((view.key, name, written)) if written is not None else None

    def keep(self, moment: object, view: View, given: Any, answer: KeptAnswer) -> None:
        """Keep the answer to a call that came in a `moment`, unless that is over."""
        text = answer.result["content"][0]["text"]
        if moment is not self.moment() or len(text) > _LONGEST_TEXT:
            return
        written = _written(given)
        if written is not None and len(written) <= _LONGEST_ARGUMENTS:
            self._answers.put((view.key, answer.tool.own_name, written), answer)


def _written(given: Any) -> bytes | None:
    """Return arguments as JSON; None if they nest too deeply."""
    try:
        return encode(given)
    except TooDeep:
        return None
