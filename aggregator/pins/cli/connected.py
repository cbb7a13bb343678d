"""Connect to the servers of a configuration once, and return their definitions in the form to compare with pins."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from aggregator.accounts.app.stored import stored_accounts
from aggregator.app.build import build_app
from aggregator.catalog.items import NAMED_BY
from aggregator.catalog.items import items as valid_items
from aggregator.catalog.validate import definition_digest, validate_tools
from aggregator.cli.runtime.progress import shown_starting
from aggregator.cli.runtime.setup import storage_url
from aggregator.config.load import Loaded
from aggregator.config.server_config import ServerConfig
from aggregator.pins.app.locked import lock_beside
from aggregator.pins.decide.comparison import Listed
from aggregator.pins.decide.flags import KnownTool
from aggregator.pins.decide.values import ItemKey, PinKind
from aggregator.upstream.upstream import Upstream

_KINDS: Final[tuple[Literal["prompt", "template", "skill"], ...]] = ("prompt", "template", "skill")
_LISTS: Final[tuple[Literal["tool", "prompt", "template", "skill"], ...]] = ("tool", *_KINDS)
# Seconds between two looks at lists that a slow server has not answered yet.
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class CurrentDefinitions:
    """The current items of one server, and its tools in the form for other servers' flags. `problem`: why they are
    unknown.

    left_out: further listed items that are not used. in_part: the incomplete lists.
    """

    config: ServerConfig
    items: Sequence[Listed] = ()
    tools: Sequence[KnownTool] = ()
    problem: str | None = None
    left_out: frozenset[ItemKey] = frozenset()
    in_part: frozenset[PinKind] = frozenset()

    def is_compared(self, pin: ItemKey) -> bool:
        """Return whether a pinned item is there, or is gone for sure."""
        kind = pin[0]
        return pin not in self.left_out and (kind not in self.in_part or any(pin == one[:2] for one in self.items))


async def said_now(loaded: Loaded, wanted: Iterable[str]) -> list[CurrentDefinitions]:
    """Connect to the servers of these ids and return what each says, in the order of the configuration."""
    chosen = frozenset(wanted)
    config = loaded.config.all_started()
    config = config.model_copy(update={"servers": tuple(one for one in config.servers if one.id in chosen)})
    async with stored_accounts(loaded) as accounts:
        app = build_app(config, redactor=loaded.redactor, accounts=accounts)
        async with app.running():
            async with shown_starting(app, loaded.redactor):
                await app.supervisor.wait_all_tried()
            return [await _said(upstream) for upstream in app.upstreams.values()]


async def look(loaded: Loaded, server: str) -> str | None:
    """Run the aggregator until a server has sent its lists, so that their changes are stored as after a session of a
    host. Return why it did not, or None.

    The kept lists of the other servers count for the flags of changes.
    """
    app = build_app(
        loaded.config.only_started(server),
        loaded.policies,
        storage_url(loaded),
        keeps_records=True,
        redactor=loaded.redactor,
        lock=lock_beside(loaded.path),
    )
    async with app.running():
        async with shown_starting(app, loaded.redactor):
            upstream = app.upstreams[server]
            await app.supervisor.wait_tried(upstream, upstream.config.limits.connect_timeout)
        return await _problem(app.upstreams[server])


async def _said(upstream: Upstream) -> CurrentDefinitions:
    problem = await _problem(upstream)
    if problem is not None:
        return CurrentDefinitions(upstream.config, problem=problem)
    return await asyncio.to_thread(_listed, upstream.config, upstream)


async def _problem(upstream: Upstream) -> str | None:
    """Return why the current definitions of a server are unknown; None once it has sent its lists."""
    if upstream.state != "ready" or upstream.negotiated is None:
        return f"it is {upstream.state}: {upstream.reason_for_operator or 'it did not come up'}"
    missing = await _missing(upstream)
    return f"it has not listed its {' and '.join(f'{kind}s' for kind in missing)}" if missing else None


async def _missing(upstream: Upstream) -> list[str]:
    """Return the lists that the server has not answered within its time."""
    try:
        async with asyncio.timeout(upstream.config.limits.connect_timeout):
            while not all(upstream.lists.was_read(kind) for kind in _KINDS):  # noqa: ASYNC110 - lists have no event
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        pass
    return [kind for kind in _KINDS if not upstream.lists.was_read(kind)]


def _listed(config: ServerConfig, upstream: Upstream) -> CurrentDefinitions:
    definitions = upstream.lists["tool"]
    records, _ = validate_tools(config, definitions, ambiguous=False, name_limit=64)
    given = _by_name(definitions, "name")
    there: set[ItemKey] = {("tool", name) for name in given}
    found: list[Listed] = [("tool", one.own_name, given[one.own_name], one.version) for one in records]
    for kind in _KINDS:
        given = _by_name(upstream.lists[kind], NAMED_BY[kind])
        there |= {(kind, name) for name in given}
        valid, _ = valid_items(config, kind, upstream.lists[kind], ambiguous=False, name_limit=64)
        for item in valid:
            definition = given[item.own_name]
            found.append((kind, item.own_name, definition, definition_digest(definition)))
    instructions = upstream.negotiated.instructions if upstream.negotiated is not None else None
    if instructions:
        found.append(("instructions", "", instructions, ""))
    tools = [
        KnownTool(one.server, one.own_name, tuple(one.listed.values()), str(one.definition.get("description") or ""))
        for one in records
    ]
    left_out = frozenset(there - {(kind, name) for kind, name, _, _ in found})
    in_part = frozenset(kind for kind in _LISTS if not upstream.lists.is_whole(kind))
    return CurrentDefinitions(config, found, tools, left_out=left_out, in_part=in_part)


def _by_name(definitions: Iterable[Any], key: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for definition in definitions:
        name = definition.get(key) if isinstance(definition, dict) else None
        if isinstance(name, str):
            found.setdefault(name, definition)
    return found
