"""The flow of one call: its conversation, the basis of its decision, and the state kept while a question of its server
waits.

This file decides. Only signs that a model cannot change tell conversations apart: a session made by the gateway, a
trace begun by the host's own program, or the key. Indistinguishable conversations count as one.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aggregator.domain.call_record import TraceContext
from aggregator.domain.decision import Decision
from aggregator.domain.principal import Principal
from aggregator.flow.decide.decide_flow import NO_FLOW, FlowState, LabelSource, ToolFlow
from aggregator.flow.gateway.scopes import ScopeKey, ScopeOwner
from aggregator.gateway.host import Host

_NOTHING: Final[Mapping[str, LabelSource]] = {}
_ALLOWED: Final = Decision("allow", "", "")

# The frontends whose sessions have an id of their own.
_WITH_SESSIONS: Final = frozenset({"http", "sse"})


class CallFlow(NamedTuple):
    """The flow of one call: its scope, the labels of its target, the name used, and the decay of its key.

    `decisive` are the labels after which any rule holds.

    For questions of its server: the decision without flow rules and the rules it was made by, the labels of the
    conversation then, and those that its questions brought before.
    """

    scope: ScopeKey
    labels: frozenset[str]
    name: str
    decay: float
    decisive: frozenset[str]
    base: Decision = _ALLOWED
    of: ToolFlow = NO_FLOW
    read: frozenset[str] = frozenset()
    own: Mapping[str, LabelSource] = _NOTHING


class AskedFlow(NamedTuple):
    """The facts of a call that wait with its question.

    `read` are the labels of its conversation when it was decided; `own` those that its own questions brought.
    """

    read: frozenset[str]
    own: Mapping[str, LabelSource]

    def counted(self, state: FlowState) -> FlowState:
        """Return the labels of a state but for those that only questions of the call itself brought."""
        return {label: source for label, source in state.items() if self.own.get(label) != source}

    def to_wire(self) -> dict[str, Any]:
        """Return the facts as a sealed state has them."""
        return {"read": sorted(self.read), "own": {label: list(source) for label, source in self.own.items()}}

    @classmethod
    def from_wire(cls, sealed: Mapping[str, Any]) -> "AskedFlow":
        """Return the facts of a sealed state."""
        own = {label: LabelSource(*source) for label, source in sealed["own"].items()}
        return cls(frozenset(sealed["read"]), own)


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
