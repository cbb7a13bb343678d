"""The tools that a model gets through a host: their number, cost and refusals. This file decides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aggregator.dialects.gateway import DialectReport
from aggregator.dialects.names import Schemas, dialect_of
from aggregator.doctor.finding import CheckFinding, found
from aggregator.hosts.model import HostLimits

_NAMED: Final = 3
# Tokens from which a list is worth a note, and the part of it that must be saved.
_COSTLY: Final = 8_000
_WORTH: Final = 0.5


@dataclass(frozen=True, slots=True)
class ToolsSeen:
    """The list that a host got: `tokens` is its cost for a model, `place` the file that the host was started from.

    `entry` is the name of the aggregator in that file.
    """

    title: str
    agent: str
    names: Sequence[str]
    tokens: int
    place: str | None = None
    entry: str = "aggregator"


@dataclass(frozen=True, slots=True)
class ToolsThere:
    """The tools that the agent may call, from the servers that answer.

    `tokens` is the cost of a list of them all, `search` the cost of the meta tools in their place, `listed` the number
    of tools in the configured list. `dialects` say what is mended and left out for each kind of model API.
    """

    names: Sequence[str]
    tokens: int
    search: int
    listed: int
    dialects: Mapping[Schemas, DialectReport | None] = field(default_factory=dict)


def of_seen(seen: ToolsSeen, there: ToolsThere | None, limits: HostLimits) -> Iterator[CheckFinding]:
    """Yield the tools that a model sees, and the ones that it does not."""
    where = seen.place
    if not seen.names:
        yield found(
            "model_sees_nothing",
            f"{seen.title}, as the agent {seen.agent}, sees no tool.",
            "Mend the errors above; if there are none, see `aggregator policy explain "
            f"{seen.agent}` and `tools` of the servers.",
            where,
        )
        return
    yield found("model_sees", summary(seen, there), None, where)
    if there is not None and there.tokens > _COSTLY and seen.tokens - there.search > _WORTH * seen.tokens:
        yield found(
            "list_costly",
            f"The list costs about {seen.tokens:,} tokens in every conversation; "
            f"with search it would be about {there.search:,}.",
            'Set "expose": "search" in the configuration: a model then finds the other tools when it needs them.',
            where,
        )
    if there is not None and len(seen.names) < there.listed:
        yield found(
            "tools_missing",
            f"{seen.title} gets {len(seen.names)} of {there.listed} tools: the others were not there in time, "
            "or their servers do not start where that host starts them.",
            'See the findings about servers; a slow one is listed at once with "start": "lazy", once it was seen.',
            where,
        )
    yield from _refused(seen, limits)
    report = there.dialects.get(dialect_of({"name": limits.client})) if there is not None else None
    if report is not None:
        yield from _mended(seen, report)


def _mended(seen: ToolsSeen, report: DialectReport) -> Iterator[CheckFinding]:
    for name, why in list(report.left_out.items())[:_NAMED]:
        yield found(
            "host_tool_left_out",
            f"{name} is not listed to {seen.title}: {report.title} takes no form of it ({why}).",
            'Shorten its schema at the server; `"schemas": "original"` under the frontend lists it all the same.',
            seen.place,
        )
    if report.mended:
        first, count = list(report.mended)[:_NAMED], len(report.mended)
        kinds = ", ".join(dict.fromkeys(change for changes in report.mended.values() for change in changes))
        yield found(
            "host_schemas_mended",
            f"{count} definition{'s' if count > 1 else ''} mended for {seen.title}, since {report.title} would "
            f"refuse {'them' if count > 1 else 'it'}: {_some(first)} ({kinds:.400}).",
            'Nothing has to be done. `"schemas": "original"` under the frontend lists them as their servers give them.',
            seen.place,
        )


def _refused(seen: ToolsSeen, limits: HostLimits) -> Iterator[CheckFinding]:
    dotted, long = limits.refused_names(seen.names), limits.long_names(seen.names, seen.entry)
    if dotted:
        yield found(
            "host_refuses_names",
            f"{seen.title} refuses names with a dot, and may hide the whole list: {_some(dotted)}.",
            'Set "names": "compatible" (or take "names" out) under "stdio" or "http" in the configuration, '
            "under the agent in the policies, and leave `--names` out of the host's file. Over HTTP, "
            "`?names=compatible` behind the address in that file does the same.",
            seen.place,
        )
    if long:
        room = (limits.longest or 0) - len(limits.prefix.replace("{}", seen.entry))
        yield found(
            "host_refuses_names",
            f"{seen.title} takes {limits.longest} characters for a name together with its own prefix; "
            f"{_some(long)} {'is' if len(long) == 1 else 'are'} longer.",
            f'Set "name_limit": {max(24, room)} in the configuration, give the server a shorter "prefix", '
            "or call the aggregator by a shorter name in the host's file.",
            seen.place,
        )
    if limits.tools is not None and len(seen.names) > limits.tools:
        yield found(
            "host_tool_limit",
            f"{seen.title} takes {limits.tools} tools at most and is listed {len(seen.names)}: the rest is cut off.",
            'Set "expose": "search" in the configuration; every tool can still be called.',
            seen.place,
        )


def summary(seen: ToolsSeen, there: ToolsThere | None) -> str:
    """Return the line about a model's tools."""
    count = f"{len(seen.names)} tool{'' if len(seen.names) == 1 else 's'}"
    said = f"{seen.title}, as the agent {seen.agent}, sees {count}, about {seen.tokens:,} tokens"
    if there is None:
        return f"{said}."
    if len(there.names) > len(seen.names):
        return f"{said}, and finds {len(there.names)} more with them."
    if there.search < seen.tokens:
        return f"{said}; `expose: search` would make that {there.search:,}."
    return f"{said}; `expose: search` would save nothing."


def of_renamed(names: Sequence[tuple[str, str]]) -> Iterator[CheckFinding]:
    """Yield a note about names that are shortened; each pair is the canonical name and the listed one."""
    if names:
        shown = ", ".join(f"{own} is {listed}" for own, listed in names[:_NAMED])
        yield found(
            "tools_renamed",
            f"{len(names)} names are too long for hosts and are shortened: {shown}.",
            'Give their servers a shorter "prefix", or raise "name_limit" if your host takes longer names; calls '
            "accept every spelling.",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
