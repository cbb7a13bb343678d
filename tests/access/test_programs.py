"""The program as users start it: who it is for, and what it does when something is amiss."""

import asyncio
import json
import time
from pathlib import Path
from typing import Final

import pytest

from aggregator.identity.keys import new_key
from aggregator.storage.database import open_database
from tests.access.secured_harness import write_policies
from tests.end_to_end.programs import ServingProgram, run, serving, start
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, http_client
from tests.end_to_end.server_harness import local_entry, write_config
from tests.peers.toolbox import Json
from tests.polling import BOUND, until
from tests.tool_lists import of_servers

POLICIES: Final = {
    "agents": {
        "one": {
            "allow": ["shop.echo", "shop.refuse"],
            "confirm": ["shop.refuse"],
            "confirm_fallback": "queue",
            "confirm_wait": 0,
        },
        "local": {"allow": ["shop.picture"]},
    }
}
LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
HEADERS: Final = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/list"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file; `policies` is beside it, the database too."""
    return write_config(
        tmp_path, {"shop": local_entry(protocol="legacy")}, storage=f"sqlite+aiosqlite:///{tmp_path}/k.db"
    )


async def over_stdio(config: Path, *args: str, asks: list[Json], **environ: str) -> dict[int, Json]:
    """The answers of `aggregator stdio` to these modern requests, by id."""
    whole = [{**ask, "params": {**ask.get("params", {}), "_meta": ENVELOPE}} for ask in asks]
    lines = b"".join(json.dumps({"jsonrpc": "2.0", "id": at, **ask}).encode() + b"\n" for at, ask in enumerate(whole))
    process = await start("stdio", "--config", str(config), *args, cwd=config.parent, **environ)
    assert process.stdin is not None
    assert process.stdout is not None
    answers: dict[int, Json] = {}
    try:
        process.stdin.write(lines)
        async with asyncio.timeout(BOUND):
            while len(answers) < len(asks):
                message = json.loads(await process.stdout.readline())
                answers[message["id"]] = message
            process.stdin.close()
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return answers


ASKS: Final[list[Json]] = [
    {"method": "tools/list"},
    {"method": "tools/call", "params": {"name": "shop.echo", "arguments": {}}},
    {"method": "tools/call", "params": {"name": "shop__decline", "arguments": {}}},
]


@pytest.mark.parametrize("how", ["--agent", "AGGREGATOR_AGENT", "neither", "stranger"])
async def test_stdio_is_for_the_agent_it_was_started_for(config: Path, how: str) -> None:
    """D4, D5, F3: by option or environment; without either it is `local`, and what no file knows may nothing."""
    write_policies(config.parent / "policies", POLICIES)
    args, environ = {
        "--agent": (["--agent", "one"], {"AGGREGATOR_AGENT": "local"}),
        "AGGREGATOR_AGENT": ([], {"AGGREGATOR_AGENT": "one"}),
        "neither": ([], {}),
        "stranger": (["--agent", "stranger"], {}),
    }[how]
    answers = await over_stdio(config, *args, asks=ASKS, **environ)
    listed = [one["name"] for one in answers[0]["result"]["tools"]]
    assert of_servers(listed) == {"neither": ["shop__picture"], "stranger": []}.get(how, ["shop__echo", "shop__refuse"])
    served = "result" in answers[1] and "isError" not in answers[1]["result"]
    assert served is (how in ("--agent", "AGGREGATOR_AGENT"))
    assert "error" in answers[2] or answers[2]["result"]["isError"] is True


async def test_the_queue_is_answered_on_the_command_line(config: Path) -> None:
    """B6: asked by one process, approved by another, used by a third, once."""
    write_policies(config.parent / "policies", POLICIES)
    ask = {"method": "tools/call", "params": {"name": "shop.refuse", "arguments": {"n": 1}}}
    first = await over_stdio(config, "--agent", "one", asks=[ask])
    error = first[0]["result"]["_meta"]["aggregator/error"]
    assert error["code"] == "approval_pending"
    approved = await run("approvals", "approve", error["approval"], "--config", str(config))
    assert approved.code == 0, approved.err
    answers = await over_stdio(config, "--agent", "one", asks=[ask, ask])
    codes = [a["result"].get("_meta", {}).get("aggregator/error", {}).get("code") for a in answers.values()]
    assert sorted(map(str, codes)) == ["None", "approval_pending"]


