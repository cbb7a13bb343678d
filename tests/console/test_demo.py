"""The demo, which shows the console with life in it: its agents call, and nothing of it is left when it ends."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx2
import pytest

from benchmarks.systems import free_port
from tests.console.console_harness import FORM, OWN_PAGE
from tests.polling import until

ROOT: Final = Path(__file__).parents[2]
# Seconds within which it writes its past and starts twice.
_START: Final = 90.0


# The bounds of its waits together are longer than a test may take.
@pytest.mark.timeout(300)
async def test_the_demo_calls_and_ends(tmp_path: Path) -> None:
    """The calls of its agents are counted at its own console; SIGTERM ends it with its gateway and its folder."""
    port = free_port()
    command = ["-m", "tests.console.demo", "--port", str(port), "--calls", "1200"]
    demo = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, env={"TMPDIR": str(tmp_path)}
    )
    try:
        assert demo.stdout is not None
        async with asyncio.timeout(_START):
            link = (await demo.stdout.readline()).decode().strip()
        assert link.startswith(f"http://127.0.0.1:{port}/console/enter/"), link
        async with httpx2.AsyncClient(timeout=20) as client:
            entered = await client.post(link, headers={**OWN_PAGE, **FORM}, content=b"")
            assert entered.status_code == 303, entered.text
            console = f"http://127.0.0.1:{port}/console"
            begun = (await client.get(f"{console}/calls.json?q=frontend:http")).json()["newest"]

            async def they_call() -> bool:
                rows = (await client.get(f"{console}/calls.json?q=frontend:http+status:ok")).json()["rows"]
                waiting = (await client.get(f"{console}/approvals.json")).json()["waiting_calls"]
                new = [row for row in rows if row["seq"] > begun]
                return len(new) >= 10 and len({row["agent_id"] for row in new}) >= 3 and len(waiting) == 2

            await until(they_call, "the agents call, and two calls wait for a person")

            async def is_held() -> bool:
                held = (await client.get(f"{console}/overview.json")).json()["held"]
                return [(one["id"], one["count"]) for one in held] == [("maps", 1)]

            await until(is_held, "what the maps changed is held")
        demo.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await demo.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            demo.kill()
    async with httpx2.AsyncClient(timeout=5) as client:
        with suppress(httpx2.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/healthz")
            raise AssertionError("its gateway still runs")
    assert not await asyncio.to_thread(os.listdir, tmp_path), "its folder is left"
