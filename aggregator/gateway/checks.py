"""Arguments before a call and structured results after it, held against their schemas."""

import logging
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import Unverifiable
from aggregator.domain.records import ToolRecord
from aggregator.policy.rulebook import Tightening
from aggregator.schemas.checks import Checks
from aggregator.schemas.coerce import coerce
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.output import output_faults
from aggregator.schemas.refusal import input_refusal, output_refusal

log = logging.getLogger(__name__)

_SHOWN: Final = 3


class Checker:
    """Compiles each schema once. What does not fit comes back as the result to answer with."""

    def __init__(self) -> None:
        self._checks = Checks()
        self._warned: set[tuple[str, str]] = set()

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
            check = self._checks.get(tool, [rule.schema for rule in rules])
        except UnusableSchema as problem:
            raise Unverifiable(
                tool.name, f"{tool.name} was not called: its arguments cannot be checked ({problem})."
            ) from problem
        faults = check.faults(given)
        return given, input_refusal(tool.name, faults, schema) if faults else None

    def result(self, server: ServerConfig, tool: ToolRecord, answered: dict[str, Any]) -> dict[str, Any]:
        """The result to pass on: as it came, unless the config says `enforce` and it breaks its own schema."""
        if server.output_validation == "off" or "outputSchema" not in tool.definition:
            return answered
        try:
            check = self._checks.output(tool)
        except UnusableSchema as problem:
            self._warn(tool, f"its outputSchema cannot be checked: {problem}")
            return answered
        faults = output_faults(check, answered) if check is not None else ()
        if not faults:
            return answered
        if server.output_validation == "enforce":
            return output_refusal(tool.name, faults, answered)
        said = "; ".join(f"{fault.pointer or 'the whole'}: expected {fault.expected}" for fault in faults[:_SHOWN])
        self._warn(tool, f"its result does not fit its own outputSchema: {said}")
        return answered

    def _warn(self, tool: ToolRecord, what: str) -> None:
        """Once per tool and fault: a sloppy server is sloppy on every call."""
        if (tool.name, what) not in self._warned and len(self._warned) < 10_000:
            self._warned.add((tool.name, what))
            log.warning("%s: %s", tool.name, what)
