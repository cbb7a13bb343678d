"""A configuration, policies and SDK servers for programs that have the aggregator inside themselves."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import write_policies
from tests.peers.toolbox import Json, tool

BOUND: Final = 20.0
TEXT: Final[Json] = {"type": "string"}


class ConfigFolder:
    """A folder with `aggregator.json`, a database, and `policies` where there are any.

    `database` is an empty one to copy, since making one takes longer than most tests.
    """

    database: ClassVar[bytes] = b""

    def __init__(self, folder: Path, servers: Mapping[str, Json], policies: object = None, **settings: Any) -> None:
        self.folder = folder
        self.path = folder / "aggregator.json"
        (folder / "kept.db").write_bytes(self.database)
        storage = f"sqlite+aiosqlite:///{folder}/kept.db"
        # Lists end with the tool to read on large results only where a test asks for that.
        whole = {"results": {"max_tokens": 0}}
        self.path.write_text(json.dumps({"mcpServers": servers, "storage": storage, **whole, **settings}))
        if policies is not None:
            self.set_policies(policies)

    def set_policies(self, policies: object) -> None:
        """Other rules; they are in force in a moment."""
        write_policies(self.folder / "policies", policies)

    def __fspath__(self) -> str:
        return os.fspath(self.path)


def recording_server(*names: str, **answers: Json) -> RecordingToolbox:
    """A server with these tools, which take anything, and these answers."""
    return RecordingToolbox([tool(name, f"The {name} tool.\nIn two lines.") for name in (*names, *answers)], answers)


def tool_call(tool: BaseTool, /, **arguments: Any) -> Json:
    """A call as a model makes it."""
    return {"type": "tool_call", "id": "call-1", "name": tool.name, "args": arguments}


async def tool_message(tool: BaseTool, /, **arguments: Any) -> ToolMessage:
    """The message a model gets for a call."""
    message = await tool.ainvoke(tool_call(tool, **arguments))
    assert isinstance(message, ToolMessage)
    assert (message.tool_call_id, message.name) == ("call-1", tool.name)
    return message


def tools_by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}
