"""Replicas on PostgreSQL whose server spells its tools otherwise at one of them: a rolling update of real processes."""

import sys
from pathlib import Path
from typing import Any

import pytest

from aggregator.storage.database import open_database
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.peers.toolbox import Json
from tests.pins_running.pins_harness import PROGRAM, ChangingServer, tool
from tests.polling import until
from tests.replicas.group import Group, GroupMember, group


def order(name: str) -> Json:
    return {**tool("get-order"), "name": name}


async def listed(member: GroupMember) -> list[str]:
    """Return the tools of the server, as a host reads them at a replica."""
    async with over_http(member.url, MODERN) as host:
        found = (await host.ask("tools/list").result())["tools"]
    return [name for one in found if (name := one["name"].removeprefix("shop.")).lower().startswith("get")]


async def said_by(member: GroupMember, name: str) -> str:
    """Return what the server of a replica says to a call: the name that it was called by."""
    async with over_http(member.url, MODERN) as host:
        return str((await host.call(f"shop.{name}", {}).result())["content"][0]["text"])


async def lists(member: GroupMember, *names: str) -> None:
    async def is_so() -> bool:
        return await listed(member) == list(names)

    await until(is_so, f"{member} lists {names}")


async def seen(storage: str, name: str) -> Any:
    """Wait until a replica has noted another spelling; return its row."""
    found: list[Any] = []

    async def noted() -> bool:
        async with open_database(storage) as database:
            found[:] = [row for row in await database.pins.all("shop") if row.name == name and row.held]
        return bool(found)

    await until(noted, f"{name} is noted")
    return found[0]


async def approve(storage: str, name: str) -> None:
    async with open_database(storage) as database:
        assert await database.pins.approve("shop", "tool", name, None, "ada", 1_700_000_000.0)


class Releases:
    """Two releases of one server, each in a file of definitions; a replica starts the one that its variable names."""

    def __init__(self, folder: Path, storage: str) -> None:
        self.storage = storage
        self.old, self.new = ChangingServer(folder, "old"), ChangingServer(folder, "new")
        self.old.says(order("get-order"), tool("invoice"))
        self.new.says(order("get_order"), tool("invoice"))
        args = ["-I", "-S", str(PROGRAM), str(self.old.file)]
        self.entries: Json = {
            "shop": {"command": sys.executable, "args": args, "env": {"DEFINITIONS": "${DEFINITIONS}"}}
        }

    async def add(self, running: Group, release: ChangingServer) -> GroupMember:
        return await running.add({"DEFINITIONS": str(release.file)})


@pytest.fixture
def releases(tmp_path: Path, postgres_url: str) -> Releases:
    return Releases(tmp_path, postgres_url)


async def test_a_rolling_update(tmp_path: Path, releases: Releases) -> None:
    """Each replica calls its own server by the name that this one knows, before and after the approval."""
    async with group(tmp_path, releases.storage, releases.entries, 0, balanced=False) as running:
        one = await releases.add(running, releases.old)
        await until(lambda: "pinned as first seen" in "".join(one.log), "the tools are pinned")
        other = await releases.add(running, releases.new)
        for member, sent in ((one, "get-order"), (other, "get_order")):
            await lists(member, "get-order")
            assert await said_by(member, "get-order") == f"{sent} was called"
        row = await seen(releases.storage, "get_order")
        assert row.renamed_from == "get-order"
        await approve(releases.storage, "get_order")
        for member, sent in ((one, "get-order"), (other, "get_order")):
            await lists(member, "get_order")
            assert await said_by(member, "get_order") == f"{sent} was called"
        await running.remove(one)
        third = await releases.add(running, releases.new)
        await lists(third, "get_order")
        assert await said_by(third, "get_order") == "get_order was called"


async def test_a_release_with_both_names_beside_one_with_the_new_one(tmp_path: Path, releases: Releases) -> None:
    """No call goes to another tool than the named one, whichever replica noted the new name last."""
    releases.old.says(order("get-order"), order("get_order"))
    async with group(tmp_path, releases.storage, releases.entries, 0, balanced=False) as running:
        first = ChangingServer(tmp_path, "first")
        first.says(order("get-order"))
        begun = await releases.add(running, first)
        await until(lambda: "pinned as first seen" in "".join(begun.log), "the tools are pinned")
        both = await releases.add(running, releases.old)
        other = await releases.add(running, releases.new)
        await lists(both, "get-order")
        await lists(other, "get-order")
        assert await said_by(both, "get-order") == "get-order was called"
        assert await said_by(other, "get-order") == "get_order was called"
        await seen(releases.storage, "get_order")
        await approve(releases.storage, "get_order")
        await lists(other, "get_order")
        assert await said_by(other, "get_order") == "get_order was called"

        async def is_listed() -> bool:
            return "get_order" in await listed(both)

        await until(is_listed, "the approved name is listed where both are")
        assert await said_by(both, "get_order") == "get_order was called"
