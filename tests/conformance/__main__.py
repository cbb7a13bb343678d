"""`python -m tests.conformance`: the suite through the aggregator, and what falls short of the same suite directly.

Ends with 1 where something falls short that `exceptions.toml` does not explain, or passes that it says cannot, with 69
where the suite is not there.
"""

import argparse
import asyncio
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.processes import DIRECT, HANDSHAKE, UPSTREAMS, targets
from tests.conformance.report import Report
from tests.conformance.suite import EXTENSIONS, INSTALLED, NotInstalled, Suite
from tests.conformance.verdicts import Check, Checks, read_accepted
from tests.end_to_end.scripted_host import VERSIONS

_CLIENT: Final = "client"
# How many scenarios each revision has: fewer would mean that something was not run.
_SCENARIOS: Final[Mapping[str, Mapping[str, int]]] = {
    DIRECT: {"2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 40, EXTENSIONS: 3},
    _CLIENT: {"2025-03-26": 2, "2025-06-18": 5, "2025-11-25": 19, "2026-07-28": 33, EXTENSIONS: 7},
}
# For clients alone: an older way to the authorization server.
_CLIENT_ONLY: Final = "2025-03-26"
# The extension that passes through. Servers declare it in 2026-07-28 alone, as the SDK has it.
_SKILLS: Final = "sep-2640-"
# Scenarios in which tokens are got for the client.
_ACCOUNTS: Final = "auth/"
# Extensions that are proposals still, and that the aggregator does not have.
_LEFT_OUT: Final = frozenset({"auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer"})
_EXCEPTIONS: Final = Path(__file__).with_name("exceptions.toml")
_UNAVAILABLE: Final = 69  # EX_UNAVAILABLE of sysexits.h
_AT_ONCE: Final = 4


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    revisions, repeated = (*VERSIONS, _CLIENT_ONLY, EXTENSIONS), "this one only (may be repeated)"
    parser.add_argument("--revision", action="append", choices=revisions, help=repeated)
    parser.add_argument(
        "--upstream", action="append", choices=(*UPSTREAMS, _CLIENT), help="this one only (may be repeated)"
    )
    parser.add_argument("--scenario", help="this scenario only; nothing is counted then")
    parser.add_argument("--suite", type=Path, default=INSTALLED, help="where the suite is installed")
    return parser.parse_args()


class Run:
    """One run, and what it has found so far. Its files are kept in `folder` until the next."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._suite = Suite.found(options.suite)
        self._scenario: str | None = options.scenario
        self._revisions: Sequence[str] = options.revision or (*VERSIONS, _CLIENT_ONLY, EXTENSIONS)
        wanted = options.upstream or (*UPSTREAMS, _CLIENT)
        self._targets = (DIRECT, *(upstream for upstream in wanted if upstream != _CLIENT))
        self._clients = _CLIENT in wanted and (self._scenario is None or options.upstream == [_CLIENT])
        self._folder = options.suite / "last"
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.report = Report(read_accepted(_EXCEPTIONS))

    async def run(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        async with asyncio.TaskGroup() as tasks:
            if len(self._targets) > 1 or not self._clients:
                tasks.create_task(self._servers())
            clients = tasks.create_task(self._all_clients()) if self._clients else None
        for revision, scenario, bad in clients.result() if clients is not None else ():
            self.report.put(revision, _CLIENT, scenario, not bad, bad)

    async def _servers(self) -> None:
        folders = {target: self._folder / target for target in self._targets}
        async with targets(folders) as addresses:
            # One suite after the other: they must not be two hosts at once.
            alone = {target: asyncio.Lock() for target in self._targets}

            skills = [name for name in await self._suite.server_scenarios() if name.startswith(_SKILLS)]

            async def one(revision: str, target: str) -> tuple[str, str, dict[str, Checks]]:
                async with alone[target], self._turns:
                    kept, url = self._folder / target / revision, addresses[target]
                    if revision != EXTENSIONS:
                        return revision, target, await self._suite.against_server(url, revision, kept, self._scenario)
                    found: dict[str, Checks] = {}
                    for name in skills:
                        if self._scenario in (None, name):
                            found |= await self._suite.against_server(url, revision, kept / name, name)
                    return revision, target, found

            revisions = [revision for revision in self._revisions if revision in (*VERSIONS, EXTENSIONS)]
            pairs = [
                (revision, target)
                for target in self._targets
                for revision in revisions
                if revision != EXTENSIONS or target not in HANDSHAKE
            ]
            async with asyncio.TaskGroup() as tasks:
                runs = [tasks.create_task(one(*pair)) for pair in pairs]
        found = {(revision, target): checks for revision, target, checks in (run.result() for run in runs)}
        for revision in revisions:
            through = {target: found[revision, target] for target in self._targets[1:] if (revision, target) in found}
            self.report.add(revision, found[revision, DIRECT], through)

    async def _all_clients(self) -> list[tuple[str, str, list[Check]]]:
        """Return the failed checks by revision and scenario."""
        commands = {
            person: shlex.join([sys.executable, "-m", f"tests.conformance.{'accounts' if person else 'client'}"])
            for person in (True, False)
        }

        async def one(revision: str, scenario: str) -> tuple[str, str, list[Check]]:
            async with self._turns:
                kept = self._folder / _CLIENT / revision / scenario
                command = commands[scenario.startswith(_ACCOUNTS)]
                checks, code = await self._suite.against_client(command, scenario, revision, kept)
            bad = [check for check in checks.values() if check.status in ("FAILURE", "WARNING")]
            if not bad and (code or not checks):
                bad = [Check("client", "FAILURE", f"It did not come to its end; see {kept}.")]
            return revision, scenario, bad

        async with asyncio.TaskGroup() as tasks:
            runs = [
                tasks.create_task(one(revision, scenario))
                for revision in self._revisions
                for scenario in await self._suite.client_scenarios(revision)
                if scenario not in _LEFT_OUT and self._scenario in (None, scenario)
                # What else there is of extensions is not declared.
                if revision != EXTENSIONS or scenario.startswith((_ACCOUNTS, _SKILLS))
            ]
        return [run.result() for run in runs]

    def missing(self) -> list[str]:
        """Return the combinations in which fewer scenarios were run than exist."""
        if self._scenario is not None:
            return []
        complaints = []
        for target in {target for _, target, _ in self.report.cells} & _SCENARIOS.keys():
            for revision in self._revisions:
                if revision not in _SCENARIOS[target]:
                    continue
                ran = sum((r, t) == (revision, target) for r, t, _ in self.report.cells)
                if ran != _SCENARIOS[target][revision]:
                    complaints.append(f"{revision} {target}: {ran} scenarios, not {_SCENARIOS[target][revision]}.")
        return complaints


def main() -> int:
    """Run, print what was found, and say by the exit code whether that will do."""
    began = time.monotonic()
    try:
        run = Run(_options())
    except NotInstalled as error:
        print(f"conformance: NOT RUN, nothing was checked: {error}", file=sys.stderr)
        return _UNAVAILABLE
    asyncio.run(run.run())
    print(run.report)
    complaints = run.missing()
    failed, needless = run.report.against_us(), run.report.needless()
    found: dict[str, list[str]] = {}
    for revision, target, scenario in failed:
        found.setdefault(f"{revision}: {scenario} falls short", []).append(target)
    for known, revision, target in needless:
        found.setdefault(f"{revision}: {known.scenario} passes, so its exception is to go", []).append(target)
    complaints += [f"{said} ({', '.join(where)})." for said, where in found.items()]
    print("\n".join(complaints))
    print(f"{time.monotonic() - began:.0f} s")
    print(f"conformance: {len(run.report.cells) - len(failed)} passed, {len(failed)} failed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
