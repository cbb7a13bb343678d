"""Policy files that are edited take effect within a second; what is wrong with them changes nothing."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aggregator.config.files.watch import Stamp, stamp
from aggregator.domain.records import ToolRecord
from aggregator.policy.live import LivePolicies, Reloaded

log = logging.getLogger(__name__)

EVERY: Final = 0.5
# How long nobody may have written to the files, and how long that is waited for at most: half a file may lack its deny.
STILL: Final = 0.1
PATIENCE: Final = 2.0

Signature = tuple[Stamp, ...]


class PolicyReload:
    """Looks at the files twice a second, and reads them when one is new, changed or gone; `reloaded` hears of that."""

    def __init__(
        self,
        live: LivePolicies,
        tools: Callable[[], tuple[ToolRecord, ...]],
        trusted: Callable[[str], bool],
        reloaded: Callable[[Reloaded], None],
    ) -> None:
        self._live = live
        self._tools = tools
        self._trusted = trusted
        self._reloaded = reloaded
        self._seen = signature(live.folder)

    async def run(self) -> None:
        """Watch for ever."""
        tell(self._live)
        while True:
            await asyncio.sleep(EVERY)
            now = await asyncio.to_thread(signature, self._live.folder)
            if now != self._seen:
                self._seen = await self._still(now)
                await self._reload()

    async def _still(self, seen: Signature) -> Signature:
        """The files once they are no longer written to."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            await asyncio.sleep(STILL)
            now = await asyncio.to_thread(signature, self._live.folder)
            if now == seen or asyncio.get_running_loop().time() > deadline:
                return now
            seen = now

    async def _reload(self) -> None:
        try:
            reloaded = await asyncio.to_thread(self._live.reload, self._tools(), self._trusted)
        except OSError as error:
            log.error("the policy files cannot be read, the rules in force stay: %s", error)
            return
        tell(self._live)
        if reloaded.changed:
            assert self._live.rulebook is not None
            log.info("policies: revision %s is in force", self._live.rulebook.revision)
            for line in reloaded.diff.lines():
                log.info("policies: %s", line)
        self._reloaded(reloaded)


def tell(live: LivePolicies) -> None:
    """Log what is wrong with the files as they are now."""
    for problem in live.problems:
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", problem)
    if live.broken:
        log.error("policies: the files have errors, so the rules that were in force stay")


def report(live: LivePolicies | None) -> dict[str, Any]:
    """For `/readyz`: which rules are in force, and whether the files now say something else."""
    if live is None or live.rulebook is None:
        return {"revision": None, "problems": [str(problem) for problem in live.problems] if live is not None else []}
    return {
        "revision": live.rulebook.revision,
        "broken": live.broken,
        "problems": [str(problem) for problem in live.problems],
    }


def signature(folder: Path) -> Signature:
    """Differs as soon as a file of the folder does."""
    found: list[Stamp] = []
    try:
        entries = list(folder.iterdir())
    except OSError:
        return ()
    for entry in entries:
        # Editors leave hidden files beside those they change, which are no policies.
        if entry.suffix not in (".yaml", ".yml") or entry.name.startswith("."):
            continue
        found.append(stamp(entry))
    return tuple(sorted(found, key=str))
