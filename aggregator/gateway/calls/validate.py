"""The check of arguments before a call and of structured results after it, against their schemas."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aggregator.config.server_config import ServerConfig
from aggregator.config.settings import ChecksConfig
from aggregator.domain.errors import Blame, CheckCut, Unverifiable
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.views import tightened
from aggregator.policy.rulebook import Tightening
from aggregator.schemas.checks import SchemaChecks, UncompiledSchema
from aggregator.schemas.coerce import Correction, coerce
from aggregator.schemas.declared_names import DeclaredNames
from aggregator.schemas.fault import Fault, UnusableSchema
from aggregator.schemas.look_alikes import AT_ONCE, look_alikes
from aggregator.schemas.narrowed import narrowed_refusal, without_words
from aggregator.schemas.output import known_faults
from aggregator.schemas.refusal import input_refusal, output_refusal, output_unchecked, with_note
from aggregator.schemas.workers.workers import CheckInterrupted, CheckWorkers

if TYPE_CHECKING:
    from aggregator.schemas.check import SchemaCheck

log = logging.getLogger(__name__)

_SHOWN: Final = 3
_WARNINGS: Final = 10_000


class CheckedArguments(NamedTuple):
    """The arguments of a call after the check: a refusal if they do not fit, else what was corrected in them."""

    arguments: dict[str, Any]
    refusal: dict[str, Any] | None
    corrections: Sequence[Correction] = ()


class ExplainedFault(NamedTuple):
    """A fault of arguments and why it is one: a rule of the policy, or else a schema of the tool. `narrowed`: the
    approved definition takes the arguments, and the server no longer does.
    """

    fault: Fault
    rule: Tightening | None = None
    narrowed: bool = False


class QuickCheck:
    """The part of the check of one tool's calls by one agent that surely takes little time."""

    __slots__ = ("_check", "_names", "_output", "_rules", "_schema")

    def __init__(
        self,
        schema: Mapping[str, Any],
        check: "SchemaCheck | UncompiledSchema",
        names: DeclaredNames | None,
        rules: Sequence[Mapping[str, Any]],
        output: "SchemaCheck | UncompiledSchema | None",
    ) -> None:
        self._schema = schema
        self._check = check
        self._names = names
        self._rules = rules
        self._output = output

    def arguments(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments if they surely fit and nothing in them is to be corrected; else None."""
        if not self._check.fits_at_once(given):
            return None
        if self._names is not None and self._names.has_other_spelling(given):
            return None
        if self._rules and look_alikes(self._rules, self._schema, given, AT_ONCE) != ():
            return None
        return given

    def result_fits(self, result: Mapping[str, Any]) -> bool:
        """Return True if a result surely fits its schema, or need not."""
        if self._output is None:
            return True
        faults = known_faults(result)
        return not faults if faults is not None else self._output.fits_at_once(result["structuredContent"])


class Checker:
    """The check of arguments and results. Each schema is compiled once; a refusal is the result to answer with.

    Checks that surely take little time run at once, all others in `workers`.
    """

    def __init__(self, config: ChecksConfig | None = None) -> None:
        self._checks = SchemaChecks()
        self.workers = CheckWorkers(config)
        self._warned: set[tuple[str, str]] = set()

    async def prepare(self, tools: Iterable[ToolRecord]) -> None:
        """Compile schemas ahead of the first calls, a tool at a time, and log those that cannot be checked."""
        for name, notes in (await self._checks.prepare(tools)).items():
            for note in notes:
                self._warn(name, note)

    def quick(self, server: ServerConfig, tool: ToolRecord, rules: tuple[Tightening, ...]) -> QuickCheck | None:
        """Return the check of calls that need no worker process; None if a schema cannot be used."""
        schemas = [rule.schema for rule in rules]
        try:
            check = self._checks.get(tool, schemas if tool.takes is None else [*schemas, tool.takes])
            names = self._checks.names(tool) if server.coerce else None
            output = self._checks.output(tool) if server.output_validation != "off" else None
        except UnusableSchema:
            return None
        return QuickCheck(tool.definition["inputSchema"], check, names, schemas, output)

    async def arguments(
        self,
        server: ServerConfig,
        tool: ToolRecord,
        given: dict[str, Any],
        rules: tuple[Tightening, ...],
        agent: str,
        *,
        by_model: bool,
    ) -> CheckedArguments:
        """Return the arguments to send, corrected if they do not fit or name something in another spelling; and a
        refusal if they do not fit then.

        `by_model`: they come by a meta tool or over `/v1`, where a lone value may stand for a list of one.

        Raises:
            Unverifiable: the schema cannot be checked at all.
            CheckCut: the check did not run to its end.
        """
        schema = tool.definition["inputSchema"]
        corrections: Sequence[Correction] = ()
        try:
            check = self._checks.get(tool, [rule.schema for rule in rules] if rules else ())
            faults = await self._faults(check, given, tool, agent)
            if server.coerce and (faults or self._is_spelt_otherwise(tool, given)):
                given, corrections = coerce(schema, given, self._checks.names(tool), lone=by_model, tool=tool.own_name)
                if corrections:
                    faults = await self._faults(check, given, tool, agent)
            if rules and not faults:
                faults = await _look_alikes(schema, given, rules)
        except UnusableSchema as problem:
            raise Unverifiable(
                tool.name, f"{tool.name} was not called: its arguments cannot be checked ({problem})."
            ) from problem
        except CheckInterrupted as cut:
            said = f"{tool.name} was not called: its arguments were not checked to the end ({cut})."
            raise CheckCut(tool.name, said, cut.why) from cut
        if not faults and tool.takes is not None and (lost := await self._not_taken(tool, given, agent)):
            return CheckedArguments(given, narrowed_refusal(tool, lost))
        if not faults:
            return CheckedArguments(given, None, corrections)
        shown = tightened(tool, rules).definition["inputSchema"]
        return CheckedArguments(given, input_refusal(tool.name, faults, shown, given))

    async def _not_taken(self, tool: ToolRecord, given: dict[str, Any], agent: str) -> tuple[Fault, ...]:
        """Return what a server no longer takes of arguments that fit the approved definition, in words of ours.

        Arguments that cannot be checked are left to the server.
        """
        with suppress(UnusableSchema, CheckInterrupted):
            check = self._checks.get(tool, [tool.takes] if tool.takes is not None else ())
            return without_words(await self._faults(check, given, tool, agent), given)
        return ()

    async def blame(
        self, tool: ToolRecord, given: Mapping[str, Any], rules: tuple[Tightening, ...], agent: str
    ) -> Blame | None:
        """Return the rule that refuses arguments which the tool's own schema accepts; a rule surely does."""
        with suppress(UnusableSchema, CheckInterrupted):
            if rules and not await self._faults(self._checks.get(tool), given, tool, agent):
                for rule in rules:
                    found = await self._faults(self._checks.get(tool, [rule.schema]), given, tool, agent)
                    if found or await _look_alikes(tool.definition["inputSchema"], given, (rule,)):
                        return Blame(rule.rule, rule.source)
        return None

    async def explain(
        self, server: ServerConfig, tool: ToolRecord, given: dict[str, Any], rules: tuple[Tightening, ...], agent: str
    ) -> list[ExplainedFault]:
        """Return every fault of arguments.

        Raises:
            UnusableSchema: a schema cannot be checked at all.
            CheckInterrupted: the check did not run to its end.
        """
        schema = tool.definition["inputSchema"]
        own = await self._faults(self._checks.get(tool), given, tool, agent)
        if server.coerce and (own or self._is_spelt_otherwise(tool, given)):
            given, _ = coerce(schema, given, self._checks.names(tool), lone=False, tool=tool.own_name)
            own = await self._faults(self._checks.get(tool), given, tool, agent)
        narrowed = not own and tool.takes is not None
        if narrowed:
            own = await self._not_taken(tool, given, agent)
        found = [ExplainedFault(fault, narrowed=narrowed) for fault in own]
        for rule in rules:
            faults = await self._faults(self._checks.get(tool, [rule.schema]), given, tool, agent)
            faults += await _look_alikes(schema, given, (rule,))
            found += [ExplainedFault(fault, rule) for fault in faults if fault not in own]
        return found

    async def result(
        self, server: ServerConfig, tool: ToolRecord, answered: dict[str, Any], agent: str
    ) -> dict[str, Any]:
        """Return the result to pass on: unchanged, unless the config says `enforce` and it may not fit its schema.

        A result that was not checked to the end says so.
        """
        if server.output_validation == "off" or "outputSchema" not in tool.definition:
            return answered
        try:
            check = self._checks.output(tool)
            faults = known_faults(answered) if check is not None else ()
            if faults is None:
                assert check is not None
                faults = await self._faults(check, answered["structuredContent"], tool, agent)
        except UnusableSchema as problem:
            self._warn(tool.name, f"its outputSchema cannot be checked: {problem}")
            return answered
        except CheckInterrupted as cut:
            self._warn(tool.name, f"a result was not checked against its outputSchema to the end: {cut}")
            if server.output_validation == "enforce":
                return output_unchecked(tool.name, str(cut), cut.why, answered)
            return with_note(answered, cut.why)
        if not faults:
            return answered
        if server.output_validation == "enforce":
            return output_refusal(tool.name, faults, answered)
        said = "; ".join(f"{fault.pointer or 'the whole'}: expected {fault.expected}" for fault in faults[:_SHOWN])
        self._warn(tool.name, f"its result does not fit its own outputSchema: {said}")
        return answered

    async def _faults(
        self, check: "SchemaCheck | UncompiledSchema", value: Any, tool: ToolRecord, agent: str
    ) -> tuple[Fault, ...]:
        """Return the faults of the value.

        Raises:
            CheckInterrupted, UnusableSchema: as of `CheckWorkers.faults`.
        """
        faults = check.at_once(value)
        return faults if faults is not None else await self.workers.faults(check, value, tool.server, agent)

    def _is_spelt_otherwise(self, tool: ToolRecord, given: dict[str, Any]) -> bool:
        """Tell whether arguments that fit may have a name that differs from a declared one in spelling alone."""
        names = self._checks.names(tool)
        return names is not None and names.has_other_spelling(given)

    def _warn(self, tool: str, what: str) -> None:
        """Log a warning, once per tool and fault: a server repeats its fault with every call."""
        if (tool, what) not in self._warned and len(self._warned) < _WARNINGS:
            self._warned.add((tool, what))
            log.warning("%s: %s", tool, what)


async def _look_alikes(
    schema: Mapping[str, Any], given: Mapping[str, Any], rules: tuple[Tightening, ...]
) -> tuple[Fault, ...]:
    """Return the names of arguments that a server could take for one in a policy."""
    tightening = [rule.schema for rule in rules]
    found = look_alikes(tightening, schema, given, AT_ONCE)
    if found is None:
        found = await asyncio.to_thread(look_alikes, tightening, schema, given)
    return found or ()
