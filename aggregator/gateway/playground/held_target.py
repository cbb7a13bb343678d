"""The reason why a tool, prompt, resource or skill is held, for users who query the policy's decision about it."""

from aggregator.catalog.resources import ItemCatalog
from aggregator.catalog.templates import fits
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.current import HeldItems
from aggregator.pins.gateway.state import HeldItem
from aggregator.policy.patterns import Target


def held_target(held: HeldItems, items: ItemCatalog, thing: ToolRecord | Target) -> HeldItem | None:
    """Return why a target is held, or None. `items` are the shown resources and templates."""
    if not held:
        return None
    if isinstance(thing, ToolRecord):
        return held.tool(thing)
    if thing.kind == "prompt":
        return held.why.get((thing.server, "prompt", thing.name))
    for skill in held.items.skills_around(thing.server, thing.uri):
        if (why := held.item(skill)) is not None:
            return why
    if thing.kind == "skill" or items.lists(thing.server, thing.name):
        return None
    if any(one.server == thing.server and fits(one.own_name, thing.name) for one in items.templates.records):
        return None
    leading = (one for one in held.items.templates.records if one.server == thing.server)
    return next(
        (held.item(one) for one in leading if thing.name == one.own_name or fits(one.own_name, thing.name)), None
    )
