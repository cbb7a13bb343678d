"""Skills: the entry of one by its URI, and the directories of skills (SEP-2640).

Law: a listed skill is shown as in the catalog: a server's newer entry counts after its list is read.
"""

import asyncio
import mimetypes
from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError, UpstreamBadAnswer, UpstreamRpcError
from aggregator.domain.freshness import OURS_FOR_ONE, said
from aggregator.domain.missing import RESOURCE_NOT_FOUND, OddSpelling, UnknownDirectory, UnknownSkill
from aggregator.domain.records import ItemRecord
from aggregator.domain.uris.exposed import with_server
from aggregator.domain.uris.links import in_skill
from aggregator.domain.versions import SKILLS
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.next_round import is_complete
from aggregator.gateway.calls.relay import Relay
from aggregator.gateway.hooks import Guards
from aggregator.gateway.reads.held import is_in_held_skill, refuse_held, refuse_unlisted_skill
from aggregator.gateway.reads.permission import ItemPermission
from aggregator.gateway.reads.resource_lookup import ResourceLookup
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.cache_hints import narrowed
from aggregator.gateway.views.views import View
from aggregator.skills.catalog import children, manifest, skill_fault
from aggregator.skills.files import SkillFiles
from aggregator.skills.uris import SKILL_FILE
from aggregator.upstream.list_kinds import declared_extension
from aggregator.upstream.upstream import Upstream
from aggregator.wire.codec import encode_sorted

_GET: Final = "skills/get"
_READ_DIRECTORY: Final = "resources/directory/read"
DIRECTORY: Final = "inode/directory"
# Errors by which servers say that there is no such thing.
_MISSING: Final = frozenset({INVALID_PARAMS, RESOURCE_NOT_FOUND, METHOD_NOT_FOUND})
# Entries of one directory that are read of a server, in so many pages, and that are shown in one.
_MOST: Final = 10_000
_MOST_PAGES: Final = 100
_SHOWN: Final = 1_000


