"""The flow of one call: the basis of its decision, and the state kept while a question of its server waits.

This file decides.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aggregator.domain.decision import Decision
from aggregator.flow.decide.decide_flow import NO_FLOW, FlowState, LabelSource, ToolFlow
from aggregator.flow.gateway.scopes import ScopeKey

_NOTHING: Final[Mapping[str, LabelSource]] = {}
_ALLOWED: Final = Decision("allow", "", "")


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
