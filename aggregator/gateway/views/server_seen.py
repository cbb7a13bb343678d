"""A server as one agent may know it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.gateway.views.start_faults import start_fault
from aggregator.pins.gateway.answers import held_note
from aggregator.pins.gateway.book import PinBook
from aggregator.pins.gateway.state import HeldItem
from aggregator.upstream.health.health import Health
from aggregator.upstream.lifecycle.states import State
from aggregator.upstream.upstream import Upstream

UNSEARCHABLE: Final = "its tools cannot be found by words"
# What follows the name of a server that asks hosts during calls (`isolation: auto`).
ASKS_IN_CALLS: Final = "asks during calls: hosts at the same time have connections of their own"


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """A server in an agent's view, with the number of its visible tools, resources, templates, prompts and skills.

    `since` is the time of its last change of state, in seconds since 1970; `answered_by` are the servers that answer
    its calls now; `held` are the items that are not shown until approved, `waiting` those that are served as they were
    approved while newer definitions wait; `faults` describe errors in its lists and messages; `asks`: it asks hosts
    during calls, so that hosts at the same time have connections of their own. `unsearchable`: its tools cannot be
    found by words.
    """

    config: ServerConfig
    state: State
    reason: str
    tools: int
    health: Health
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    version: str | None = None
    instructions: str = ""
    since: float = 0.0
    answered_by: tuple[str, ...] = ()
    held: tuple[HeldItem, ...] = ()
    skills: int = 0
    faults: tuple[str, ...] = ()
    unsearchable: bool = False
    waiting: tuple[HeldItem, ...] = ()
    asks: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about problems besides its state, in our own words."""
        search = UNSEARCHABLE if self.unsearchable else ""
        asks = f"it {ASKS_IN_CALLS}" if self.asks else ""
        return tuple(filter(None, (held_note(self.held, self.waiting), *self.faults, search, asks)))

    @property
    def start_fault(self) -> str:
        """Why it does not start on this machine, in our own words; empty if it does."""
        return start_fault(self.state, self.reason, connected=self.version is not None)

    @property
    def is_unreached(self) -> bool:
        """True if it was never connected and is unavailable: it does not start, or waits for a sign-in."""
        return self.state == "unavailable" and self.version is None

    @property
    def name(self) -> str:
        """The prefix of its tool names, or its id if they have none."""
        return self.config.prefix or self.config.id


def server_seen(
    upstream: Upstream, pins: PinBook | None, held: Iterable[HeldItem], waiting: Iterable[HeldItem], *counts: int
) -> ServerSeen:
    """Return a server with the number of its visible tools, resources, templates, prompts and skills, and its items
    that wait for an approval.
    """
    negotiated = upstream.negotiated
    version, said = (negotiated.version, negotiated.instructions or "") if negotiated is not None else (None, "")
    if pins is not None and said:
        said = pins.instructions(upstream.config, said)
        held = [*held, *filter(None, [pins.held_item(upstream.config.id, "instructions", "")])]
        waiting = [*waiting, *filter(None, [pins.waiting_item(upstream.config.id, "instructions", "")])]
    tools, resources, templates, prompts, skills = counts
    return ServerSeen(
        upstream.config,
        upstream.state,
        upstream.reason,
        tools,
        upstream.health,
        resources,
        templates,
        prompts,
        version,
        said,
        upstream.since,
        held=tuple(held),
        skills=skills,
        faults=upstream.faults.for_agents(),
        waiting=tuple(waiting),
        asks=upstream.own_connections is not None,
    )
