"""The definition of a meta tool: a record that models are shown, and an answer in text."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from aggregator.catalog.validate import definition_digest
from aggregator.dialects.gateway import Dialects
from aggregator.dialects.names import Schemas
from aggregator.domain.call import ToolCall
from aggregator.domain.records import ToolRecord
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.views import View
from aggregator.results.gateway.keeper import KeptResult, ResultKeeper
from aggregator.tool_reports.book import ReportBook

# The server id of the meta tools.
SOURCE: Final = "aggregator"
# A function that records the labels of a kept result in the conversation that reads it, before the answer.
NoteKept = Callable[[KeptResult], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MetaToolCall:
    """One call of a meta tool, its arguments checked. `dialect` is the one of its host's lists, and
    `lists_all` says that these may have more tools than its model API takes.

    `first_steps` says how servers are added; it is empty if there is one. `keep` notes that the same call has the same
    answer until a snapshot of the catalog, the policies or the states of servers is replaced.
    """

    call: ToolCall
    view: View
    arguments: Mapping[str, Any]
    finder: Finder
    resolver: Resolver
    keeper: ResultKeeper
    note_kept: NoteKept
    reports: ReportBook
    keep: Callable[[], None]
    dialect: Schemas = "original"
    dialects: Dialects | None = None
    lists_all: bool = False
    first_steps: str = ""


# The function that answers calls of one meta tool.
MetaAnswer = Callable[[MetaToolCall], Awaitable[str]]


@dataclass(frozen=True)
class MetaTool:
    """One meta tool. `answer` is None for those that call other tools.

    `unlisted`: the schemas of arguments that it accepts and that no list pays for, or what more holds for listed ones.
    """

    record: ToolRecord
    answer: MetaAnswer | None
    unlisted: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def accepted(self) -> ToolRecord:
        """The record with all arguments, by which a call is checked."""
        if not self.unlisted:
            return self.record
        definition = self.record.definition
        schema = definition["inputSchema"]
        listed = schema["properties"]
        properties = {
            name: {**listed.get(name, {}), **self.unlisted.get(name, {})} for name in {**listed, **self.unlisted}
        }
        whole = {**definition, "inputSchema": {**schema, "properties": properties}}
        return replace(self.record, definition=whole, version=definition_digest(whole))


def meta_record(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: tuple[str, ...] = (),
    *,
    reads: bool = True,
    others: bool = False,
) -> ToolRecord:
    """Return the record of a meta tool. `reads`: it changes nothing; `others`: it accepts further properties."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if others:
        schema["additionalProperties"] = True
    definition: dict[str, Any] = {"name": name, "description": description, "inputSchema": schema}
    if reads:
        definition["annotations"] = {"readOnlyHint": True}
    version = definition_digest(definition)
    return ToolRecord(SOURCE, "", name, definition, {"canonical": name, "compatible": name}, 0.0, version)
