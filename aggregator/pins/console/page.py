"""Pinned definitions: what servers changed since it was approved, the difference, and the approval."""

import json
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import link
from aggregator.frontends.console.view import (
    BadInput,
    ChangedMeanwhile,
    ConsoleRequest,
    NotPossible,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.gateway.views.start_faults import left_out_sentence
from aggregator.pins.console.data import NAME, Rows, held_of, is_changed, is_held, item_data, listed, unremembered
from aggregator.pins.decide.upgrade import OpenCounts, between
from aggregator.pins.gateway.state import HeldItem
from aggregator.storage.records import PinRow

# Items that are listed of one server.
_ITEMS: Final = 500
_ITEM_FIELDS: Final = {
    "kind": "`tool`, `prompt`, `template`, `skill` or `instructions`.",
    "item": "The own name of the item; empty for instructions.",
}


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
        servers.sort(key=lambda one: (-one["held"], -one["waits"], -one["changed"], one["id"]))
        problem = self._parts.pins.problem if self._parts.pins is not None else None
        data = {
            "servers": servers,
            "problem": problem or "",
            "pinning": self._parts.pins is not None,
            "left_out": left_out_sentence(self._parts.config().left_out),
        }
        return PageView("pins.html", "Pins", data)

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the definitions of one server, held ones first.

        Raises:
            NotThere: there is no such server.
        """
        server, rows = await self._rows(request)
        held, known = held_of(self._parts, server), {(row.kind, row.name) for row in rows}
        rows.sort(key=lambda row: (not _is_held(row, held), not row.held, not is_changed(row), row.kind, row.name))
        unknown = [listed(server, unremembered(server, *key), one) for key, one in held.items() if key not in known]
        data = {
            **self._server(server, rows),
            "items": [*unknown, *(listed(server, row, held.get((row.kind, row.name))) for row in rows)][:_ITEMS],
            "left_out": max(0, len(unknown) + len(rows) - _ITEMS),
            "said": await self._upgrade(server, rows),
            "every": _digest_of(rows),
            "waiting_items": sum(row.seen_digest is not None for row in rows),
            "may_act": request.person.may("operator"),
        }
        return PageView("pin_server.html", f"Pins of {server[:NAME]}", data)

    async def _upgrade(self, server: str, rows: Rows) -> str:
        """Return a sentence about all that waits of a server, with its versions; empty if nothing does."""
        waiting = [row.classes for row in rows if row.held]
        if not waiting:
            return ""
        versions = (await (await self._parts.opened()).pins.versions()).get(server, ("", ""))
        return f"{server} {between(*versions)}".rstrip() + f": {OpenCounts.of(waiting).words()}."

    async def item(self, request: ConsoleRequest) -> PageView:
        """Return one definition: the approved one, the current one, and their difference.

        Raises:
            NotThere: there is no such server, or it has no such item.
        """
        server, rows = await self._rows(request, texts=True)
        kind, name = request.query.get("kind", ""), request.query.get("item", "")
        data = await item_data(self._parts, request.person, server, rows, kind, name)
        if data is None:
            raise _unknown(kind, name)
        return PageView("pin_item.html", f"{name[:80] or kind} of {server[:80]}", data)

    async def approve(self, request: ConsoleRequest) -> Redirect:
        """Pin the current definition of one item of a server, or of all.

        Raises:
            BadInput: no digest was sent.
            ChangedMeanwhile: the server has something else by now.
            NotPossible: a lock file sets the pins.
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
            NotPossible: a lock file sets the pins.
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
            raise NotPossible(
                f"The lock file says what is pinned of {server}: run `aggregator pins approve {server}` where it is "
                "kept, and commit it. Nothing was done."
            )

    async def _rows(self, request: ConsoleRequest, *, texts: bool = False) -> tuple[str, Rows]:
        server = request.path["name"]
        rows = await (await self._parts.opened()).pins.all(server, texts=texts)
        if server not in self._parts.upstreams and not rows:
            raise NotThere(f"There is no server {server[:NAME]!r} in the configuration, and none was pinned.")
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
            "held": len({(row.kind, row.name) for row in rows if is_held(row)} | held_of(self._parts, server).keys()),
            "changed": sum(map(is_changed, rows)),
            "waits": sum(row.held and not is_held(row) for row in rows),
            "locked": self._is_locked(server),
        }


def _is_held(row: PinRow, held: Mapping[tuple[str, str], HeldItem]) -> bool:
    return is_held(row) or (row.kind, row.name) in held


def _found(rows: Sequence[PinRow], kind: str, name: str) -> PinRow:
    for row in rows:
        if (row.kind, row.name) == (kind, name):
            return row
    raise _unknown(kind, name)


def _unknown(kind: str, name: str) -> NotThere:
    return NotThere(f"Nothing is known of {kind[:20] or 'an item'} {name[:NAME]!r} of this server.")


def _digest_of(rows: Sequence[PinRow]) -> str:
    """Return one digest of all changes of a server, so that an approval of all covers exactly the displayed ones."""
    waiting = sorted((row.kind, row.name, row.seen_digest) for row in rows if row.seen_digest is not None)
    return sha256(json.dumps(waiting).encode()).hexdigest() if waiting else ""
