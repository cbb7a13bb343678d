"""The meta tool `list_servers`: the servers an agent has tools of, with their states; all details of one, if it is
named.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.catalog.describe.servers import own_purpose, tools_purpose, whole_words
from aggregator.domain.text.invisible import visible
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.name_resolution import is_every_server, no_server
from aggregator.gateway.meta.tool import MetaTool, MetaToolCall, meta_record
from aggregator.gateway.views.instructions import no_servers
from aggregator.gateway.views.server_seen import ServerSeen
from aggregator.gateway.views.start_faults import DOCTOR, left_out_sentence
from aggregator.upstream.lifecycle.states import round_duration

# Characters. A server's instructions are untrusted text and take up the model's context.
_LONGEST: Final = 20_000
# Tokens of all lines; names cost an eighth more in cl100k than estimated. Then columns of a purpose in short lines, the
# widest first.
_MOST_TOKENS: Final = 1_150
_WIDTHS: Final = (72, 48, 36, 28, 24, 20, 16, 12, 0)
# So few are named: their subjects alone would say less.
_FEW_TOOLS: Final = 2
_IN_SHORT: Final = "Servers (tools), ready unless it says otherwise; all about one: list_servers with its name."

_RECORD: Final = meta_record("list_servers", "Servers and their state; all about one", {"server": {"type": "string"}})


async def list_servers(asking: MetaToolCall) -> str:
    """Return one line a server: name, state, number of tools, and its purpose: the operator's description, else the
    server's own, else the subjects of its tools. For a named server, its instructions too.

    Raises:
        LoginRequired: the named server is unavailable until this agent has connected an account, with the link.
    """
    finder, view = asking.finder, asking.view
    wanted = asking.arguments.get("server")
    if not wanted or is_every_server(finder, view, wanted):
        tools: dict[str, list[Mapping[str, Any]]] = {}
        for tool in finder.tools(view):
            tools.setdefault(tool.server, []).append(tool.definition)
        lines = [await asyncio.to_thread(lines_of, finder.servers(view), tools)]
        if (progress := finder.meanings.progress) is not None:
            lines.append(f"Found by meaning so far: {progress.found:,} of {progress.tools:,} tools.")
        lines += await _of_host(asking)
        known, left_out = "\n".join(filter(None, lines)), finder.left_out(view)
        if known:
            return "\n".join(filter(None, (known, left_out_sentence(left_out))))
        return asking.first_steps or no_servers(finder.switched_off(view), left_out)
    seen = finder.server_named(view, wanted)
    if seen is None:
        return no_server(finder, view, wanted)
    missing = await asking.resolver.login(view, seen.config.id)
    if missing is not None:
        # As an error, since nothing else may hold a link: it is kept out of the records.
        raise missing
    return "\n".join([*_details(seen, alone=view.open), *await _of_host(asking, seen.config.id)])


async def _of_host(asking: MetaToolCall, server: str | None = None) -> list[str]:
    """Return sentences about what differs in the list of this host, for the model API behind it."""
    if asking.dialects is None or asking.dialect == "original":
        return []
    tools = [tool for tool in asking.finder.tools(asking.view) if server in (None, tool.server)]
    report = await asking.dialects.report(tools, asking.dialect, every=asking.lists_all)
    return [f"{note[0].upper()}{note[1:]}." for note in report.notes()] if report is not None else []


def lines_of(servers: Sequence[ServerSeen], tools: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return a line of each server; of many, short lines. Takes a millisecond a server that has no description."""
    purposes = [_purpose(seen, tools.get(seen.config.id, ())) for seen in servers]
    whole = "\n".join(map(_line, servers, purposes))
    if estimate(whole) <= _MOST_TOKENS:
        return whole
    # A server's own sentence says too little in few words.
    purposes = [
        seen.config.description if _is_described(seen) else tools_purpose(tools.get(seen.config.id, ()), seen.name)
        for seen in servers
    ]
    for width in _WIDTHS:
        lines = (
            _short_line(seen, whole_words(purpose, width)) for seen, purpose in zip(servers, purposes, strict=True)
        )
        text = "\n".join([_IN_SHORT, *lines])
        if estimate(text) <= _MOST_TOKENS:
            break
    return text


def _is_described(seen: ServerSeen) -> bool:
    """Tell whether the operator described the server."""
    return seen.config.description != seen.config.key


def _purpose(seen: ServerSeen, tools: Sequence[Mapping[str, Any]]) -> str:
    if _is_described(seen):
        return seen.config.description
    if seen.config.instructions and (said := own_purpose(seen.instructions)):
        return f"it says: {said}"
    about = tools_purpose(tools, seen.name)
    if len(tools) <= _FEW_TOOLS and about.isascii():
        return ", ".join(visible(tool["name"]) for tool in tools)
    return f"tools for {about}" if about else ""


def _line(seen: ServerSeen, purpose: str) -> str:
    facts = [_state(seen), *(["local"] if seen.config.type == "local" else []), _count(seen.tools, "tool")]
    counted = ((seen.resources, "resource"), (seen.prompts, "prompt"), (seen.skills, "skill"))
    facts += [_count(count, what) for count, what in counted if count]
    line = f"{seen.name} ({', '.join(facts)})"
    return _with_notes(seen, f"{line}: {purpose}" if purpose else line)


def _short_line(seen: ServerSeen, purpose: str) -> str:
    state = "" if seen.state == "ready" else f", {_state(seen)}"
    line = f"{seen.name} ({seen.tools}{state})"
    return _with_notes(seen, f"{line}: {purpose}" if purpose else line)


def _with_notes(seen: ServerSeen, line: str) -> str:
    amiss = [seen.health.problem() if seen.state == "ready" else seen.reason]
    amiss += [f"{seen.name} does not start here: {fault}; {DOCTOR}"] if (fault := seen.start_fault) else []
    amiss += [f"calls go to {' and '.join(seen.answered_by)}"] if seen.answered_by else []
    amiss += seen.notes
    notes = "; ".join(filter(None, amiss))
    return f"{line} [{notes}]" if notes else line


def _state(seen: ServerSeen) -> str:
    """Return the state. The duration is added only to failing states, so that other lines stay the same."""
    if seen.state not in ("reconnecting", "unavailable"):
        return seen.state
    return f"{seen.state} for {round_duration(time.time() - seen.since)}"


def _details(seen: ServerSeen, *, alone: bool) -> list[str]:
    """Return the lines about one server.

    `alone`: there is one agent only, so that call statistics reveal nothing about other agents.
    """
    lines = [_line(seen, _purpose(seen, ()))]
    if seen.templates:
        lines.append(_count(seen.templates, "resource template"))
    if seen.version is not None:
        lines.append(f"protocol {seen.version}")
    if alone and (lately := seen.health.summary()):
        lines.append(lately)
    if seen.instructions:
        said = seen.instructions
        lines.append("It says of itself:")
        lines.append(said if len(said) <= _LONGEST else f"{said[:_LONGEST]}… ({len(said) - _LONGEST} more characters)")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


TOOL: Final = MetaTool(_RECORD, list_servers)
