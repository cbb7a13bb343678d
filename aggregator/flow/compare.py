"""Compare the labels and flow rules of two rulebooks: which lines changed, and which tools get or lose a label.

Law: a label counts as the same wherever its patterns stand.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from aggregator.config.durations import format_duration
from aggregator.domain.bounds.slices import Steps
from aggregator.policy.compare.tool_sets import ToolSet, ToolSets
from aggregator.policy.rulebook import Rulebook
from aggregator.policy.rules import OUTWARD, UNTRUSTED, FlowRule, Rule

_SHOWN: Final = 5
_RuleKey = tuple[frozenset[str], frozenset[str], str]


def flow_changes(old: Rulebook | None, new: Rulebook | None, sets: ToolSets, most: int) -> Steps[tuple[str, ...]]:
    """Return a line for each flow rule and label that differs, and for the settings beside, in steps of a pattern.

    Tools are left out where names were compared with patterns more often than `most`.
    """
    lines = [*_rules(old, new), *_settings(old, new)]
    before, after = _patterns(old), _patterns(new)
    had, has = (yield from _labelled(old, sets, most)), (yield from _labelled(new, sets, most))
    for name in sorted({*before, *after, UNTRUSTED, OUTWARD}):
        edits = [*_edits(before.get(name, {}), after.get(name, {}))]
        if had is None or has is None:
            if edits:
                lines.append(f"label {name}: {', '.join(edits)}; its tools were not compared")
            continue
        was, now = had.get(name, 0), has.get(name, 0)
        told = [*_counted(sets, now & ~was, "get"), *_counted(sets, was & ~now, "lose")]
        if edits or told:
            why = ", ".join(edits) or _because(old, new)
            lines.append(f"label {name}: {why}; {' and '.join(told) or 'no tool gets or loses it'}")
    return tuple(lines)


def _edits(before: Mapping[str, Rule], after: Mapping[str, Rule]) -> Iterator[str]:
    yield from (f'"{text}" added ({rule.place})' for text, rule in after.items() if text not in before)
    yield from (f'"{text}" removed ({rule.place})' for text, rule in before.items() if text not in after)


def _because(old: Rulebook | None, new: Rulebook | None) -> str:
    """Say why tools get or lose a label whose own patterns are the same."""
    had, has = old is not None and old.has_flow, new is not None and new.has_flow
    if had == has:
        return "other patterns changed"
    return "there are flow rules now" if has else "there is no flow rule any more"


def _rules(old: Rulebook | None, new: Rulebook | None) -> Iterator[str]:
    before, after = _flow(old), _flow(new)
    for key, rule in after.items():
        if key not in before:
            yield f"flow rule {rule.condition}: {rule.then}, is new ({rule.place})"
    for key, rule in before.items():
        if key not in after:
            yield f"flow rule {rule.condition}: {rule.then}, is gone ({rule.place})"


def _flow(book: Rulebook | None) -> dict[_RuleKey, FlowRule]:
    return {(rule.after, rule.calls, rule.then): rule for rule in book.documents.flow} if book is not None else {}


def _settings(old: Rulebook | None, new: Rulebook | None) -> Iterator[str]:
    if old is not None and new is not None and old.decay != new.decay:
        yield f"decay: {format_duration(old.decay)} -> {format_duration(new.decay)}"
    if old is not None and new is not None and old.one_conversation != new.one_conversation:
        told = ("session -> key", "key -> session")[old.one_conversation]
        yield f"conversation: {told}"


def _patterns(book: Rulebook | None) -> dict[str, dict[str, Rule]]:
    """Return the patterns of each label, by their text."""
    labels = book.documents.labels.values() if book is not None else ()
    return {label.name: {rule.pattern.text: rule for rule in label.rules} for label in labels}


def _labelled(book: Rulebook | None, sets: ToolSets, most: int) -> Steps[dict[str, ToolSet] | None]:
    """Return the tools that have each label, as `FlowBook.labels_of` finds them; None if that takes too long.

    Without flow rules no tool has any.
    """
    found: dict[str, ToolSet] = {}
    if book is None or not book.has_flow:
        return found
    together = 0
    for label in book.documents.labels.values():
        tools = 0
        for rule in label.rules:
            tools |= sets.matching(rule)
            yield
            if sets.tried > most:
                return None
        found[label.name] = tools
        together |= tools
    reached = sets.saying_open_world & ~together
    found[UNTRUSTED] = found.get(UNTRUSTED, 0) | reached
    found[OUTWARD] = found.get(OUTWARD, 0) | reached & ~sets.claiming("read_only")
    return found


def _counted(sets: ToolSets, tools: ToolSet, does: str) -> Iterator[str]:
    """Yield how many tools get or lose a label, with the first names."""
    if count := tools.bit_count():
        names = list(sets.names_of(tools, _SHOWN))
        more = f" and {count - len(names)} more" if count > len(names) else ""
        head = f"1 tool {does}s it" if count == 1 else f"{count} tools {does} it"
        yield f"{head} ({', '.join(names)}{more})"
