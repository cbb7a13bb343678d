"""Pinned definitions: what servers changed since it was approved, the difference, and the approval."""

import asyncio
import json
import time
from collections.abc import Sequence
from hashlib import sha256
from shlex import quote
from typing import Any, Final, cast

from aggregator.catalog.definition_diff import LARGEST, DefinitionDiff, definition_diff
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import bounded, link, pin_link, pretty
from aggregator.frontends.console.view import (
    BadInput,
    ChangedMeanwhile,
    ConsoleRequest,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.storage.records import PinRow

_NAME: Final = 300
_DEFINITION: Final = 24_000
# Items that are listed of one server.
_ITEMS: Final = 500
_REMOVED: Final = "removed"
_ITEM_FIELDS: Final = {
    "kind": "`tool`, `prompt`, `template`, `skill` or `instructions`.",
    "item": "The own name of the item; empty for instructions.",
}

Rows = list[PinRow]


class PinsPage:
    """The pins of all servers, of one, and of one item; approvals of what servers have now."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        shown = {"digest": "The digest of what was looked at, as the page has it."}
        every = {"every": "In place of one item, all that the server changed: the digest of all, as the page has it."}
        approve = {**_ITEM_FIELDS, **shown, **every}
        return [
            PageRoute("GET", "/pins", "viewer", self.list, "What servers changed since it was approved"),
            PageRoute(
                "GET", "/pins/{name}/item", "viewer", self.item, "One definition and its change", fields=_ITEM_FIELDS
            ),
            PageRoute("GET", "/pins/{name}", "viewer", self.show, "The pinned definitions of a server"),
            PageRoute("POST", "/pins/{name}/approve", "operator", self.approve, "Approve a change", fields=approve),
            PageRoute("POST", "/pins/{name}/reset", "operator", self.reset, "Forget the pins of a server"),
        ]

    async def list(self, request: ConsoleRequest) -> PageView:
        """Return the servers, those with held definitions first."""
        rows: dict[str, Rows] = {server: [] for server in self._parts.upstreams}
        for row in await (await self._parts.opened()).pins.all(texts=False):
            rows.setdefault(row.server, []).append(row)
        servers = [self._server(server, found) for server, found in rows.items()]
        servers.sort(key=lambda one: (-one["held"], -one["changed"], one["id"]))
        problem = self._parts.pins.problem if self._parts.pins is not None else None
        data = {"servers": servers, "problem": problem or "", "pinning": self._parts.pins is not None}
        return PageView("pins.html", "Pins", data)

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the definitions of one server, those that are held first.

        Raises:
            NotThere: there is no such server.
        """
        server, rows = await self._rows(request)
        rows.sort(key=lambda row: (not row.held, not _is_changed(row), row.kind, row.name))
        data = {
            **self._server(server, rows),
            "items": [_listed(server, row) for row in rows[:_ITEMS]],
            "left_out": max(0, len(rows) - _ITEMS),
            "every": _digest_of(rows),
            "waiting_items": sum(row.seen_digest is not None for row in rows),
            "may_act": request.person.may("operator"),
        }
        return PageView("pin_server.html", f"Pins of {server[:_NAME]}", data)

    async def item(self, request: ConsoleRequest) -> PageView:
        """Return one definition: what was approved, what is there now, and the difference.

        Raises:
            NotThere: there is no such server, or it has no such item.
        """
        server, rows = await self._rows(request, texts=True)
        kind, name = request.query.get("kind", ""), request.query.get("item", "")
        row = _found(rows, kind, name)
        # A renamed item is compared with what was approved under its old name.
        old = next((one for one in rows if (one.kind, one.name) == (row.kind, row.renamed_from)), row)
        texts = row.definition or old.definition, row.seen_definition
        difference, problem = await asyncio.to_thread(_difference, row.kind, *texts)
        data = {
            **_listed(server, row),
            "server": server,
            "server_href": link("pins", server),
            "locked": self._is_locked(server),
            "command": f"aggregator pins approve {server} {quote(name)}".rstrip(),
            "approved_by": bounded(row.approved_by or "", _NAME),
            "digest": row.seen_digest or "",
            "pinned_digest": row.digest or "",
            "problem": problem,
            "compared": difference is not None,
            "description": _parts_of(difference.description) if difference is not None else [],
            "lines": _parts_of(difference.lines) if difference is not None else [],
            "definition": await asyncio.to_thread(_shown, texts[1] or texts[0]),
            "may_act": request.person.may("operator"),
        }
        return PageView("pin_item.html", f"{name[:80] or row.kind} of {server[:80]}", data)

    async def approve(self, request: ConsoleRequest) -> Redirect:
        """Pin what a server has now: of one item, or of all.

        Raises:
            BadInput: no digest was sent.
            ChangedMeanwhile: the server has something else by now, or a lock file says what is pinned.
            NotThere: there is no such server, or it has no such item.
        """
        server, rows = await self._rows(request)
        self._refuse_locked(server)
        digest, every = request.form.get("digest", ""), request.form.get("every", "")
        if every:
            if every != _digest_of(rows):
                raise ChangedMeanwhile("The server has other changes by now. Nothing was done: load the page again.")
            chosen = [row for row in rows if row.seen_digest is not None]
        elif digest:
            chosen = [_found(rows, request.form.get("kind", ""), request.form.get("item", ""))]
        else:
            raise BadInput("digest", "Send the digest that the page showed.")
        pins, by = (await self._parts.opened()).pins, request.person.name
        done: Rows = []
        for row in chosen:
            shown = row.seen_digest if every else digest
            if await pins.approve(server, row.kind, row.name, shown, by, time.time()):
                done.append(row)
                self._record(server, row, by)
        self._look_now()
        if not done:
            raise ChangedMeanwhile("The server has something else by now, or it was approved meanwhile.")
        return Redirect(link("pins", server))

    async def reset(self, request: ConsoleRequest) -> Redirect:
        """Forget the pins of a server.

        Raises:
            ChangedMeanwhile: a lock file says what is pinned.
            NotThere: there is no such server.
        """
        server, _ = await self._rows(request)
        self._refuse_locked(server)
        count = await (await self._parts.opened()).pins.reset(server)
        said = f"{request.person.name} reset the pins of {server}: its next lists are the baseline"
        details = {"what": "reset", "items": count, "by": request.person.name}
        self._parts.record("pins", said, server=server, details=details)
        self._look_now()
        return Redirect(link("pins", server))

    def _record(self, server: str, row: PinRow, by: str) -> None:
        item = f"{row.kind} {row.name!r:.80}" if row.name else f"the {row.kind}"
        details = {
            "what": "approved",
            "kind": row.kind,
            "item": row.name,
            "digest": row.seen_digest,
            "pinned": row.digest,
            "classes": list(row.classes),
            "by": by,
        }
        self._parts.record("pins", f"{by} approved {item} of {server}", server=server, details=details)

    def _look_now(self) -> None:
        if self._parts.pins is not None:
            self._parts.pins.look_now()

    def _is_locked(self, server: str) -> bool:
        return self._parts.pins is not None and self._parts.pins.is_locked(server)

    def _refuse_locked(self, server: str) -> None:
        if self._is_locked(server):
            raise ChangedMeanwhile(
                f"The lock file says what is pinned of {server}: run `aggregator pins approve {server}` where it is "
                "kept, and commit it. Nothing was done."
            )

    async def _rows(self, request: ConsoleRequest, *, texts: bool = False) -> tuple[str, Rows]:
        server = request.path["name"]
        rows = await (await self._parts.opened()).pins.all(server, texts=texts)
        if server not in self._parts.upstreams and not rows:
            raise NotThere(f"There is no server {server[:_NAME]!r} in the configuration, and none was pinned.")
        return server, rows

    def _server(self, server: str, rows: Sequence[PinRow]) -> dict[str, Any]:
        upstream = self._parts.upstreams.get(server)
        return {
            "id": server,
            "href": link("pins", server),
            "configured": upstream is not None,
            "server_href": link("servers", server) if upstream is not None else "",
            "trust": upstream.config.trust if upstream is not None else "",
            "pinned": sum(row.digest is not None for row in rows),
            "held": sum(row.held for row in rows),
            "changed": sum(map(_is_changed, rows)),
            "locked": self._is_locked(server),
        }


def _is_changed(row: PinRow) -> bool:
    return row.seen_digest is not None or _REMOVED in row.classes


def _found(rows: Sequence[PinRow], kind: str, name: str) -> PinRow:
    for row in rows:
        if (row.kind, row.name) == (kind, name):
            return row
    raise NotThere(f"Nothing is known of {kind[:20] or 'an item'} {name[:_NAME]!r} of this server.")


def _digest_of(rows: Sequence[PinRow]) -> str:
    """Return one digest of all that a server changed, so that an approval of all is of what was shown."""
    waiting = sorted((row.kind, row.name, row.seen_digest) for row in rows if row.seen_digest is not None)
    return sha256(json.dumps(waiting).encode()).hexdigest() if waiting else ""


def _listed(server: str, row: PinRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "name": bounded(row.name, _NAME),
        "own_name": row.name,
        "href": pin_link(server, row.kind, row.name),
        "held": row.held,
        "changed": _is_changed(row),
        "gone": _REMOVED in row.classes,
        "new": row.digest is None,
        "classes": list(row.classes),
        "flags": list(row.flags),
        "renamed_from": bounded(row.renamed_from or "", _NAME),
        "approved": row.approved,
        "seen": row.seen,
    }


def _difference(kind: str, before: str | None, after: str | None) -> tuple[DefinitionDiff | None, str]:
    """Return the difference of two definitions, or why there is none. It may take long: call it in a thread."""
    if before is None or after is None:
        return None, ""
    if max(len(before), len(after)) > LARGEST:
        return None, f"One of them has more than {LARGEST // 1024} KiB: they are not compared."
    if kind == "instructions":
        before, after = (json.dumps({"description": json.loads(text)}) for text in (before, after))
    try:
        return definition_diff(before, after), ""
    except ValueError as error:
        return None, f"They cannot be compared: {error}."


def _shown(text: str | None) -> str:
    """Return a definition on several lines, bounded."""
    if text is None:
        return ""
    value = json.loads(text)
    return bounded(value, _DEFINITION) if isinstance(value, str) else pretty(value, _DEFINITION)


def _parts_of(parts: Sequence[Any]) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], [{"kind": one.kind, "texts": [*one.texts], "count": one.count} for one in parts])
