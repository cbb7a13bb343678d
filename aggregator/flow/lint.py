"""Warn about labels and flow rules that are valid and probably mistakes: no tool has the label, the rule never
counts.
"""

from collections.abc import Iterable, Iterator

from aggregator.config.files.report import nearest
from aggregator.domain.problems import Problem
from aggregator.policy.annotations import claimed_annotations, is_trusted
from aggregator.policy.files.known_names import KnownNames, nothing_matches
from aggregator.policy.patterns import Pattern
from aggregator.policy.rulebook import Rulebook, target_of
from aggregator.policy.rules import BUILT_IN_LABELS, OUTWARD, FlowLabel, FlowRule, Place


def lint_flow(rulebook: Rulebook, known: KnownNames) -> Iterator[Problem]:
    """Yield every warning about labels, flow rules, `decay` and `conversation`."""
    documents = rulebook.documents
    for label in documents.labels.values():
        for given in label.rules:
            if (fault := nothing_matches(given.pattern, known)) is not None:
                yield _warning(given.place, f"labels.{label.name}", *fault)
    if not documents.flow:
        yield from _idle(rulebook)
        return
    yield from _misspelt(documents.labels.values(), documents.flow)
    had = _labels_of_tools(rulebook, known)

    def without(names: frozenset[str]) -> frozenset[str]:
        """Return those labels that certainly nothing has."""
        return frozenset(name for name in names if not _may_be_had(name, rulebook, had, known))

    for rule in documents.flow:
        stricter = next((one for one in documents.flow if one is not rule and _shadows(one, rule)), None)
        if stricter is not None:
            does = "refuses" if stricter.then == "deny" else "asks about"
            message = f"It can never count: {stricter} {does} every call that it speaks of."
            yield _warning(rule.place, "flow", message, "Take one of the two out.")
            continue
        missing = {"calls": without(rule.calls), "after": without(rule.after) - _BROUGHT}
        if missing["calls"] != rule.calls:  # one of them is enough
            del missing["calls"]
        for field, names in missing.items():
            for name in sorted(names):
                message = f"It can never count: nothing has the label {name}."
                yield _warning(rule.place, f"flow.{field}", message, f"Add patterns to `labels.{name}`.")


# Labels that a result may bring by a field of its own.
_BROUGHT = frozenset(BUILT_IN_LABELS) - {OUTWARD}


def _idle(rulebook: Rulebook) -> Iterator[Problem]:
    documents = rulebook.documents
    fix = "Add `flow:`, or take it out."
    for place in sorted(label.place for label in documents.labels.values())[:1]:
        yield _warning(place, "labels", "Labels have no effect: there is no flow rule.", fix)
    for name, setting in (("decay", documents.decay), ("conversation", documents.conversation)):
        if setting is not None:
            yield _warning(setting.place, name, "It has no effect: there is no flow rule.", fix)


def _misspelt(labels: Iterable[FlowLabel], rules: Iterable[FlowRule]) -> Iterator[Problem]:
    """Yield labels that no rule names, and whose name is like one that a rule names."""
    named = {name for rule in rules for name in rule.after | rule.calls}
    known = {label.name for label in labels}
    for label in labels:
        meant = nearest(label.name, sorted(named - known)) if label.name not in named else None
        if meant is not None:
            yield _warning(label.place, f"labels.{label.name}", "No flow rule names it.", f"Did you mean `{meant}`?")


def _shadows(one: FlowRule, other: FlowRule) -> bool:
    """Return whether one rule decides, at least as strictly, wherever another holds."""
    if not (one.after <= other.after and one.calls >= other.calls):
        return False
    if one.then != other.then:
        return one.then == "deny"
    return (one.after, one.calls) != (other.after, other.calls)


def _labels_of_tools(rulebook: Rulebook, known: KnownNames) -> frozenset[str] | None:
    """Return the labels of the existing tools; None if there are no tools."""
    if not known.tools:
        return None
    found: set[str] = set()
    for tool in known.tools:
        claims = claimed_annotations(tool.definition, trusted=is_trusted(known.trusted, tool.server))
        found |= rulebook.flow.labels_of(target_of(tool), claims)
    return frozenset(found)


def _may_be_had(name: str, rulebook: Rulebook, had: frozenset[str] | None, known: KnownNames) -> bool:
    label = rulebook.documents.labels.get(name)
    patterns = [rule.pattern for rule in label.rules] if label is not None else []
    if had is None:
        return bool(patterns) or name in BUILT_IN_LABELS
    if name in had:
        return True
    return any(_is_open(pattern, known) for pattern in patterns)


def _is_open(pattern: Pattern, known: KnownNames) -> bool:
    """Tell whether a pattern may match something unknown here: no tool, or a tool of a server that is down."""
    if pattern.kind == "server":
        up = {tool.server for tool in known.tools or ()}
        return any(pattern.fits(server) for server in known.ids - up)
    return pattern.kind != "tool" or (pattern.head is not None and pattern.head not in known.listing)


def _warning(place: Place, where: str, message: str, fix: str) -> Problem:
    return Problem(place.whole, where, message, fix, "warning")
