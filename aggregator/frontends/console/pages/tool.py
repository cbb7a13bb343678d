"""One tool: what models are shown of it, its schema, who may call it, its earlier definitions, and a form to try it."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.catalog.definition_diff import LARGEST, DefinitionDiff, definition_diff
from aggregator.catalog.describe.compact_schema import examples
from aggregator.catalog.describe.parameters import parameters
from aggregator.catalog.pages import render
from aggregator.dialects.gateway import Dialects, in_dialect
from aggregator.dialects.mend.apis import APIS
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.error_text import error_text
from aggregator.domain.text.tokens import estimate
from aggregator.frontends.console.foreign_words import server_reason
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.schema_form import FormFault, FormField, form_fields, read_form, read_json, sample
from aggregator.frontends.console.tool_data import (
    bounded,
    call_line,
    chosen_agent,
    link,
    offered_agents,
    pin_link,
    pretty,
    view_of,
)
from aggregator.frontends.console.trial import Trial, Trials
from aggregator.frontends.console.view import (
    BadInput,
    ChangedMeanwhile,
    ConsoleRequest,
    NotPossible,
    NotThere,
    PageRoute,
    PageView,
    SignedIn,
)
from aggregator.gateway.browse import LEVELS, HeldTool, MayCall
from aggregator.gateway.views.views import View as AgentView
from aggregator.pins.console.data import item_data
from aggregator.storage.records import VersionSeen
from aggregator.tool_reports.console import of_tool

# Characters of a text for models, of a schema, of a description, of an example.
_TEXT: Final = 12_000
_SCHEMA: Final = 24_000
_DESCRIPTION: Final = 4_000
_EXAMPLE: Final = 4_000
_NAME: Final = 300
_PARAMETERS: Final = 60
_ABOUT: Final = 160
# Agents that are named, and definitions that are listed.
_AGENTS: Final = 60
_VERSIONS: Final = 100


class ToolPage:
    """One tool, and calls of it by a user."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._browser = parts.browser
        self._trials = Trials(parts)

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        view_fields = {"as": "the agent that it is shown to and tried as; empty for none"}
        return [
            PageRoute(
                "GET",
                "/tools/{name:path}/versions",
                "viewer",
                self.versions,
                "Every definition that a tool has or had, and the difference of two",
                fields={"a": "digest of the older one", "b": "digest of the newer one"},
            ),
            PageRoute(
                "GET", "/tools/{name:path}", "viewer", self.show, "One tool as models see it", fields=view_fields
            ),
            PageRoute(
                "POST",
                "/tools/{name:path}/try",
                "operator",
                self.attempt,
                "Call a tool as an agent, through the policy and on record",
                fields={
                    "as": "the agent to call it as",
                    "arguments": "the arguments, a JSON object",
                    "version": "the definition that the form was made of, if it was",
                },
            ),
        ]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page of one tool."""
        principal = chosen_agent(self._parts, request, request.query)
        own = self._browser.meta_tool(request.path["name"])
        if own is not None:
            return PageView("own_tool.html", own.name, _own_tool(own, offered_agents(self._parts)))
        found = await self._found(request, principal)
        if isinstance(found, HeldTool):
            data = await self._held_data(found, request, principal)
            return PageView("tool_held.html", f"{found.tool.name[:_NAME]}, held", data)
        tool, view = found
        data = await self._data(request.person, tool, view, principal, {}, None)
        return PageView("tool.html", tool.name[:_NAME], data)

    async def attempt(self, request: ConsoleRequest) -> PageView:
        """Make a call and return its result."""
        principal = chosen_agent(self._parts, request, request.form)
        if principal is None:
            raise BadInput("as", "Choose the agent that the call is made as.")
        name, view = request.path["name"], view_of(self._parts, None)
        tool = await self._browser.find(view, name)
        if tool is None and (held := self._browser.held(name)) is not None:
            raise NotPossible(f"{held.tool.name[:_NAME]} is held: {held.why.why}. Nothing was called.")
        if tool is None and "arguments" not in request.form:
            raise await self._missing(view, name, request.person)
        version = request.form.get("version", "")
        if tool is not None and version not in ("", tool.version):
            raise ChangedMeanwhile("The definition of this tool has changed: load the page again. Nothing was called.")
        server = tool.server if tool is not None else None
        try:
            arguments = await self._arguments(request, tool)
            trial = await self._trials.run(request.person, principal, name, server, arguments)
        except FormFault as fault:
            if request.as_json:
                raise BadInput(fault.name, str(fault)) from fault
            trial = Trial.refused(str(fault))
        title = name[:_NAME]
        if tool is None or request.as_json or request.fragment:
            tried = {"name": title, "tried": trial.as_data()}
            return PageView("tried.html", title, tried, fragment="_tried.html")
        data = await self._data(request.person, tool, view, principal, request.form, trial)
        return PageView("tool.html", title, data, 400 if trial.fault else 200)

    async def _arguments(self, request: ConsoleRequest, tool: ToolRecord | None) -> dict[str, Any]:
        if tool is None or "arguments" in request.form:
            given = await asyncio.to_thread(read_json, "arguments", request.form.get("arguments") or "{}")
            if not isinstance(given, dict):
                raise FormFault("arguments", "The arguments are a JSON object.")
            return given
        fields = await asyncio.to_thread(form_fields, tool.definition["inputSchema"])
        return await asyncio.to_thread(read_form, fields, request.form)

    async def _found(
        self, request: ConsoleRequest, principal: Principal | None
    ) -> tuple[ToolRecord, AgentView] | HeldTool:
        name, view = request.path["name"], view_of(self._parts, principal)
        tool = await self._browser.find(view, name)
        if tool is not None:
            return tool, view
        held = self._browser.held(name)
        if held is not None:
            return held
        if principal is not None and await self._browser.find(view_of(self._parts, None), name) is not None:
            raise NotThere(f"{principal.agent_id} does not see {name[:_NAME]}.", {"As it is": link("tools", name)})
        raise await self._missing(view, name, request.person)

    async def _held_data(self, held: HeldTool, request: ConsoleRequest, principal: Principal | None) -> dict[str, Any]:
        """Return the data of a tool that waits for an approval: why, what changed, and who could call it then.

        Raises:
            ChangedMeanwhile: it was approved a moment ago.
        """
        tool, server = held.tool, held.tool.server
        rows = await (await self._parts.opened()).pins.all(server)
        changed = await item_data(self._parts, request.person, server, rows, "tool", tool.own_name)
        if changed is None:
            raise ChangedMeanwhile(f"{tool.name[:_NAME]} was approved a moment ago: load the page again.")
        may = await self._browser.who_may(tool)
        allowed = [one for one in may if one.decision.visible]
        return {
            **changed,
            "tool": tool.name[:_NAME],
            "why": held.why.why,
            "approved": held.why.approved,
            "pin_href": pin_link(server, "tool", tool.own_name),
            "reports": await of_tool(self._parts, server, tool.own_name, request.person),
            "versions_href": link("tools", tool.name).rstrip("/") + "/versions",
            "of_server": link("servers", server),
            "agent": principal.agent_id if principal is not None else "",
            "seen_by_agent": principal is None or view_of(self._parts, principal).ruling(tool).decision.visible,
            **_who_may(tool, allowed, may),
            "open": self._is_open(),
        }

    def _is_open(self) -> bool:
        return self._parts.policies is None or self._parts.policies.rulebook is None

    async def _missing(self, view: AgentView, name: str, person: SignedIn) -> NotThere:
        """Return that there is no such tool now, with the state of its server, or names like it."""
        said = f"There is no tool {name[:_NAME]!r} now."
        prefix = name.partition(".")[0]
        upstream = next((one for one in self._parts.upstreams.values() if one.config.prefix == prefix), None)
        if upstream is not None and upstream.away:
            server = upstream.config.id
            reason = server_reason(upstream, values=person.may("approver"))
            why = f": {reason[:_NAME]}" if reason else ""
            see = {f"The server {server}": link("servers", server)}
            see |= {"Connections": "/connections"} if upstream.needs_account else {}
            return NotThere(f"{said} {server} is {upstream.state}{why}.", see)
        near = await self._browser.nearest(view, name)
        see = {one[:_NAME]: link("tools", one) for one in near}
        return NotThere(f"{said} Names like it: {', '.join(near)}." if near else said, see)

    async def _data(
        self,
        person: SignedIn,
        tool: ToolRecord,
        view: AgentView,
        principal: Principal | None,
        filled_in: Mapping[str, str],
        trial: Trial | None,
    ) -> dict[str, Any]:
        agent = principal.agent_id if principal is not None else ""
        levels = [(await self._browser.described(view, (tool,), level))[0] for level in LEVELS]
        may, fields = (
            await self._browser.who_may(tool),
            await asyncio.to_thread(form_fields, tool.definition["inputSchema"]),
        )
        upstream = self._parts.upstreams[tool.server]
        allowed = [one for one in may if one.decision.visible]
        pins = self._parts.pins
        waiting = pins.waiting_item(tool.server, "tool", tool.own_name) if pins is not None else None
        return {
            "waits": waiting.why if waiting is not None else "",
            "takes_less": waiting is not None and waiting.takes_less,
            "name": tool.name[:_NAME],
            "href": link("tools", tool.name),
            "own_name": tool.own_name[:_NAME],
            "server": tool.server,
            "server_href": link("servers", tool.server),
            "sent_as": tool.sent_as[:_NAME] if tool.sent_as != tool.own_name else "",
            "pin_href": pin_link(tool.server, "tool", tool.sent_as),
            "reports": await of_tool(self._parts, tool.server, tool.own_name, person),
            "server_state": upstream.state,
            "source": self._browser.source(tool),
            "version": tool.version,
            "agent": agent,
            "agents": offered_agents(self._parts),
            "annotations": {
                name[:80]: str(value)[:80] for name, value in self._browser.annotations(view, tool).items()
            },
            "dialects": await asyncio.to_thread(_in_dialects, self._parts.gateway.dialects, tool),
            "levels": [
                {
                    "level": one.level,
                    "text": bounded(one.text, _TEXT) if one.text is not None else None,
                    "tokens": one.tokens,
                }
                for one in levels
            ],
            **await asyncio.to_thread(_of_definition, tool, fields, agent or None),
            **_who_may(tool, allowed, may),
            "open": self._is_open(),
            "form": [one.as_data(filled_in) for one in fields],
            "written": bounded(filled_in.get("arguments", ""), _EXAMPLE),
            "tried": trial.as_data() if trial is not None else None,
        }

    # -- definitions over time

    async def versions(self, request: ConsoleRequest) -> PageView:
        """Return the page with the definitions of one tool."""
        name = request.path["name"]
        tool = await self._browser.find(view_of(self._parts, None), name)
        held = self._browser.held(name) if tool is None else None
        known = held.tool if held is not None else tool
        server, own_name = (known.server, known.own_name) if known is not None else self._once(name)
        catalogs = (await self._parts.opened()).catalogs
        kept = await catalogs.history(server, own_name, _VERSIONS)
        if known is None and not kept:
            raise NotThere(f"There is no tool {name[:_NAME]!r}, and none was seen before.")
        older, newer = _chosen(request, "a", kept, 1), _chosen(request, "b", kept, 0)
        difference: DefinitionDiff | None = None
        problem = ""
        if older is not None and newer is not None and older.digest != newer.digest:
            texts = [await catalogs.definition(server, own_name, one.digest, LARGEST) for one in (older, newer)]
            if texts[0] is None or texts[1] is None:
                problem = f"One of them has more than {LARGEST // 1024} KiB: they are not compared."
            else:
                try:
                    difference = await asyncio.to_thread(definition_diff, texts[0], texts[1])
                except ValueError as error:
                    problem = f"They cannot be compared: {error_text(error)}."
        data = {
            "name": name[:_NAME],
            "href": link("tools", name),
            "server": server,
            "there": tool is not None,
            "held": held.why.why if held is not None else "",
            "current": known.version if known is not None else "",
            "versions": [
                {"digest": one.digest, "first_seen": one.first_seen, "last_seen": one.last_seen, "size": one.size}
                for one in kept
            ],
            "a": older.digest if older is not None else "",
            "b": newer.digest if newer is not None else "",
            "problem": problem,
            "compared": difference is not None,
            "description": _parts_of(difference.description) if difference is not None else [],
            "lines": _parts_of(difference.lines) if difference is not None else [],
        }
        return PageView("tool_versions.html", f"Definitions of {name[:_NAME]}", data)

    def _once(self, name: str) -> tuple[str, str]:
        """Return the server and the own name that a canonical name says, for a tool that is not there now."""
        prefix, _, own_name = name.partition(".")
        upstream = next((one for one in self._parts.upstreams.values() if one.config.prefix == prefix), None)
        if upstream is not None and own_name:
            return upstream.config.id, own_name
        plain = next((one for one in self._parts.upstreams.values() if not one.config.prefix), None)
        if plain is None:
            raise NotThere(f"There is no tool {name[:_NAME]!r}, and no server that it could be of.")
        return plain.config.id, name


def _chosen(request: ConsoleRequest, field: str, kept: Sequence[VersionSeen], usual: int) -> VersionSeen | None:
    digest = request.query.get(field, "")
    if not digest:
        return kept[usual] if usual < len(kept) else None
    found = next((one for one in kept if one.digest == digest), None)
    if found is None:
        raise BadInput(field, "No definition of this tool has that digest; choose one of the list.")
    return found


def _who_may(tool: ToolRecord, allowed: Sequence[MayCall], all_agents: Sequence[MayCall]) -> dict[str, Any]:
    return {
        "full_name": tool.name,
        "may": [
            {
                "agent": one.agent,
                "href": link("agents", one.agent),
                "verdict": one.decision.verdict,
                "reason": one.decision.reason[:_NAME],
                "source": one.decision.source,
            }
            for one in allowed[:_AGENTS]
        ],
        "may_count": len(allowed),
        "agent_count": len(all_agents),
    }


def _parts_of(parts: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"kind": one.kind, "texts": list(one.texts), "count": one.count} for one in parts]


def _own_tool(tool: ToolRecord, agents: list[str]) -> dict[str, Any]:
    """Return the data of a tool of the aggregator itself, whose definition is ours and small."""
    listed = render(tool, "canonical").decode()
    return {
        "name": tool.name,
        "href": link("tools", tool.name),
        "description": tool.definition["description"],
        "listed": listed,
        "tokens": estimate(listed),
        "schema": pretty(tool.definition["inputSchema"], _SCHEMA),
        "agents": agents,
        "tried": None,
    }


def _in_dialects(dialects: Dialects | None, tool: ToolRecord) -> list[dict[str, Any]]:
    """Return the mends of a tool for each model API, and the reason if an API does not get the tool."""
    found = []
    for api in APIS.values() if dialects is not None else ():
        mended = in_dialect(tool, api)
        found.append(
            {"dialect": api.name, "title": api.title, "changes": list(mended.changes), "left_out": mended.reason}
        )
    return found


def _of_definition(tool: ToolRecord, fields: tuple[FormField, ...], agent: str | None) -> dict[str, Any]:
    """Return the data of the definition, bounded; run in a thread, since a definition may be large."""
    definition = tool.definition
    schema = definition["inputSchema"]
    said = definition.get("description")
    shown: list[dict[str, Any]] = []
    try:
        for one in parameters(schema, _ABOUT):
            if len(shown) == _PARAMETERS:
                break
            shown.append(
                {
                    "name": one.name,
                    "kind": one.kind,
                    "required": one.required,
                    "default": one.default.removeprefix("="),
                    "about": one.about,
                }
            )
        given = examples(schema)
    except RecursionError:
        given = []
    example = given[0] if given else sample(fields)
    written = json.dumps(example, ensure_ascii=False)
    if len(written) > _EXAMPLE:
        example, written = {}, "{}"
    title = definition.get("title")
    return {
        "said_title": bounded(title, _NAME) if isinstance(title, str) else "",
        "description": bounded(said, _DESCRIPTION) if isinstance(said, str) else "",
        "schema": pretty(schema, _SCHEMA),
        "output_schema": pretty(definition["outputSchema"], _SCHEMA) if "outputSchema" in definition else "",
        "parameters": shown,
        "example": written,
        "example_is_given": bool(given),
        "call_line": call_line(tool.name[:_NAME], example, agent),
        "at": time.time(),
    }
