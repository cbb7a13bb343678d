"""Reload of the policies: edited files take effect within a second; files with errors change nothing."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from aggregator.app.audit_events import AuditEvents
from aggregator.app.key_sync import KeySync
from aggregator.app.reload.file_look import FileLook
from aggregator.code.programs import check_code
from aggregator.config.files.watch import Stamp, stamp
from aggregator.domain.bounds.ticks import until_next
from aggregator.domain.errors import OperatorError
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.gateway.views.views import Views
from aggregator.policy.files.folder import is_misnamed, is_policy_file
from aggregator.policy.live import LivePolicies, Reloaded

log = logging.getLogger(__name__)

EVERY: Final = 0.5
# Seconds that the files must stay unchanged, and the longest wait for that: half a file may lack its deny rules.
STILL: Final = 0.1
PATIENCE: Final = 2.0
# Agents without an allowed tool that the log names one by one.
_WARNINGS: Final = 20

Signature = tuple[Stamp, ...]


class PolicyChanges:
    """A `PolicyObserver`."""

    def __init__(self, live: LivePolicies, events: AuditEvents, keys: KeySync, list_changed: ListChanges) -> None:
        self._live = live
        self._events = events
        self._keys = keys
        self._list_changed = list_changed

    def policies_read(self, reloaded: Reloaded) -> None:
        """Record the reload; if the rules changed, take their keys and notify the hosts whose lists differ."""
        self._events.policies_read(self._live, reloaded)
        if reloaded.changed:
            self._keys.use_policies()
            self._list_changed.announce()


class PolicyObserver(Protocol):
    """The program that follows the policies."""

    def policies_read(self, reloaded: Reloaded) -> None:
        """Take note that the files were read, whether or not the rules in force changed."""


class TellReplicas(Protocol):
    """The other replicas of the group (`GroupFacts`)."""

    async def publish_policies(self) -> None:
        """Make them check their policy files."""


class PolicyReload:
    """Checks the policy files twice a second, and reads them when one is new, changed or gone."""

    def __init__(
        self,
        live: LivePolicies,
        current: CurrentCatalog,
        views: Views,
        observer: PolicyObserver,
        group: TellReplicas | None = None,
    ) -> None:
        self._group = group
        self._live = live
        self._current = current
        self._views = views
        self._observer = observer
        self._seen = signature(live.folder)
        self._wake = asyncio.Event()
        self._look = FileLook("policy files", str(live.folder))

    @property
    def problem(self) -> str | None:
        """The sentence about a look at the files that takes long; None if none does."""
        return self._look.problem

    def look_now(self) -> None:
        """Look at the files at once: another replica has loaded new ones."""
        self._wake.set()

    async def run(self) -> None:
        """Watch the files until cancelled."""
        log_problems(self._live)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(EVERY)):
                    await self._wake.wait()
            self._wake.clear()
            now = await self._look.take(signature, self._live.folder)
            if now != self._seen:
                seen = await self._until_unchanged(now)
                await self._reload()
                # After it: files that could not be applied are read again.
                self._seen = seen

    async def _until_unchanged(self, seen: Signature) -> Signature:
        """Return the signature of the files once they are no longer being written."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            await asyncio.sleep(STILL)
            now = await self._look.take(signature, self._live.folder)
            if now == seen or asyncio.get_running_loop().time() > deadline:
                return now
            seen = now

    async def _reload(self) -> None:
        broken = self._live.broken
        try:
            reloaded = await self._look.take(self._live.reload, self._current.tools.tools, self._views.is_trusted)
        except OSError as error:
            log.error("the policy files cannot be read, the rules in force stay: %s", error)
            return
        log_problems(self._live)
        if broken and not self._live.broken:
            log.info("policies: the files can be used again")
        if reloaded.changed:
            assert self._live.rulebook is not None
            log.info("policies: revision %s is in force", self._live.rulebook.revision)
            for line in reloaded.diff.lines():
                log.info("policies: %s", line)
            try:
                check_code(self._views)
            except OperatorError as error:
                log.error("policies: %s", error)
        self._observer.policies_read(reloaded)
        if reloaded.changed and self._group is not None:
            await self._group.publish_policies()


def log_problems(live: LivePolicies) -> None:
    """Log the problems of the current files, and the agents that the rules in force allow nothing."""
    for problem in live.problems:
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", problem)
    if live.broken:
        log.error("%s", live.effect)
        return
    for problem in live.warnings[:_WARNINGS]:
        log.warning("%s", problem)
    if len(live.warnings) > _WARNINGS:
        log.warning("%s more such agents; `aggregator policy check` names them", len(live.warnings) - _WARNINGS)


def report(live: LivePolicies | None, slow: str | None = None) -> dict[str, Any]:
    """Return the part of `/readyz` about the policies: the revision in force, and the problems of the files.

    slow: the sentence about a look at the files that takes long.
    """
    problems = [str(problem) for problem in live.problems] if live is not None else []
    problems += [slow] if slow is not None else []
    if live is None or live.rulebook is None:
        return {"revision": None, "problems": problems}
    broken: dict[str, Any] = {"broken": live.broken, **({"effect": live.effect} if live.broken else {})}
    return {"revision": live.rulebook.revision, **broken, "problems": problems}


def signature(folder: Path) -> Signature:
    """Return a value that differs as soon as a policy file of the folder does."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return ()
    found = [stamp(entry) for entry in entries if is_policy_file(entry) or is_misnamed(entry)]
    return tuple(sorted(found, key=str))