class Skills:
    """The methods of the extension that query a server; lists are in `HostLists`."""

    def __init__(
        self,
        lookup: ResourceLookup,
        startup: StartupWait,
        agent_items: AgentItems,
        permission: ItemPermission,
        relay: Relay,
        files: SkillFiles,
        slices: Slices,
    ) -> None:
        self._lookup = lookup
        self._startup = startup
        self._agent_items = agent_items
        self._permission = permission
        self._relay = relay
        self._files = files
        self._slices = slices

    async def get(self, request: Request) -> dict[str, Any]:
        """Return the result of `skills/get`: the current entry of the skill's server.

        Raises:
            UnknownSkill, ItemRefused: there is none for this agent.
            ItemHeld: it waits for an approval.
            OddSpelling: the URI is ambiguous.
            UpstreamRpcError, UpstreamError: the error of its server, or the reason why there is no answer.
        """
        view, uri = self._agent_items.view(request), request.text("uri")
        found = await self._find(view, uri)
        request.about(found.upstream.config.id, found.own)
        guards = await self._permission.without_asking(found, view, request)
        refuse_held(self._agent_items, view, found, uri)
        if self._record(found) is None:
            refuse_unlisted_skill(found, uri)
        questions, params = self._permission.questions(guards, request), {**request.params, "uri": found.own}
        try:
            answer = self._relay.read_item(found, _GET, params, request, questions=questions)
            result = await self._permission.noted(guards, request, answer)
        except UpstreamRpcError as error:
            if error.code in _MISSING:
                raise UnknownSkill(uri) from error
            raise
        if not is_complete(result):
            return result
        entry = await self._checked(found, result.get("skill"))
        listed = await self._listed(found, entry)
        if listed is not None:
            if not view.shows(listed):
                raise UnknownSkill(uri)
            entry = listed.definition
        else:
            # Its list may have been read again meanwhile.
            refuse_held(self._agent_items, view, found, uri)
            self._files.remember(found.upstream.config.id, entry)
        prefix = found.upstream.config.prefix
        result = {**result, "skill": in_skill(prefix, {**entry, "uri": with_server(prefix, entry["uri"])})}
        return {**result, **narrowed(said(result) or OURS_FOR_ONE, view).hints()} if request.modern else result

    async def _find(self, view: View, uri: str) -> ResolvedItem:
        found = self._lookup.skill(view, uri)
        if found is None or view.decide(found.target).hidden:
            # Hidden skills are looked up like absent ones, so that timing does not distinguish them.
            await self._startup.settled(None)
            found = self._lookup.skill(view, uri)
        if found is None or _settings(found.upstream) is None:
            raise UnknownSkill(uri)
        return found

    async def _checked(self, found: ResolvedItem, entry: Any) -> Mapping[str, Any]:
        """Return the entry that a server answered with, if it can be shown.

        Raises:
            UpstreamBadAnswer: it cannot.
        """
        config = found.upstream.config
        if not isinstance(entry, dict) or entry.get("uri") != found.own:
            raise UpstreamBadAnswer(config.id, f"{config.id} answered `{_GET}` with another skill, or none.")
        keeps = config.invisible_characters == "keep"
        fault = skill_fault(entry, keeps_unseen=keeps)
        redacted = await asyncio.to_thread(found.upstream.redaction.definitions, [entry])
        if fault is None and redacted[0] is not entry:
            fault = "it holds a secret"
        if fault is not None:
            raise UpstreamBadAnswer(
                config.id, f"{config.id} answered `{_GET}` with an entry that is not used: {fault}."
            )
        return entry

    async def _listed(self, found: ResolvedItem, entry: Mapping[str, Any]) -> ItemRecord | None:
        """Return the skill as the catalog has it, once that is as new as `entry`; None for one that is in no list."""
        record = self._record(found)
        if record is None or _content(record.definition) == _content(entry):
            return record
        await found.upstream.read_skills_again()
        return self._record(found)

    def _record(self, found: ResolvedItem) -> ItemRecord | None:
        around = self._agent_items.all.skills_around(found.upstream.config.id, found.own)
        return next((record for record in around if record.own_name == found.own), None)

    # -- directories

    async def read_directory(self, request: Request) -> dict[str, Any]:
        """Return the result of `resources/directory/read`: the part of a directory that the agent may read.

        Raises:
            UnknownDirectory, ItemRefused: there is none for this agent.
            ItemHeld: its skill waits for an approval.
            OddSpelling: the URI is ambiguous.
            UpstreamRpcError, UpstreamError: the error of its server, or the reason why there is no answer.
        """
        view, uri = self._agent_items.view(request), request.text("uri")
        cursor = request.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise HostError(INVALID_PARAMS, "`cursor` must be a string.")
        found = self._lookup.directory(view, uri)
        if found is None or view.decide(found.target).hidden:
            await self._startup.settled(None)
            found = self._lookup.directory(view, uri)
        if found is None or view.decide(found.target).hidden:
            raise UnknownDirectory(uri)
        own = found.own.removesuffix("/")
        request.about(found.upstream.config.id, own)
        self._permission.check(found, view)
        refuse_held(self._agent_items, view, found, uri)
        settings = _settings(found.upstream)
        if settings is not None and settings.get("directoryRead") is True:
            guards = await self._permission.without_asking(found, view, request)
            held = await self._asked(found, own, request, guards)
        else:
            held = self._known(found, own, view)
        seen = await self._slices.run(self._visible(found, own, view, held))
        if not seen and not held:
            return {"resources": []}
        start = next((at + 1 for at, one in enumerate(seen) if one["uri"] == cursor), None) if cursor else 0
        if start is None:
            raise HostError(INVALID_PARAMS, "That cursor is not valid (any more); read the directory from the start.")
        shown = seen[start : start + _SHOWN]
        more = start + _SHOWN < len(seen)
        return {"resources": shown, **({"nextCursor": shown[-1]["uri"]} if more else {})}

    async def _asked(self, found: ResolvedItem, own: str, request: Request, guards: Guards) -> list[dict[str, Any]]:
        """Return a server's listing of a directory."""
        server = found.upstream.config.id
        params: dict[str, Any] = {key: value for key, value in request.params.items() if key != "cursor"}
        params["uri"] = own
        held: list[Any] = []
        cursors: set[str] = set()
        questions = self._permission.questions(guards, request)
        while True:
            try:
                answer = self._relay.read_item(found, _READ_DIRECTORY, params, request, questions=questions)
                result = await self._permission.noted(guards, request, answer)
            except UpstreamRpcError as error:
                if error.code in _MISSING:
                    raise UnknownDirectory(request.text("uri")) from error
                raise
            part, cursor = result.get("resources"), result.get("nextCursor")
            if not isinstance(part, list):
                raise UpstreamBadAnswer(server, f"{server} answered `{_READ_DIRECTORY}` without resources.")
            held += part
            if cursor is None:
                break
            if not isinstance(cursor, str) or cursor in cursors:
                raise UpstreamBadAnswer(server, f"{server} pages in circles in `{_READ_DIRECTORY}`.")
            cursors.add(cursor)
            if len(held) > _MOST or len(cursors) >= _MOST_PAGES:
                raise UpstreamBadAnswer(server, f"{server} lists more than is taken of one directory.")
            params = {**params, "cursor": cursor}
        redaction = found.upstream.redaction
        return list(redaction.definitions(redaction.visible(held, "its directories"), named=False))

    def _known(self, found: ResolvedItem, own: str, view: View) -> list[dict[str, Any]]:
        """Return the content of a directory by the entries of the listed skills around it.

        Raises:
            UnknownDirectory: it is in none.
        """
        for record in self._agent_items.of(view).skills_around(found.upstream.config.id, f"{own}/"):
            inside = children(record.definition, own)
            if inside:
                return [
                    {"uri": one.uri, "name": one.name, **_kind(one.name, is_directory=one.is_directory)}
                    for one in inside
                ]
        raise UnknownDirectory(found.requested)

    def _visible(
        self, found: ResolvedItem, own: str, view: View, held: list[dict[str, Any]]
    ) -> Steps[list[dict[str, Any]]]:
        """Return the part of a directory that the agent may read, under the URIs to read it by, one in a step."""
        seen: list[dict[str, Any]] = []
        prefix = found.upstream.config.prefix
        for one in held:
            yield
            uri = one.get("uri") if isinstance(one, dict) else None
            if not isinstance(uri, str) or not uri.startswith(f"{own}/"):
                continue
            inside = self._lookup.inside if one.get("mimeType") == DIRECTORY else self._lookup.item
            try:
                child = inside(view, found.upstream, uri, uri)
            except OddSpelling:
                continue
            if view.decide(child.target).visible and not is_in_held_skill(self._agent_items, child):
                seen.append({**one, "uri": with_server(prefix, uri)})
        return seen


def _content(entry: Mapping[str, Any]) -> tuple[bytes, object]:
    """Return what of an entry decides which skill a host loads."""
    return encode_sorted(entry["frontmatter"]), manifest(entry)


def _settings(upstream: Upstream) -> Mapping[str, Any] | None:
    """Return a server's declaration of skills; while it is disconnected, only that it has them."""
    if upstream.negotiated is None:
        return {}
    return declared_extension(upstream.negotiated.capabilities, SKILLS)


def _kind(name: str, *, is_directory: bool) -> dict[str, str]:
    if is_directory:
        return {"mimeType": DIRECTORY}
    kind = "text/markdown" if name == SKILL_FILE else mimetypes.guess_type(name)[0]
    return {"mimeType": kind} if kind is not None else {}
