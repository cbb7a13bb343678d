"""`aggregator status`: how a running aggregator looks from a shell."""

import json
import signal
from pathlib import Path

from tests.end_to_end.programs import run
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.end_to_end.server_harness import write_config
from tests.operating.program_harness import ProgramHarness, server

WELL, UNWELL, NOT_RUNNING = 0, 1, 69


async def test_one_line_a_server_and_an_exit_code_for_scripts(harness: ProgramHarness) -> None:
    """Proves: E4. State, reason, tools, calls and the next try; 0 while all is well, 1 when something is away."""
    toolbox = server()
    harness.write_config({"box": toolbox, "off": {**toolbox, "enabled": False}})
    async with harness.serving() as served, over_http(served.url, MODERN) as host:
        held = harness.wait(host, "box.wait")
        await held.wait_begun()
        ended = await run("status", "--url", f"{served.url}/mcp")
        assert ended.code == WELL, ended
        first, head, *lines = [line.split() for line in ended.out.splitlines()]
        assert first[0] == f"{served.url}:"
        assert head == ["server", "state", "for", "tools", "calls", "next", "try", "reason"]
        assert [(line[0], line[1], line[3], line[4]) for line in lines] == [
            ("box", "ready", "2", "1"),
            ("off", "disabled", "0", "0"),
        ]
        await harness.reload({"box": toolbox, "gone": {"command": "no-such-program"}}, "server gone is unavailable")
        ended = await run("status", "--url", served.url)
        assert ended.code == UNWELL
        line = next(line for line in ended.out.splitlines() if line.startswith("gone"))
        assert "unavailable" in line
        assert "in " in line
        assert "'no-such-program' was not found" in line
        assert "Not available: gone." in ended.out
        ended = await run("status", "--url", served.url, "--json")
        found = json.loads(ended.out)
        assert found["servers"]["box"]["in_flight"] == 1
        assert found["servers"]["gone"]["next_try"] > found["servers"]["gone"]["since"]
        held.release()
        harness.signal(signal.SIGTERM)
        assert await harness.ended() == 0
    ended = await run("status", "--url", served.url)
    assert ended.code == NOT_RUNNING
    assert "aggregator serve" in ended.out


async def test_it_asks_where_the_configuration_says(tmp_path: Path) -> None:
    """Proves: E9. Without one, or with a port that nobody knows, it says what to do."""
    ended = await run("status", "--config", str(write_config(tmp_path, {}, http={"host": "0.0.0.0", "port": 1})))  # noqa: S104
    assert ended.code == NOT_RUNNING
    assert "http://127.0.0.1:1 " in ended.out
    ended = await run("status", "--config", str(write_config(tmp_path, {}, http={"port": 0})))
    assert ended.code == 2
    assert "--url" in ended.err
    ended = await run("status", "--url", "localhost:8642")
    assert ended.code == 2
    assert "http://" in ended.err
