"""The pins of all servers as this process knows them, and what they mean for the lists that are shown now.

Rule: nothing here waits. What is not known yet is decided by the settings of the server.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.records import ToolRecord
from aggregator.gateway.pins.judge import judge_steps, unprotected
from aggregator.gateway.pins.state import (
    UNREAD,
    HeldItem,
    JudgedList,
    ListedItem,
    PinRules,
    ServerPins,
)
from aggregator.pins.flags import KnownTool, OtherServers, ToolIndex
from aggregator.pins.values import PinKind

log = logging.getLogger(__name__)

NOT_COMPARED: Final = "it cannot be compared with what was approved, by an error of ours; the log says more"
# Characters of instructions that are judged where they are needed; longer ones are judged in slices before.
_SHORT: Final = 20_000


class PinBook:
    """The pins by server, and what was found of each list that takes effect.

    on_news: called when there is something to write, or to read.
    default_unread: True while the pins of servers that were not given are not known; else these have none.
    default_fault: why nothing can be pinned of servers that were not given; empty while it can.
    """

    def __init__(self) -> None:
        self.on_news: Callable[[], None] = _nothing
        self.default_unread = True
        self.default_fault = ""
        self._tools: Sequence[ToolRecord] = ()
        self._index: ToolIndex | None = None
        self._servers: dict[str, ServerPins] = {}
        self._judged: dict[tuple[str, PinKind], JudgedList] = {}
        self._instructions: dict[str, tuple[str, ServerPins, PinRules, JudgedList]] = {}

    def __repr__(self) -> str:
        return f"<PinBook of {len(self._servers)} servers, {self.held_count()} items held>"

    # -- what is pinned

    def of(self, server: str) -> ServerPins:
        """Return the pins of a server; `UNREAD` before they are known."""
        if self.default_unread:
            return self._servers.get(server, UNREAD)
        return self._servers.setdefault(server, ServerPins(fault=self.default_fault))

    def put(self, server: str, pins: ServerPins) -> None:
        """Take other pins of a server: its lists have to be judged again."""
        self._servers[server] = pins

    def set_tools(self, tools: Sequence[ToolRecord]) -> None:
        """Take the tools that are shown, for look-alikes among those that change later."""
        self._tools, self._index = tools, None

    def _others_steps(self, server: str) -> Steps[OtherServers]:
        """Return the tools of all servers but one, one tool in a step."""
        index = self._index
        if index is None:
            tools, known = self._tools, []
            for tool in tools:
                yield
                said = tool.definition.get("description")
                exposed = tuple(tool.listed.values())
                known.append(KnownTool(tool.server, tool.own_name, exposed, said if isinstance(said, str) else ""))
            index = ToolIndex(known)
            if tools is self._tools:
                self._index = index
        return OtherServers(index, server)

    def keep_only(self, servers: Iterable[str]) -> None:
        """Forget the lists of servers that are not configured any more."""
        kept = set(servers)
        self._judged = {key: judged for key, judged in self._judged.items() if key[0] in kept}
        self._instructions = {server: one for server, one in self._instructions.items() if server in kept}

    # -- what is listed

    def judge_steps(
        self, config: ServerConfig, kind: PinKind, listed: Sequence[ListedItem], pins: ServerPins
    ) -> Steps[JudgedList]:
        """Judge a list by pins of its server. A list that cannot be compared costs its own server only."""
        rules = rules_of(config)
        try:
            return (yield from judge_steps(config.id, kind, listed, pins, rules, lambda: self._others_steps(config.id)))
        except Exception as error:  # it must neither be shown unseen nor end what others list
            log.error("%s: its %ss cannot be compared with what was approved", config.id, kind, exc_info=error)
            return unprotected(config.id, kind, listed, rules, NOT_COMPARED)

    def took_effect(self, judged: JudgedList) -> None:
        """Take note that a judged list is shown now."""
        self._judged[judged.server, judged.kind] = judged
        if judged.has_news:
            self.on_news()

    def judged(self, server: str) -> list[JudgedList]:
        """Return what was found of the lists of a server, and of its instructions."""
        return [judged for (of, _), judged in self._judged.items() if of == server]

    def instructions_steps(self, config: ServerConfig, text: str) -> Steps[JudgedList | None]:
        """Judge the instructions of a server, an empty text being none; None if they were judged before."""
        server, pins, rules = config.id, self.of(config.id), rules_of(config)
        before = self._instructions.get(server)
        if before is not None and before[0] == text and before[1] is pins and before[2] == rules:
            return None
        listed = [ListedItem("", text_version(text), text)] if text else []
        judged = yield from self.judge_steps(config, "instructions", listed, pins)
        self._instructions[server] = text, pins, rules, judged
        self.took_effect(judged)
        return judged

    def instructions(self, config: ServerConfig, text: str) -> str:
        """Return the instructions that may be shown: the text, or none while it is held."""
        if not text:
            return text
        before = self._instructions.get(config.id)
        current = before is not None and before[0] == text and before[1] is self.of(config.id)
        if not current and len(text) > _SHORT:
            # They are judged in the background, and shown if they are what was pinned.
            pin = self.of(config.id).pins.get(("instructions", ""))
            self.on_news()
            return text if pin is not None and pin.version == text_version(text) else ""
        at_once(self.instructions_steps(config, text))
        return "" if self._instructions[config.id][3].held else text

    # -- what is held

    def held(self, server: str) -> list[HeldItem]:
        """Return the items of a server that are held."""
        return [item for judged in self.judged(server) for item in judged.held.values()]

    def held_item(self, server: str, kind: PinKind, name: str) -> HeldItem | None:
        """Return an item by its own name if it is held."""
        judged = self._judged.get((server, kind))
        return judged.held.get(name) if judged is not None else None

    def held_count(self) -> int:
        """Return how many items of all servers are held."""
        return sum(len(judged.held) for judged in self._judged.values())

    def unprotected(self) -> Mapping[str, str]:
        """Return why items are held of each server whose pins cannot be read, compared or written."""
        found: dict[str, str] = {}
        for judged in self._judged.values():
            for item in judged.held.values():
                if item.unprotected:
                    found.setdefault(judged.server, item.why)
        return found

    def counts(self) -> Mapping[str, int]:
        """Return how many items are held of each server that has any."""
        found: dict[str, int] = {}
        for (server, _), judged in self._judged.items():
            if judged.held:
                found[server] = found.get(server, 0) + len(judged.held)
        return found


def rules_of(config: ServerConfig) -> PinRules:
    """Return the settings of a server about its pins."""
    given = config.on_change
    return PinRules(config.trust == "ask", given if isinstance(given, str) else frozenset(given.accept))


def text_version(text: str) -> str:
    """Return the schema version of instructions: a digest as those of the other definitions."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _nothing() -> None:
    """Do nothing: no part of the program writes pins yet."""
