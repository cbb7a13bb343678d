"""The scenarios `auth/*` as a user plays them: `python -m tests.conformance.accounts URL`, as the suite starts it.

`aggregator connect`, then a host that starts `aggregator stdio`: each is a program of its own, as people run them.
The scenario's server has an entry with `auth`. A person agrees to everything in their browser. A call that asks for a
login has a link: the person opens it, and the call is made again.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.conformance.accepting_host import sample
from tests.conformance.browser import agree_at
from tests.end_to_end.scripted_host import Inbox, ScriptedHost, StdioWire
from tests.peers.toolbox import Json
from tests.tool_lists import of_servers

PREFIX: Final = "auth/"
NAME: Final = "fx"
ROOT: Final = Path(__file__).resolve().parents[2]
# The address that the scenario `basic-cimd` expects; no one asks it for the document.
_DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"
# How often a person agrees for one server, and for one call, before they give up.
_PATIENCE: Final = 2
_BOUND: Final = 55.0
_LINE_AT_MOST: Final = 2**26


def _without_a_person(scenario: str, context: Mapping[str, Any]) -> Json | None:
    """Return the `auth` of a server whose tokens are got without a person; None where a person agrees."""
    client = {"per": "shared", "client_id": context.get("client_id")}
    match scenario.removeprefix(PREFIX):
        case "client-credentials-jwt":
            return {**client, "grant": "client_credentials", "private_key": context["private_key_pem"]}
        case "client-credentials-basic":
            return {**client, "grant": "client_credentials", "client_secret": context["client_secret"]}
        case "enterprise-managed-authorization":
            own = {"client_secret": context["client_secret"], "subject_token": context["idp_id_token"]}
            return {**client, **own, "grant": "enterprise", "idp": context["idp_issuer"]}
    return None


def _write(folder: Path, url: str, auth: Json, context: Mapping[str, Any]) -> Path:
    """Write the configuration of an operator."""
    settings: Json = {"client_id_url": _DOCUMENT}
    if "idp_issuer" in context:
        sign_in = {"client_id": context["idp_client_id"]}
        issuer = {"issuer": context["idp_issuer"], "audience": ["aggregator"], "sign_in": sign_in}
        settings["issuers"] = [issuer]
    path = folder / "aggregator.json"
    path.write_text(
        json.dumps(
            {
                "mcpServers": {NAME: {"type": "http", "url": url, "auth": auth}},
                "auth": settings,
                "expose": "all",
                "stdio": {"names": "canonical"},
                "storage": f"sqlite:///{folder / 'data.db'}",
            }
        )
    )
    return path


async def _start(*args: str) -> asyncio.subprocess.Process:
    """`aggregator ARGS`, running."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aggregator", *args, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, limit=_LINE_AT_MOST
    )


async def play(url: str, scenario: str, revision: str, folder: Path) -> None:
    """Play one scenario to its end."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    auth = _without_a_person(scenario, context)
    if auth is not None:
        await _use(_write(folder, url, auth, context), revision)
        return
    known = ("client_id", "client_secret")
    path = _write(folder, url, {"per": "shared", **{name: context[name] for name in known if name in context}}, context)
    for _ in range(_PATIENCE):
        if not await _connect(path) or await _use(path, revision):
            return


async def _connect(path: Path) -> bool:
    """Connect the account as an operator does; return True if the command says that it is connected."""
    process = await _start("connect", NAME, "--no-browser", "--config", str(path))
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(_BOUND):
            while line := (await process.stdout.readline()).decode().strip():
                if line.startswith("http"):
                    page = await agree_at(line)
                    print(page)
                    if "<h1>Not possible" in page:
                        # The person reads why, and gives up.
                        process.terminate()
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        print((await errors).decode())
    return code == 0


async def _use(path: Path, revision: str) -> bool:
    """Call every tool of the server; return True if there are any."""
    async with _host(path, revision) as host:
        listed = {tool["name"]: tool for tool in await host.list()}
        tools = [listed[name] for name in of_servers(listed)]
        for tool in tools:
            await _call(host, tool)
        return bool(tools)


async def _call(host: ScriptedHost, tool: Json) -> None:
    schema = tool["inputSchema"]
    arguments = {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    for _ in range(_PATIENCE):
        message = await host.call(tool["name"], arguments).message()
        error = message.get("result", {}).get("_meta", {}).get("aggregator/error", {})
        print(json.dumps(message)[:1000])
        if error.get("code") != "login_required" or "url" not in error:
            return
        print(await agree_at(error["url"]))


@asynccontextmanager
async def _host(path: Path, revision: str) -> AsyncIterator[ScriptedHost]:
    """Start the aggregator as a host does, and connect one to its pipes."""
    process = await _start("stdio", "--config", str(path))
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    inbox = Inbox()
    errors = asyncio.create_task(process.stderr.read())
    wire = StdioWire(inbox, process.stdin)
    reading = asyncio.create_task(wire.read(process.stdout))
    try:
        host = ScriptedHost(wire, inbox, revision)
        await host.greet()
        yield host
    finally:
        process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_BOUND):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reading
        print((await errors).decode())


def main(url: str) -> None:
    """Play one scenario to its end."""
    with tempfile.TemporaryDirectory() as folder:
        scenario, revision = os.environ["MCP_CONFORMANCE_SCENARIO"], os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
        asyncio.run(play(url, scenario, revision, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1])
