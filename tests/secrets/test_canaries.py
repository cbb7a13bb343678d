"""Secrets of every late source, behind servers that tell all they know: none comes out anywhere."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.console.console_harness import FORM, OWN_PAGE
from tests.end_to_end.programs import run
from tests.end_to_end.scripted_host import BOUND, VERSIONS, over_http
from tests.faults.raw_http import raw_http
from tests.faults.test_secrets import answering
from tests.operating.program_harness import ProgramHarness
from tests.peers import canary, leaky
from tests.peers.canary import Canaries
from tests.peers.file_keyring import keep

Json = dict[str, Any]
LEAKY: Final = ["-I", "-S", str(Path(leaky.__file__))]
LEGACY: Final = VERSIONS[0]


class LateCanaries:
    """Canaries that a keyring, a program and files give."""

    def __init__(self, folder: Path, keyring: Path) -> None:
        self.canaries = Canaries(folder)
        self.keyring: dict[str, str] = {}
        self.file = keyring
        self.teller = folder / "teller"
        script = f'import sys\nprint(open({str(folder)!r} + "/told." + sys.argv[1]).read())\n'
        self.teller.write_text(f"#!{sys.executable} -IS\n{script}")
        self.teller.chmod(0o755)
        self._folder = folder

    def kept(self, name: str) -> str:
        """A reference to the keyring."""
        self.keyring[name] = self.canaries.plain(f"keyring {name}")
        keep(self.file, self.keyring)
        return f"${{keyring:{name}}}"

    def told(self, name: str) -> str:
        """A reference to the output of a program."""
        (self._folder / f"told.{name}").write_text(self.canaries.awkward(f"command {name}"))
        return f"${{command:{self.teller} {name}}}"

    def over_pipes(self, name: str, mode: str) -> Json:
        env = {
            "API_KEY": self.kept(f"{name}-env"),
            "PLAIN": self.told(f"{name}-env"),
            "FROM_A_FILE": self.canaries.file(f"{name} file"),
            "DATABASE_URL": f"postgres://me:{self.kept(f'{name}-db')}@db/x",
        }
        args = [*LEAKY, mode, "--token", self.kept(f"{name}-arg"), f"--api-key={self.kept(f'{name}-option')}"]
        return {"command": sys.executable, "args": args, "env": env, "limits": {"connect_timeout": "5s"}}

    def over_web(self, name: str, url: str) -> Json:
        address = url.replace("://", f"://user:{self.kept(f'{name}-password')}@")
        return {
            "type": "http",
            "url": f"{address}?key={self.kept(f'{name}-key')}",
            "headers": {
                "Authorization": f"Bearer {self.kept(f'{name}-bearer')}",
                "Cookie": f"sid={self.kept(f'{name}-cookie')}; a=b",
                "X-File": self.canaries.file(f"{name} header"),
            },
            "limits": {"connect_timeout": "5s"},
        }


async def test_no_late_secret_comes_out(keyring: Path, harness: ProgramHarness) -> None:
    """Proves: D1, D9, E8. Neither in the log, nor in an answer, a page, the audit or the output of a command."""
    late = LateCanaries(harness.folder, keyring)
    said: list[str] = []
    async with raw_http() as unauthorized, raw_http() as moved, raw_http() as broken:
        servers: Json = {}
        for name, raw, status in (("no", unauthorized, 401), ("moved", moved, 302), ("broken", broken, 500)):
            raw.on = dict.fromkeys(("server/discover", "initialize"), answering(status))
            servers[name] = late.over_web(name, raw.url)
        servers["falls"] = late.over_pipes("falls", "falls")
        servers["dies"] = late.over_pipes("dies", "dies")
        servers["lost"] = {**late.over_pipes("lost", "dies"), "command": "no-such-program-here"}
        servers["odd"] = {"command": "x", "env": {"A": f"{late.kept('odd')}-${{keyring:absent}}"}}
        settings: Json = {"secrets": {"commands": [str(late.teller)]}, "audit": {"capture": "full"}}
        harness.write_config(servers, **settings)
        async with harness.serving("--log-json", "--log-level", "debug") as served:
            async with over_http(served.url, LEGACY) as host:
                calls = [host.call(tool) for tool in ("falls.ask", "dies.ask", "no.echo", "lost.x", "odd.x")]
                said += [json.dumps(await call.message()) for call in calls]
            said.append(json.dumps(await harness.ready()))
            link = await run("console", "--config", str(harness.config), "--url", served.url, "--no-browser")
            shown = await pages_of_the_console(served.url, link.out.strip(), servers)
            for command in (("status", "--url", served.url), ("check",), ("check", "--json"), ("secrets", "test")):
                ended = await run(*command, "--config", str(harness.config))
                said += [ended.out, ended.err]
            listed = await run("secrets", "list", "--config", str(harness.config), "--json")
            said += [listed.out, listed.err]
            log = harness.log
        said.append(json.dumps(await harness.audit()))
    everything = {
        "log": log.encode(),
        "said": "\n".join(said).encode(),
        "console": "\n".join(shown).encode(),
        "database": canary.contents(harness.folder / "aggregator.db"),
    }
    # All of that was there to be told.
    assert log.count("[redacted]") > 50
    assert "falls-env" in listed.out
    assert "[redacted]" in "".join(shown)
    assert [
        (where, late.canaries.seen_in(data)) for where, data in everything.items() if late.canaries.seen_in(data)
    ] == []


async def pages_of_the_console(url: str, link: str, servers: Json) -> list[str]:
    """The pages as somebody sees them who followed this link."""
    pages = [f"/console/servers/{name}{kind}" for name in servers for kind in ("", ".json")]
    async with httpx2.AsyncClient(base_url=url, timeout=BOUND) as client:
        entered = await client.post(link, headers={**OWN_PAGE, **FORM}, content=b"")
        assert entered.status_code == 303, entered.text
        found = [await client.get(page) for page in ("/console/", "/console/health", "/console/calls", *pages)]
    assert all(page.status_code == 200 for page in found)
    return [page.text for page in found]
