"""The refusal of held templates and skills, which wait for an approval, with all that belongs to them."""

from aggregator.catalog.templates import fits
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View
from aggregator.pins.gateway.answers import item_held
from aggregator.pins.gateway.book import rules_of
from aggregator.pins.gateway.judge import accepts_new
from aggregator.pins.gateway.state import HeldItem

_IN_NO_LIST = (
    'it is in no list of its server, so that it cannot be approved; `"on_new": "show"` in the entry of the server lets '
    "such skills be read"
)


def refuse_held(items: AgentItems, view: View, found: ResolvedItem, requested: str) -> None:
    """Refuse a URI inside a held skill, or one that only a held template leads to.

    Raises:
        ItemHeld: it is held, and the agent may know of it.
    """
    held, server = items.held, found.upstream.config.id
    if not held:
        return
    for record in held.items.skills_around(server, found.own):
        why = held.item(record)
        if why is not None and view.decide(found.target).visible:
            raise item_held(requested, why)
    if found.listed:
        return
    shown = [one for one in items.of(view).templates.records if one.server == server]
    for record in held.items.templates.records:
        if record.server != server or not (found.own == record.own_name or fits(record.own_name, found.own)):
            continue
        why = held.item(record)
        if why is not None and view.shows(record) and not any(fits(one.own_name, found.own) for one in shown):
            raise item_held(requested, why)


def is_in_held_skill(items: AgentItems, found: ResolvedItem) -> bool:
    """Tell whether a file, or a directory by its URI with a slash at its end, lies in a held skill."""
    return bool(items.held) and bool(items.held.items.skills_around(found.upstream.config.id, found.own))


def refuse_unlisted_skill(found: ResolvedItem, requested: str) -> None:
    """Refuse an unlisted skill if its server may show only approved items.

    Raises:
        ItemHeld: the server may show only approved items.
    """
    server = found.upstream.config
    if not accepts_new(rules_of(server)):
        raise item_held(requested, HeldItem(server.id, "skill", found.own, _IN_NO_LIST))
