"""The texts written by servers and issuers, shown only to users from the role approver on.

Rule: a text counts as ours only if its code, or its kind, is listed here. In place of any other a viewer reads a
sentence of ours, so that a text of a new kind is hidden until it is listed. Rows of earlier releases have servers'
texts where new ones have ours.
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.reasons import for_operator
from aggregator.upstream.upstream import Upstream

# The codes of refusals and failures whose text is wholly ours.
_OURS: Final = frozenset(
    {"tool_not_allowed", "invalid_arguments", "not_read_only", "approval_pending", "limit_reached", "tool_held"}
    | {"item_held", "not_allowed", "flow_denied", "flow_unknown", "insufficient_scope", "login_required", "check_cut"}
    | {"host_lacks_capability", "not_answered", "audit_unavailable", "upstream_busy", "results_full", "interrupted"}
    | {"unknown_result", "cancelled"}
)
# What a viewer reads in place of a text that is not.
_SENTENCES: Final[Mapping[str, str]] = {
    "tool_error": "the server answered that the call failed",
    "not_confirmed": "a person did not agree",
    "outcome_unknown": "the connection ended during the call",
    "schema_unusable": "the server's schema cannot be used",
    "upstream_bad_answer": "the server's answer cannot be used",
    "upstream_http_error": "the server answered with an HTTP error",
    "upstream_refused": "the server refused the request",
    "upstream_timeout": "the server did not answer in time",
    "upstream_unavailable": "the server is away",
}
_FAILED: Final = "the call failed"
# Statuses of calls that were never sent, and codes of JSON-RPC by which they say that there is no such name.
_NOT_SENT: Final = frozenset({"invalid", "denied"})
_NO_SUCH_NAME: Final = frozenset({"-32602", "-32002"})
# The kinds of events, and the areas of problems, whose texts end with words of others after a colon.
_EVENTS: Final = frozenset({"account", "login_refused", "approval", "upstream_state", "call_ended_late"})
_AREAS: Final = frozenset({"issuers", "notify"})
# The details of such events that are ours.
_DETAILS: Final = ("from", "to", "action", "approval", "tool", "answer", "by")


def error_text(status: str, code: str | None, message: str | None, *, values: bool) -> str | None:
    """Return the displayed reason of a call's failure; None if it did not fail."""
    if values or message is None:
        return message
    if code in _OURS or (status in _NOT_SENT and code in _NO_SUCH_NAME):
        return message
    return _SENTENCES.get(code or "", _FAILED)


def server_reason(upstream: Upstream, *, values: bool) -> str:
    """Return the displayed reason of a server's state; empty if there is none."""
    if upstream.state == "ready":
        return upstream.health.problem()
    said = upstream.lifecycle.current.said if values else ""
    return for_operator(upstream.reason, said)


def event_summary(kind: str, summary: str, *, values: bool) -> str:
    """Return the displayed summary of an event."""
    return summary if values or kind not in _EVENTS else _before_words(summary)


def event_details(kind: str, details: Mapping[str, Any], *, values: bool) -> Mapping[str, Any]:
    """Return the displayed details of an event. The digest of short arguments would confirm a guess at them."""
    if values:
        return details
    if kind in _EVENTS:
        return {name: details[name] for name in _DETAILS if name in details}
    return {name: value for name, value in details.items() if name != "arguments_digest"}


def problem_text(area: str, text: str, *, values: bool) -> str:
    """Return the displayed problem of the program."""
    return text if values or area not in _AREAS else _before_words(text)


def _before_words(text: str) -> str:
    return text.partition(": ")[0]
