"""The parts from which a feature builds its hook, and the built hook."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from aggregator.gateway.call_log import CallLog
from aggregator.gateway.hooks import CallHook
from aggregator.gateway.views.views import Views
from aggregator.replicas.group.replication import Replication
from aggregator.storage.lazy_database import LazyDatabase


class HookParts(NamedTuple):
    """The parts of the program that hooks use. `database` is None if nothing is stored."""

    database: LazyDatabase | None
    replication: Replication
    call_log: CallLog
    views: Views


class Background(NamedTuple):
    """Work that runs as long as the program: `name` is for operators, as in "the flow labels"."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]


class PollingPart(Protocol):
    """A part that polls for the work of other processes, and checks at once on request."""

    def look_now(self) -> None: ...


class BuiltHook(NamedTuple):
    """A hook, with its work in the background, and the part that checks at once when a replica changed `subject`."""

    hook: CallHook
    background: Background | None = None
    subject: str | None = None
    follows: PollingPart | None = None
