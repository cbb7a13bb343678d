"""The facts that calls of one host have in common, and the plans of the tools that it called."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.abilities import NOTHING
from aggregator.domain.call_record import RecordedCaller
from aggregator.domain.errors import HostError
from aggregator.domain.names import Style
from aggregator.domain.trace_context import TRACEPARENT, TRACESTATE
from aggregator.domain.versions import era_of
from aggregator.gateway import eras
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.plan import PreparedCall
from aggregator.gateway.host import Host
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.request import as_call
from aggregator.gateway.views.views import View

# Members of `_meta` that are others with each call.
PROGRESS: Final = "progressToken"
_VARIABLE: Final = frozenset({PROGRESS, TRACEPARENT, TRACESTATE})


class KnownHost:
    """The facts that follow from a host and the `_meta` of its calls alone.

    version: the revision that the calls speak.
    meta: the `_meta` of its calls, but for what differs between them.
    is_plain: whether its calls can do without a task; None until the first call that is like the one before. All that
    follows is worked out then, so that a host that makes one call does not pay for it.
    caller: the host as upstreams deal with it, without a channel. recorded: the host as records have it.
    is_exact: what is passed on of a `_meta` that equals this one has the same JSON: in Python, 1 equals `True` and 1.0.
    """

    __slots__ = (
        "_passed_on",
        "caller",
        "capabilities",
        "conversation",
        "host",
        "is_exact",
        "is_plain",
        "may_be_parked",
        "meta",
        "modern",
        "names",
        "plans",
        "recorded",
        "style",
        "version",
    )

    caller: RequestCaller
    recorded: RecordedCaller
    style: Style
    conversation: str | None
    may_be_parked: bool
    is_exact: bool
    _passed_on: tuple[dict[str, Any], dict[str, Any]]

    def __init__(self, host: Host, version: str, meta: Mapping[str, Any] | None) -> None:
        self.host = host
        self.version = version
        self.meta = meta
        self.modern = era_of(version) == "modern"
        self.names = host.style
        self.capabilities = host.capabilities
        self.is_plain: bool | None = None
        # By the name that the host calls.
        self.plans: dict[str, PreparedCall] = {}

    def work_out(self, view: View) -> bool:
        """Work out the facts that a call without a task needs. Return whether such calls can do without one."""
        host, meta = self.host, self.meta
        params = {} if meta is None else {"_meta": meta}
        try:
            refuse_look_alikes(params)
        except HostError:
            return False
        call = as_call(host, params, self.version, view.style(host.style))
        self.style, self.conversation = call.style, call.conversation
        self.caller = RequestCaller(host, self.version, params, None)
        # As `InputRequests.parks` has it: a server of the handshake eras could ask this host by a result alone.
        self.may_be_parked = self.modern and self.caller.abilities != NOTHING
        self.recorded = CallLog.caller_of(call, host)
        self._passed_on = eras.onward(meta, trusted=False), eras.onward(meta, trusted=True)
        self.is_exact = not _has_numbers(self._passed_on[True])
        return self.caller.level is None

    def holds(self, meta: Mapping[str, Any] | None) -> bool:
        """Return whether all of it is true of another call, with this `_meta`."""
        return self.is_same() and (meta == self.meta or (type(meta) is dict and constant_part(meta) == self.meta))

    def passed_on(self, *, trusted: bool) -> dict[str, Any]:
        """Return what upstreams get of `meta`; not to be changed."""
        return self._passed_on[trusted]

    def is_same(self) -> bool:
        """Return whether the host is as it was."""
        host = self.host
        if host.capabilities is not self.capabilities or host.style != self.names:
            return False
        return self.modern or (host.version == self.version and host.log_level is None)


def constant_part(meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a `_meta` without what differs from call to call."""
    if meta is None or _VARIABLE.isdisjoint(meta):
        return meta
    return {key: value for key, value in meta.items() if key not in _VARIABLE}


def _has_numbers(value: Any) -> bool:
    """Return whether there is a number, or a boolean, anywhere in a value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, int | float):
            return True
    return False
