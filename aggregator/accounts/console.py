"""Accounts at servers: the connected owners, and the ways to connect or disconnect an account.

Rule: a user sees and changes the accounts of the agent whose key they signed in with; an operator those of all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.accounts.connect.browser_cookie import new_browser
from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.values import ConnectedAccount
from aggregator.config.server_config import ServerConfig
from aggregator.domain.grant_owner import GATEWAY, SHARED, GrantOwner, owner_of
from aggregator.domain.principal import LOCAL, Principal
from aggregator.frontends.console.parts import CONSOLE_PATH, ConnectedGrants, ConsoleParts
from aggregator.frontends.console.tool_data import bounded, link
from aggregator.frontends.console.view import (
    BadInput,
    ConsoleRequest,
    IssuerRedirect,
    NotConnected,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.identity.source import names_this_machine

_MOST: Final = 500
_TEXT: Final = 300
_KEY: Final = 4_000
# A viewer reads this in place of an issuer's answer.
_PROBLEM: Final = "the issuer does not renew it"


class ConnectionsPage:
    """The list of accounts, with its actions."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        owner = {"owner": "whose account it is: its `key` in the list"}
        connect = "Connect an account: the answer leads to the server's issuer"
        return [
            PageRoute(
                "GET", "/connections", "viewer", self.listed, "The accounts at servers, and what can be connected"
            ),
            PageRoute("POST", "/connections/{name}/connect", "viewer", self.connect, connect, fields=owner),
            PageRoute("POST", "/connections/{name}/revoke", "viewer", self.revoke, "End the use of one", fields=owner),
        ]

    async def listed(self, request: ConsoleRequest) -> PageView:
        """Return the list: accounts that need a user first, then the unconnected ones."""
        accounts = await self._visible(request)
        accounts.sort(key=lambda one: (one.state != "broken", one.server, one.owner.key))
        known = {(one.server, one.owner.key) for one in accounts}
        offers = [
            {"server": server.id, "href": link("servers", server.id), "owner": str(owner), "key": owner.key}
            for server in self._servers()
            for owner in self._owners(request, server)
            if (server.id, owner.key) not in known
        ]
        data = {
            "accounts": [self._row(one, values=request.person.may("approver")) for one in accounts[:_MOST]],
            "more": max(0, len(accounts) - _MOST),
            "offers": offers[:_MOST],
            "any": bool(self._servers()),
            "everyone": request.person.may("operator"),
        }
        return PageView("connections.html", "Connections", data)

    async def connect(self, request: ConsoleRequest) -> IssuerRedirect:
        """Send the browser to the server's issuer; only this browser brings back an answer that counts."""
        server = next((one for one in self._servers() if one.id == request.path["name"]), None)
        if server is None:
            raise NotThere(f"There is no server {request.path['name'][:_TEXT]!r} that accounts are connected at.")
        owner = self._owner(request)
        if owner not in self._owners(request, server):
            raise BadInput("owner", "This account is not yours to connect.")
        scheme, _, host = request.origin.partition("://")
        if scheme != "https" and not names_this_machine(host):
            raise BadInput("", "Accounts are connected over https:// only, or on the machine of the aggregator.")
        prefix = request.base.removesuffix(CONSOLE_PATH)
        grants, browser = self._grants(), new_browser()
        try:
            made = await grants.begin(server, owner, self._principal(request))
            to = await grants.start(made.code, f"{request.origin}{prefix}/connect/callback", browser)
        except ConnectFailed as failed:
            raise NotConnected(failed.reason) from failed
        return IssuerRedirect(to, browser)

    async def revoke(self, request: ConsoleRequest) -> Redirect:
        """End the use of an account, and show the list."""
        name, owner = request.path["name"], self._owner(request)
        if not any((one.server, one.owner) == (name, owner) for one in await self._visible(request)):
            raise NotThere("There is no such account, or it is not yours.")
        await self._grants().revoke(name, owner)
        said = f"{request.person.name} ended the use of the account of {owner} at {name}."
        self._parts.record("console", said, server=name, details={"action": "revoke", "by": request.person.name})
        return Redirect("/connections")

    async def _visible(self, request: ConsoleRequest) -> list[ConnectedAccount]:
        """Return the accounts that a user may see."""
        if self._parts.grants is None:
            return []
        if request.person.may("operator"):
            return list(await self._parts.grants.list())
        owner = self._own(request)
        return list(await self._parts.grants.list(owner)) if owner is not None else []

    def _servers(self) -> list[ServerConfig]:
        """Return the servers that users connect accounts at."""
        found = [one.config for one in self._parts.upstreams.values() if one.config.auth is not None]
        by_person = [one for one in found if one.auth is not None and one.auth.how.by_person]
        return by_person if self._parts.grants is not None else []

    def _owners(self, request: ConsoleRequest, server: ServerConfig) -> list[GrantOwner]:
        """Return the owners that a user may connect an account for at a server."""
        assert server.auth is not None, "only servers with `auth` are connected"
        operator = request.person.may("operator")
        if server.auth.per == "shared":
            return [SHARED] if operator else []
        own = self._own(request)
        lists = [GATEWAY] if operator and server.auth.lists == "gateway" else []
        return [*lists, *([own] if own is not None else [])]

    def _own(self, request: ConsoleRequest) -> GrantOwner | None:
        """Return the owner of a user's own accounts: their key's agent; without a key and policies, the local one."""
        if request.person.key_id is None and not self._parts.access.open:
            return None
        return owner_of(self._principal(request), "agent")

    def _principal(self, request: ConsoleRequest) -> Principal:
        key_id = request.person.key_id
        record = self._parts.access.keyring.record(key_id) if key_id is not None else None
        agent = record.agent_id if record is not None else LOCAL.agent_id
        known = self._parts.browser.principal(agent)
        tenant, roles = (known.tenant, known.roles) if known is not None else (None, ())
        return Principal(agent, tenant, roles, key_id)

    def _owner(self, request: ConsoleRequest) -> GrantOwner:
        try:
            return GrantOwner.from_key(request.form.get("owner", "")[:_KEY])
        except ValueError:
            raise BadInput("owner", "`owner` is the key of an owner, as in the list.") from None

    def _grants(self) -> ConnectedGrants:
        if self._parts.grants is None:
            raise NotThere("No server here has accounts (`auth`).")
        return self._parts.grants

    def _row(self, one: ConnectedAccount, *, values: bool) -> Mapping[str, Any]:
        return {
            "server": one.server,
            "href": link("servers", one.server),
            "owner": bounded(str(one.owner), _TEXT),
            "key": one.owner.key,
            "state": one.state,
            "problem": bounded(one.problem or "", _TEXT) if values or not one.problem else _PROBLEM,
            "issuer": bounded(one.issuer, _TEXT),
            "scopes": list(one.scopes or ())[:40],
            "expires": one.expires,
            "renewable": one.renewable,
            "created": one.created,
            "configured": any(one.server == server.id for server in self._servers()),
        }
