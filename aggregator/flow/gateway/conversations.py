"""The conversation of a call, by which its flow labels are kept.

This file decides. Only signs that a model cannot change count: a session made by the gateway, a trace begun by the
host's own program, or the key. Indistinguishable conversations count as one.
"""

from typing import Final

from aggregator.domain.call_record import TraceContext
from aggregator.domain.principal import Principal
from aggregator.flow.gateway.scopes import ScopeKey, ScopeOwner
from aggregator.gateway.host import Host

# The frontends whose sessions have an id of their own.
_WITH_SESSIONS: Final = frozenset({"http", "sse"})


def owner_of_labels(principal: Principal) -> ScopeOwner:
    """Return the agent and its identification, equal if `Principal.is_same_caller` holds."""
    return ScopeOwner(
        principal.agent_id, principal.key_id, principal.token.bearer if principal.token is not None else None
    )


def scope_of(host: Host, trace: TraceContext, within: TraceContext | None = None, *, by_key: bool = False) -> ScopeKey:
    """Return the scope of a call; `within` is the place of the program that makes it, if one does.

    `by_key`: the policies take all that comes with one key as one conversation.
    """
    owner = owner_of_labels(host.principal)
    if by_key:
        return ScopeKey(owner, "key")
    if host.session is not None and host.frontend in _WITH_SESSIONS:
        return ScopeKey(owner, "session", host.session)
    # A trace that was begun here has no caller's span.
    if (trace if within is None else within).parent_id is not None:
        return ScopeKey(owner, "trace", trace.trace_id)
    return ScopeKey(owner, "key")
