"""Calls under way at several workers: each page has those of all."""

import shutil
from http import HTTPStatus
from pathlib import Path

from tests.console.browser.gateway import NOT_KNOWN_YET, Gateway
from tests.console.demo.world import write_world
from tests.end_to_end.programs import serving
from tests.polling import until

# Connections that are shared out between two workers.
_ASKED = 6


async def test_every_worker_shows_the_calls_of_all(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    world = write_world(folder, at_once=True)
    async with serving(world.config, "--workers", "2") as program:
        gateway = Gateway(world, program.url, program.log)
        key = await gateway.console_key("desk", "viewer")

        async def all_pages_have_it() -> bool:
            found = []
            for _ in range(_ASKED):
                async with gateway.client(key) as client:
                    answer = await client.get("/console/calls.json?q=tool:waiting.hold")
                    if answer.status_code in NOT_KNOWN_YET:
                        # The key is known to one of the workers.
                        return False
                    assert answer.status_code == HTTPStatus.OK, answer.text
                    found.append([one["name"] for one in answer.json()["running"]["calls"]])
            return found == [["waiting.hold"]] * _ASKED

        async with gateway.host("sales-desk") as host:
            call = host.call("waiting.hold", {"key": "a"})
            await until(all_pages_have_it, "each worker shows it")
            call.drop()
