"""The labels and flow rules of one rulebook, by the targets they match.

Law: labels restrict, so one matching spelling of a name or URI is enough; a server's annotations never extend the
labels that an operator's pattern gives.
"""

from dataclasses import replace
from typing import Final

from aggregator.domain.text.invisible import folded_name
from aggregator.flow.decide.decide_flow import NO_FLOW, ToolFlow
from aggregator.policy.annotations import ToolAnnotations
from aggregator.policy.index import RuleIndex
from aggregator.policy.patterns import Target
from aggregator.policy.rules import OUTWARD, UNTRUSTED, Documents, Rule

# Seconds that the labels of a key last, by default.
DECAY: Final = 1800.0

_NONE: Final[frozenset[str]] = frozenset()
_READS_OUTSIDE: Final = frozenset({UNTRUSTED})
_WRITES_OUTSIDE: Final = frozenset({UNTRUSTED, OUTWARD})


class FlowBook:
    """The labels and flow rules of all files.

    `has_rules`: there is a flow rule; without one nothing has a flow. `decay`: seconds that the reads of a key are
    remembered. `decisive`: the labels after which a rule holds.
    """

    def __init__(self, documents: Documents) -> None:
        self.has_rules: Final = bool(documents.flow)
        self.decay: Final[float] = documents.decay.value if documents.decay is not None else DECAY
        self.rules: Final = tuple(sorted(documents.flow, key=lambda rule: (rule.then != "deny", rule.place)))
        self.decisive: Final = frozenset[str]().union(*(rule.after for rule in self.rules))
        self._index = RuleIndex(rule for label in documents.labels.values() for rule in label.rules)

    def __repr__(self) -> str:
        return f"<FlowBook {len(self.rules)} rules>"

    def flow_of(self, target: Target, claims: ToolAnnotations | None = None) -> ToolFlow:
        """Return the flow of a tool, resource or prompt; `claims` are the annotations of its server that count."""
        if not self.has_rules:
            return NO_FLOW
        labels = self.labels_of(target, claims)
        if not labels:
            return NO_FLOW
        return ToolFlow(labels, tuple(rule for rule in self.rules if rule.calls & labels), str(target))

    def labels_of(self, target: Target, claims: ToolAnnotations | None = None) -> frozenset[str]:
        """Return the labels of a tool, resource or prompt, whether or not a flow rule names them.

        A tool that its server calls otherwise now has the labels of both names.
        """
        if (sent := target.as_sent) is not None:
            return self.labels_of(replace(target, sent_as=""), claims) | self.labels_of(sent, claims)
        if found := frozenset(rule.value for rule in self.matching(target)):
            return found
        if claims is None or not claims.says_open_world:
            return _NONE
        return _READS_OUTSIDE if claims.read_only else _WRITES_OUTSIDE

    def matching(self, target: Target) -> tuple[Rule, ...]:
        """Return the patterns of labels that match a target, by any spelling, in the order of labels and places."""
        found: dict[int, Rule] = {}
        for one in filter(None, (target, target.as_sent)):
            found |= {id(rule): rule for rule in self._index.matching(one)}
            if (seen := folded_name(one.name)) != one.name:
                found |= {id(rule): rule for rule in self._index.matching(replace(one, name=seen))}
        return tuple(sorted(found.values(), key=lambda rule: (rule.value, rule.place, rule.pattern.text)))
