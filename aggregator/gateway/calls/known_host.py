"""The common facts of the calls of one host, and the plans of the tools that it called."""

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
from aggregator.gateway.calls.plan import PreparedCall, WrittenTool
from aggregator.gateway.host import Host
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.request import as_call
from aggregator.gateway.views.views import View

# Members of `_meta` that differ from call to call.
PROGRESS: Final = "progressToken"
_VARIABLE: Final = frozenset({PROGRESS, TRACEPARENT, TRACESTATE})


class KnownHost:
    """The facts that follow from a host and the `_meta` of its calls alone.

    version: the revision that the calls speak.
    meta: the constant part of the `_meta` of its calls.
    is_plain: whether its calls can do without a task; None until the first repeated call. The facts below are worked
    out then, so that a host with one call does not pay for them.
    caller: the host for upstreams, without a channel.
    is_exact: a `_meta` equal to this one has the same JSON onward. (In Python, 1 equals `True` and 1.0.)
    """

    __slots__ = (
        "_passed_on",
        "_recorded",
        "caller",
        "capabilities",
        "conversation",
        "dialect",
        "host",
        "is_exact",
        "is_plain",
        "may_be_parked",
        "meta",
        "modern",
        "names",
        "plans",
        "style",
        "version",
    )

    caller: RequestCaller
    _recorded: dict[str | None, RecordedCaller]
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
        self.names, self.dialect = host.style, host.dialect
        self.capabilities = host.capabilities
        self.is_plain: bool | None = None
        # By the meta tool that is called, if one is, and by the words for the tool.
        self.plans: dict[str | None, dict[WrittenTool, PreparedCall]] = {}

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
        # As in `InputRequests.parks`: a server of the handshake eras could ask this host by a result alone.
        self.may_be_parked = self.modern and self.caller.abilities != NOTHING
        self._recorded = {None: CallLog.caller_of(call, host)}
        self._passed_on = eras.onward(meta, trusted=False), eras.onward(meta, trusted=True)
        self.is_exact = not _has_numbers(self._passed_on[True])
        return self.caller.level is None

    def holds(self, meta: Mapping[str, Any] | None) -> bool:
        """Return True if all these facts hold for another call, with this `_meta`."""
        return self.is_same() and (meta == self.meta or (type(meta) is dict and constant_part(meta) == self.meta))

    def recorded(self, via: str | None) -> RecordedCaller:
        """Return the host for records of calls that come by a meta tool, or by none."""
        found = self._recorded.get(via)
        if found is None:
            found = self._recorded[via] = self._recorded[None]._replace(via=via)
        return found

    def passed_on(self, *, trusted: bool) -> dict[str, Any]:
        """Return the part of `meta` for upstreams; do not change it."""
        return self._passed_on[trusted]

    def is_same(self) -> bool:
        """Return True if the host has not changed."""
        host = self.host
        if host.capabilities is not self.capabilities or host.style != self.names or host.dialect is not self.dialect:
            return False
        return self.modern or (host.version == self.version and host.log_level is None)


def constant_part(meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a `_meta` without the members that differ from call to call."""
    if meta is None or _VARIABLE.isdisjoint(meta):
        return meta
    return {key: value for key, value in meta.items() if key not in _VARIABLE}


def _has_numbers(value: Any) -> bool:
    """Return True if a value contains a number or a boolean anywhere."""
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