async def status(server: ServingProgram, key: str | None = None) -> int:
    async with http_client(server.url, key) as client:
        return (await client.post("/mcp", json=LIST, headers=HEADERS)).status_code


async def test_a_public_address_needs_keys(config: Path) -> None:
    """D4: without policies and keys the program does not start on one; and says what to do."""
    for host in ("0.0.0.0", "::"):  # noqa: S104
        ended = await run("serve", "--config", str(config), "--host", host, "--port", "0")
        assert ended.code == 2
        assert "aggregator keys new" in ended.err


@pytest.mark.parametrize("state", ["absent", "damaged", "damaged, local named", "policies broken"])
async def test_what_is_amiss_closes_and_never_opens(config: Path, state: str) -> None:
    """D4, F6: a database that is not there or is damaged, and policies that cannot be read, let nobody in."""
    database = config.parent / "k.db"
    if state != "absent":
        async with open_database(f"sqlite+aiosqlite:///{database}") as opened:
            await opened.keys.add(new_key("one", now=time.time()).record)
    if state.startswith("damaged"):
        database.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    agents = POLICIES["agents"] if state == "damaged, local named" else {"one": POLICIES["agents"]["one"]}
    write_policies(config.parent / "policies", "agents: [" if state == "policies broken" else {"agents": agents})
    async with serving(config) as server:
        assert await status(server) == 401
        assert await status(server, new_key("one", now=0.0).text) == 401


async def test_damage_without_policies_closes_too(config: Path) -> None:
    """D4: where keys were lost, having none is no reason to let everybody in."""
    async with open_database(f"sqlite+aiosqlite:///{config.parent / 'k.db'}") as opened:
        await opened.keys.add(new_key("one", now=time.time()).record)
    (config.parent / "k.db").write_bytes(b"no database " * 1_000)
    async with serving(config) as server:
        assert await status(server) == 401


async def test_the_first_key_closes_a_running_program(tmp_path: Path) -> None:
    """D4: made while it runs and stands open, it is known without a restart, and from then on it is needed."""
    config = write_config(tmp_path, {"shop": local_entry(protocol="legacy")})
    data = {"XDG_DATA_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in data.items():
            patched.setenv(name, value)
        async with serving(config) as server:
            assert await status(server) == 200
            made = await run("keys", "new", "local", "--config", str(config))
            assert made.code == 0, made.err

            async def closed() -> bool:
                return await status(server) == 401

            await until(closed)
            assert await status(server, made.out.strip()) == 200


async def test_policies_that_appear_close_a_running_program(config: Path) -> None:
    """F6, D4: the first policy file counts within a moment; keys of the database work with it."""
    key = new_key("one", now=time.time())
    async with serving(config) as server:
        assert await status(server) == 200
        async with open_database(f"sqlite+aiosqlite:///{config.parent / 'k.db'}") as opened:
            await opened.keys.add(key.record)
        # The key goes first: it is looked for as often as the files are.
        await run("keys", "list", "--config", str(config))
        write_policies(config.parent / "policies", {"agents": {"one": {"allow": ["shop.echo"]}}})

        async def closed() -> bool:
            return await status(server) == 401

        await until(closed)
        assert await status(server, key.text) == 200


async def test_the_command_line_calls_as_an_agent(config: Path) -> None:
    """F3: `aggregator call` goes the same road."""
    write_policies(config.parent / "policies", POLICIES)
    allowed = await run("call", "shop.echo", "--config", str(config), "--agent", "one")
    assert allowed.code == 0, allowed.err
    for args in (["shop.decline", "--agent", "one"], ["shop.echo"], ["shop.echo", "--agent", "stranger"]):
        refused = await run("call", *args, "--config", str(config))
        assert refused.code != 0, args
