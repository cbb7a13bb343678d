"""Arguments before a call and structured results after it, held against their schemas."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import Blame, Unverifiable
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views import tightened
from aggregator.policy.rulebook import Tightening
from aggregator.schemas.checks import ENGINE, Checks
from aggregator.schemas.coerce import coerce
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.output import output_faults
from aggregator.schemas.refusal import input_refusal, output_refusal

log = logging.getLogger(__name__)

_SHOWN: Final = 3
_WARNINGS: Final = 10_000


class Checker:
    """Compiles each schema once. What does not fit comes back as the result to answer with."""

    def __init__(self) -> None:
        self._checks = Checks()
        self._warned: set[tuple[str, str]] = set()

    async def prepare(self, tools: Iterable[ToolRecord]) -> None:
        """Compile ahead of the first calls, a tool at a time, and log what cannot be checked."""
        await asyncio.to_thread(resolve_name, ENGINE)
        for name, notes in (await self._checks.prepare(tools)).items():
            for note in notes:
                self._warn(name, note)

    def arguments(
        self, server: ServerConfig, tool: ToolRecord, given: dict[str, Any], rules: tuple[Tightening, ...]
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The arguments to send, put right where the server's config says so; and a refusal if they do not fit.

        Raises:
            Unverifiable: the schema cannot be checked at all.
        """
        schema = tool.definition["inputSchema"]
        if server.coerce:
            given, _ = coerce(schema, given)
        try:
            check = self._checks.get(tool, [rule.schema for rule in rules] if rules else ())
        except UnusableSchema as problem:
            raise Unverifiable(
                tool.name, f"{tool.name} was not called: its arguments cannot be checked ({problem})."
            ) from problem
        faults = check.faults(given)
        if not faults:
            return given, None
        return given, input_refusal(tool.name, faults, tightened(tool, rules).definition["inputSchema"])

    def blame(self, tool: ToolRecord, given: Mapping[str, Any], rules: Iterable[Tightening]) -> Blame | None:
        """The rule that refuses arguments which the tool's own schema takes; they are known to be refused."""
        with suppress(UnusableSchema):
            if not self._checks.get(tool).faults(given):
                for rule in rules:
                    if self._checks.get(tool, [rule.schema]).faults(given):
                        return Blame(rule.rule, rule.source)
        return None

    def result(self, server: ServerConfig, tool: ToolRecord, answered: dict[str, Any]) -> dict[str, Any]:
        """The result to pass on: as it came, unless the config says `enforce` and it breaks its own schema."""
        if server.output_validation == "off" or "outputSchema" not in tool.definition:
            return answered
        try:
            check = self._checks.output(tool)
        except UnusableSchema as problem:
            self._warn(tool.name, f"its outputSchema cannot be checked: {problem}")
            return answered
        faults = output_faults(check, answered) if check is not None else ()
        if not faults:
            return answered
        if server.output_validation == "enforce":
            return output_refusal(tool.name, faults, answered)
        said = "; ".join(f"{fault.pointer or 'the whole'}: expected {fault.expected}" for fault in faults[:_SHOWN])
        self._warn(tool.name, f"its result does not fit its own outputSchema: {said}")
        return answered

    def _warn(self, tool: str, what: str) -> None:
        """Once per tool and fault: a sloppy server is sloppy on every call."""
        if (tool, what) not in self._warned and len(self._warned) < _WARNINGS:
            self._warned.add((tool, what))
            log.warning("%s: %s", tool, what)
