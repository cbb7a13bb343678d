"""The answers about held items: to calls, to reads, and in lists of servers."""

from collections.abc import Sequence
from datetime import UTC, datetime

from aggregator.domain.missing import ItemHeld, ToolHeld
from aggregator.domain.names import canonical, loosened
from aggregator.domain.records import ToolRecord
from aggregator.domain.shell import foreign_operands
from aggregator.domain.text.cut import cut_between_words
from aggregator.pins.decide.spelling import said_of_respelled
from aggregator.pins.decide.values import item_word
from aggregator.pins.gateway.state import HeldItem

# Characters of a name in a command.
_NAME = 80
# Renamed items whose names are told.
_EXAMPLES = 3


def tool_held(tool: ToolRecord, held: HeldItem) -> ToolHeld:
    """Return the error for a call of a held tool."""
    if held.served and held.before:
        served = canonical(tool.prefix, held.before)
        said = f"{tool.name} is held: it is a new name of {served}, which is served until the new one is approved."
        return ToolHeld(tool.name, f"{said} Call {served}. {_look_at(held)}", meant=tool, server=held.server)
    return ToolHeld(tool.name, f"{tool.name} {_said(held)}", meant=tool, server=held.server)


def item_held(name: str, held: HeldItem, prefix: str = "") -> ItemHeld:
    """Return the error for a read of a held prompt, or of a resource by a held template. `prefix` is the server's."""
    details = {"code": ItemHeld.held, "server": held.server, "name": name[:200], "retryable": False}
    said = _said(held)
    if held.served and held.before:
        served = canonical(prefix, held.before)
        said = f"is held: it is a new name of {served}, which is served until the new one is approved. {_look_at(held)}"
    return ItemHeld(f"{cut_between_words(name, 200)} {said}", details)


def tool_renamed(name: str, new: ToolRecord, held: HeldItem) -> ToolHeld:
    """Return the error for a call of a tool by its approved name, which its server has changed to that of `new`."""
    now = f" (it is now `{held.name}`)" if _is_spelled_otherwise(held) else ""
    said = f"{name} is held: its server has renamed it{now}. An operator looks at it with `aggregator pins diff"
    return ToolHeld(new.name, f"{said} {held.server}`.", meant=new, server=held.server)


def held_note(held: Sequence[HeldItem], waiting: Sequence[HeldItem] = ()) -> str:
    """Return a note about the items of one server that wait for an approval, for operators and models; empty for none.

    held: the items that are not shown. waiting: those that are served as they were approved.
    """
    new = [one for one in held if one.new and not one.unprotected]
    renamed = [one for one in held if one.before and not one.unprotected]
    rest = [one for one in held if (not one.new and not one.before) or one.unprotected]
    said = []
    if rest:
        why = next((one.why for one in rest if one.unprotected), None)
        since = "changed since approved" if any(one.approved is not None for one in rest) else "not approved yet"
        said.append(f"{_counted(rest)} held: {why or since}")
    if new:
        said.append(f"{_counted(new)} new and held until approved")
    if renamed:
        said.append(f"{_counted(renamed)} renamed and held until approved{_examples(renamed)}")
    if waiting:
        said.append(f"{_counted(waiting)} served as approved: newer definitions wait")
    said += _respelled(waiting)
    if less := [one for one in waiting if one.takes_less]:
        said.append(f"of {_counted(less)} the server takes less now, and refuses other calls")
    if open_items := [*new, *renamed, *waiting]:
        said.append(f"an operator approves with `aggregator pins approve {open_items[0].server}`")
    return "; ".join(said)


def news_note(server: str, new: Sequence[HeldItem]) -> str:
    """Return a sentence about tools that a server added while it was connected, for the answer of a call."""
    many = len(new) > 1
    return (
        f"{server} added tools: {_counted(new)} {'wait' if many else 'waits'} for an approval. An operator approves "
        f"{'them' if many else 'it'} with `aggregator pins approve {server}`, or sets `on_new: show` for a server that "
        "adds tools by design."
    )


def _examples(renamed: Sequence[HeldItem]) -> str:
    """Return the first new names that have the words of the approved ones; others are words that were not approved."""
    known = [one for one in renamed if _is_spelled_otherwise(one)]
    said = [f"`{one.before}` is now `{one.name}`" for one in known[:_EXAMPLES]]
    return f" ({', '.join([*said, '...'] if len(renamed) > len(said) else said)})" if said else ""


def _respelled(waiting: Sequence[HeldItem]) -> list[str]:
    """Return the first served items that the server calls otherwise now; their new names have the approved words."""
    found = [said_of_respelled(one.name, one.sent_as) for one in waiting if one.sent_as]
    more = [f"{len(found) - _EXAMPLES} others too"] if len(found) > _EXAMPLES else []
    return [*found[:_EXAMPLES], *more]


def _is_spelled_otherwise(held: HeldItem) -> bool:
    """Return whether a new name differs from the approved one in case and signs between words alone."""
    return len(held.name) <= _NAME and held.name.isascii() and loosened(held.name) == loosened(held.before)


def _counted(items: Sequence[HeldItem]) -> str:
    counts = {kind: sum(one.kind == kind for one in items) for kind in dict.fromkeys(one.kind for one in items)}
    parts = [f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in counts.items() if kind != "instructions"]
    parts += ["its instructions"] if "instructions" in counts else []
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _said(held: HeldItem) -> str:
    if held.unprotected:
        return f"is held: {held.why}. An operator looks at it with `aggregator pins status`."
    since = ""
    if held.approved is not None:
        named = f" as `{cut_between_words(held.before, _NAME)}`" if held.before else ""
        since = f"since it was approved on {datetime.fromtimestamp(held.approved, UTC).date().isoformat()}{named}, "
    return f"is held: {since}{held.why}. {_look_at(held)}"


def _look_at(held: HeldItem) -> str:
    named = len(held.name) <= _NAME and held.name.isprintable()
    name = f" {foreign_operands(item_word(held.kind, held.name))}" if named else ""
    return f"An operator looks at it with `aggregator pins diff {held.server}{name}`."
