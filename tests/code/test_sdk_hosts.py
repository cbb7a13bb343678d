"""Programs from the SDK's own client, at a process, in both eras: a person agrees in the middle of one."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import pytest
from mcp.client.client import Client

from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import BOUND, MODERN
from tests.end_to_end.server_harness import local_entry, write_config

POLICIES: Final = {"agents": {"local": {"allow": ["*"], "confirm": ["here.grow"], "expose": "code"}}}
CODE: Final = (
    "first = call_tool('here.echo', {'n': 1})\n"
    "call_tool('here.grow', {'name': 'grown'})\n"
    "print('agreed', type(first).__name__)\n"
    "try:\n    call_tool('here.nothing')\nexcept RuntimeError as error:\n    print('caught', str(error)[:12])"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "main.yaml").write_text(json.dumps(POLICIES))
    return write_config(tmp_path, {"here": local_entry()})


@pytest.mark.parametrize("mode", ["legacy", MODERN])
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_program_that_has_to_ask(config: Path, mode: Any, agreed: bool) -> None:
    """The client's own callback answers, and the program goes on or is told."""
    asked: list[str] = []

    async def person(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"allow": agreed})

    async with (
        asyncio.timeout(BOUND),
        serving(config) as served,
        Client(f"{served.url}/mcp", mode=mode, elicitation_callback=person) as client,
    ):
        assert "run_code" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("run_code", {"code": CODE})
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    assert len(asked) == 1
    assert "grow" in asked[0]
    assert result.is_error is not agreed
    assert block.text.startswith("agreed dict\ncaught Unknown tool" if agreed else "Traceback"), block.text
