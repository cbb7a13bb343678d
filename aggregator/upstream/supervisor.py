"""The supervisor of all upstreams: starts them side by side, reports changes, replaces and ends them.

Law: an upstream that is no longer configured takes no new calls; it ends when its calls have, or when their time is up.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.grant_owner import GrantOwner
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.credentials import CredentialsSource
from aggregator.upstream.late_secrets import LateSecrets
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.server_actions import ActionRefused, SwitchedOff
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.upstream import Upstream, UpstreamObserver
from aggregator.upstream.upstreams import Upstreams

log = logging.getLogger(__name__)

# Seconds that background work waits for the servers to come up, which is more urgent.
SETTLE: Final = 10.0

# The upstreams to wait for: all that are starting, or those that hold up a first list.
_Waiting = Literal["starting"] | Kind | None


class Supervisor:
    """The owner of all upstreams and their tasks. `upstreams` is filled, and changed in place.

    hurry: once it is set, nothing waits for the end of an upstream.
    clients: the hosts that this process serves.
    secrets: the resolver of the references of the servers.
    switched_off: the servers that an operator switched off until the next start, by id.
    slices: runs long work in pieces.
    """

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        upstreams: Upstreams,
        observer: UpstreamObserver,
        slices: Slices,
        redact: Redactor | None = None,
        reaper: Reaper | None = None,
        *,
        secrets: LateSecrets | None = None,
        restores: bool = False,
        accounts: CredentialsSource | None = None,
        kept: KeptWork | None = None,
    ) -> None:
        """Build an upstream for each server.

        redact: removes from texts about one server the secrets of all.
        reaper: ends child processes, and is closed here; `hurry` is its own.
        secrets: resolves the references of the servers.
        restores: the program will call `restore` with the lists of earlier connections.
        accounts: the source of access tokens, for servers with `auth`.
        kept: restarts background work of a connection that raised, and reports it.
        """
        self._kept = kept
        self._accounts = accounts
        self._reaper = reaper or Reaper()
        self.hurry = self._reaper.hurry
        self.clients = DownstreamClients()
        self.secrets = secrets or LateSecrets()
        self.switched_off: dict[str, SwitchedOff] = {}
        self._ending = self._passing_on = False
        self._restores = restores
        self._observer = observer
        self._changed = asyncio.Event()
        # The event of the last look, if there was no upstream to wait for.
        self._had_none: dict[_Waiting, asyncio.Event] = {}
        self._redact = redact
        self.slices = slices
        self._tasks = Tasks("the supervisor")
        self._running: dict[Upstream, asyncio.Task[None]] = {}
        self._upstreams = upstreams
        upstreams.replace({server.id: self._build(server) for server in servers})

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """The upstreams by server id, in config order."""
        return self._upstreams

    @property
    def by_prefix(self) -> Mapping[str, Upstream]:
        """The upstreams by the prefix of their names; one without a prefix only if it is enabled."""
        return self._upstreams.by_prefix

    def __repr__(self) -> str:
        states = [upstream.state for upstream in self.upstreams.values()]
        return f"<Supervisor {', '.join(f'{states.count(state)} {state}' for state in sorted(set(states)))}>"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all enabled upstreams inside the context."""
        async with self._tasks:
            for upstream in self.upstreams.values():
                self._begin(upstream)
            try:
                yield
            finally:
                try:
                    await self.stop()
                finally:
                    await self._reaper.close()

    async def stop(self) -> None:
        """End every upstream now, side by side, and fail the calls that wait for it."""
        self._ending = True
        self._reaper.end()
        await self._tasks.cancel()

    def reconfigure(self, servers: Iterable[ServerConfig], anew: Collection[str], drain: float) -> None:
        """Replace the servers by these, in this order; those with an id in `anew` get a new connection.

        A removed upstream may end its calls, in at most `drain` seconds. Its replacement shows the old lists until it
        has its own. A server that is switched off stays so, unless its entry has changed.
        """
        servers = list(servers)
        anew = {*anew, *self._switched_on_by(servers)}
        before, now = dict(self._upstreams), {}
        for server in servers:
            upstream = before.get(server.id)
            if upstream is None or server.id in anew:
                now[server.id] = new = self._build(server)
                if upstream is not None:
                    new.replace(upstream)
                new.restored()
            else:
                now[server.id] = upstream
                if upstream.config != server:
                    upstream.update(server)
        self._upstreams.replace(now)
        for upstream in self._upstreams.values():
            if before.get(upstream.config.id) is not upstream:
                self._begin(upstream)
        for server_id, upstream in before.items():
            if self._upstreams.get(server_id) is not upstream and upstream in self._running:
                self._upstreams.leaving[server_id] = upstream
                self._tasks.start(self._retire(upstream, drain))
        self._reaper.words.keep_only(self._upstreams.keys())
        self._notify_waiters()

    # -- actions of the operator

    def restart(self, server: str, drain: float) -> None:
        """Give a server a new connection now; the old one may end its calls, in at most `drain` seconds.

        Raises:
            ActionRefused: the server does not exist, is disabled, or has a last connection that has not ended yet.
        """
        upstream = self._acted_on(server)
        if not upstream.config.enabled:
            raise ActionRefused(f"{server} is disabled in the configuration: enable it there.")
        if upstream.switched_off is not None:
            raise ActionRefused(f"{server} is switched off: enable it, which starts it.")
        self._check_ended(server)
        self._anew(server, drain)

    def switch_off(self, server: str, by: str, drain: float) -> bool:
        """Switch a server off until the next start, or until its entry in the configuration changes.

        Its running calls may end, in at most `drain` seconds. Return False if it is switched off already.

        Raises:
            ActionRefused: the server does not exist, or is disabled in the configuration.
        """
        upstream = self._acted_on(server)
        if not upstream.config.enabled:
            raise ActionRefused(f"{server} is disabled in the configuration already.")
        if upstream.switched_off is not None:
            return False
        self.switched_off[server] = SwitchedOff(by, time.time(), upstream.config)
        self._anew(server, drain)
        return True

    def switch_on(self, server: str, drain: float) -> bool:
        """Start a server that was switched off; return False if it is not.

        Raises:
            ActionRefused: the server does not exist, is disabled in the configuration, or has a last connection that
                has not ended yet.
        """
        upstream = self._acted_on(server)
        if not upstream.config.enabled:
            raise ActionRefused(f"{server} is disabled in the configuration: enable it there.")
        if upstream.switched_off is None:
            return False
        self._check_ended(server)
        del self.switched_off[server]
        self._anew(server, drain)
        return True

    def _acted_on(self, server: str) -> Upstream:
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise ActionRefused(f"There is no server {server!r:.200}.", 404)
        if self._ending:
            raise ActionRefused("The aggregator is ending.")
        return upstream

    def _check_ended(self, server: str) -> None:
        """Refuse a further connection while an older one has calls or is closing: at most two may exist."""
        leaving = self._upstreams.leaving.get(server)
        if leaving is not None:
            calls = f"{leaving.in_flight} of its calls are under way" if leaving.in_flight else "it is being closed"
            raise ActionRefused(f"The last connection of {server} has not ended: {calls}. Try again in a moment.")

    def _anew(self, server: str, drain: float) -> None:
        self.reconfigure([upstream.config for upstream in self._upstreams.values()], {server}, drain)
        # Also a server that waits for its first call: the operator wants to see whether it comes up.
        if (upstream := self._upstreams[server]).runs:
            upstream.start()

    def _switched_on_by(self, servers: Iterable[ServerConfig]) -> list[str]:
        """Return the servers that are no longer switched off, since their entries have changed."""
        now = {server.id: server for server in servers}
        changed = [server for server, off in self.switched_off.items() if now.get(server) != off.config]
        for server in changed:
            del self.switched_off[server]
            if server in now:
                log.info("server %s is no longer switched off: its entry in the configuration was changed", server)
        return changed

    def account_changed(self, server: str, account: GrantOwner, *, connected: bool) -> None:
        """Handle an account at a server that was connected or disconnected."""
        if (upstream := self._upstreams.get(server)) is not None:
            upstream.account_changed(account, connected=connected)

    # -- reports of the upstreams

    def changed(self) -> None:
        """Pass on that an upstream changed; see `UpstreamObserver`.

        At the end all servers stop at one time, with one report for all of them.
        """
        if not self._ending:
            self._pass_on()
        elif not self._passing_on:
            self._passing_on = True
            asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        self._passing_on = False
        self._notify_waiters()
        self._observer.changed()

    async def examine(self, upstream: Upstream, kind: Kind, items: list[Any]) -> None:
        """Pass on a list; see `UpstreamObserver`."""
        await self._observer.examine(upstream, kind, items)

    def resource_updated(self, upstream: Upstream, watched: list[str], uri: str) -> None:
        """Pass on an update of a resource; see `UpstreamObserver`."""
        self._observer.resource_updated(upstream, watched, uri)

    def session_over(self, server: str, version: str, seconds: float, failure: str | None) -> None:
        """Pass on the end of a session; see `UpstreamObserver`."""
        self._observer.session_over(server, version, seconds, failure)

    # -- one upstream

    def _build(self, server: ServerConfig) -> Upstream:
        off = self.switched_off.get(server.id)
        upstream = Upstream(
            server,
            self._reaper,
            self,
            self.slices,
            self.clients,
            self._redact,
            off,
            self.secrets,
            self._accounts,
            self._kept,
        )
        if not self._restores:
            upstream.restored()
        return upstream

    def _begin(self, upstream: Upstream) -> None:
        if upstream.runs:
            self._running[upstream] = self._tasks.start(upstream.run())

    async def _retire(self, upstream: Upstream, drain: float) -> None:
        """End a removed upstream, once its calls have ended or `drain` seconds are over."""
        if not await upstream.wait_unused(drain):
            log.warning("server %s is stopped with %d calls under way", upstream.config.id, upstream.in_flight)
        running = self._running.pop(upstream)
        running.cancel()
        await asyncio.wait([running])
        if self._upstreams.leaving.get(upstream.config.id) is upstream:
            del self._upstreams.leaving[upstream.config.id]

    # -- hosts and stored lists

    def notify_dedicated(self, host: Hashable, method: str) -> None:
        """Pass a notification of a host on to the upstreams that have a connection for it alone."""
        for upstream in self.upstreams.values():
            self._tasks.start(upstream.notify_dedicated(host, method))

    async def restore(self, known: Mapping[str, Mapping[Kind, list[Any]]]) -> None:
        """Show the lists of earlier connections, by server id, for upstreams that are still starting."""
        for server, lists in known.items():
            if (upstream := self._upstreams.get(server)) is not None:
                for kind, definitions in lists.items():
                    await self.examine(upstream, kind, definitions)
        for server, lists in known.items():
            if (upstream := self._upstreams.get(server)) is not None:
                upstream.restore(lists)
        for upstream in self.upstreams.values():
            upstream.restored()
        self.changed()

    # -- waiting

    async def wait_listed(self, at_most: float, between: float, kind: Kind | None) -> None:
        """Wait for the upstreams that are connecting and whose lists of a kind are unknown.

        at_most: seconds in all.
        between: seconds for each further upstream, once one is listed.
        kind: None if no known list contains the wanted item.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most
        while starting := self._having(kind):
            known = any(one.listed and not one.holds_first(kind) for one in self.upstreams.values())
            if not await self._wait_changed(min(deadline, loop.time() + between) if known else deadline):
                names = ", ".join(upstream.config.id for upstream in starting)
                log.info("the list goes out without %s, still connecting", names)
                return

    async def wait_all_tried(self, at_most: float | None = None) -> None:
        """Wait until every upstream has been connected or has failed once; `limits.connect_timeout` bounds each."""
        deadline = None if at_most is None else asyncio.get_running_loop().time() + at_most
        while self._having("starting") and await self._wait_changed(deadline):
            pass

    async def wait_tried(self, upstream: Upstream, at_most: float) -> None:
        """Wait until one upstream, or its replacement, has been connected or has failed once."""
        server = upstream.config.id
        await self.wait_until(lambda: self._upstreams.get(server, upstream).state != "starting", at_most)

    async def wait_until(self, holds: Callable[[], bool], at_most: float) -> None:
        """Wait until a condition about upstreams holds; each change of an upstream checks it."""
        deadline = asyncio.get_running_loop().time() + at_most
        while not holds() and await self._wait_changed(deadline):
            pass

    @property
    def moment(self) -> object:
        """An object that stands for the states of all upstreams and for which there are: a new one if any changes."""
        return self._changed

    @property
    def all_tried(self) -> bool:
        """True if every upstream has been connected or has failed once: `wait_all_tried` does not wait."""
        return not self._having("starting")

    def _having(self, what: _Waiting) -> list[Upstream]:
        """Return the upstreams to wait for, worked out once for each change, not for each request."""
        if self._had_none.get(what) is self._changed:
            return []
        upstreams = self.upstreams.values()
        found = [one for one in upstreams if (one.starting if what == "starting" else one.holds_first(what))]
        if not found:
            self._had_none[what] = self._changed
        return found

    async def _wait_changed(self, deadline: float | None) -> bool:
        """Return True if an upstream changed before the deadline."""
        changed = self._changed
        try:
            async with asyncio.timeout_at(deadline):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _notify_waiters(self) -> None:
        # A new event each time, so that each waiter sees the changes since it began to wait, and no older ones.
        self._changed.set()
        self._changed = asyncio.Event()
