"""A person who thinks for longer than a call may take, at a process, with the SDK's own client in both eras."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import pytest
from mcp.client.client import Client

from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import BOUND, MODERN
from tests.end_to_end.server_harness import raw_stdio_entry, write_config
from tests.server_requests.entries import FORM, stdio_entry

# A call of the asking server has to come to its first question within it, also where the machine is busy.
LIMIT: Final = 3.0
TIMES: Final = {"timeout": LIMIT, "limits": {"max_timeout": LIMIT, "timeout_resets_on_progress": True}}
CALLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "legacy": ("pester", {"key": "a", "reports": True, "requests": [[FORM["method"], FORM["params"]]] * 2}),
    "modern": ("ask", {"key": "a", "rounds": [[FORM], [FORM]]}),
}


@pytest.mark.parametrize("road", ["direct", "call_tool"])
@pytest.mark.parametrize("mode", ["legacy", MODERN])
@pytest.mark.parametrize("era", list(CALLS))
async def test_a_person_may_think_for_longer_than_the_call_may_take(
    tmp_path: Path, era: str, mode: Any, road: str
) -> None:
    """B4: `timeout` and `limits.max_timeout` count what the server needs, with reports before and after each answer."""
    servers = {"asker": stdio_entry(era, **TIMES), "other": raw_stdio_entry(timeout=LIMIT)}
    tool, arguments = CALLS[era]
    name = f"asker.{tool}"
    call = (name, arguments) if road == "direct" else ("call_tool", {"name": name, "arguments": arguments})
    asked: list[str] = []

    async with asyncio.timeout(BOUND), serving(write_config(tmp_path, servers, expose="search")) as served:
        url = f"{served.url}/mcp"

        async def person(context: Any, params: Any) -> types.ElicitResult:
            asked.append(params.message)
            if len(asked) == 1:
                # A later call with the same limit runs out of time before the answer comes.
                async with Client(url) as busy:
                    late = await busy.call_tool("other.hold", {"key": "late"})
                assert late.is_error, late
                assert f"within its limit of {LIMIT:g} s" in str(late.content), late
            return types.ElicitResult(action="accept", content={"answer": "yes"})

        async with Client(url, mode=mode, elicitation_callback=person) as client:
            result = await client.call_tool(*call)
    assert not result.is_error, result
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    assert json.dumps(json.loads(block.text)).count('"answer": "yes"') == 2
    assert len(asked) == 2
