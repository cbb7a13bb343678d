"""`aggregator tools`."""

import json
from pathlib import Path

from aggregator.app import App
from aggregator.cli.setup import load_config, run_loop
from aggregator.config.model import Config
from aggregator.domain.records import ToolRecord

_LINE = 100


def run(path: Path | None, server: str | None, as_json: bool) -> int:
    """Print every tool's canonical name and the start of its description, or the whole definitions."""
    tools = run_loop(_tools(load_config(path, log_level="warning").config, server))
    if as_json:
        print(json.dumps([{**tool.definition, "name": tool.name} for tool in tools], ensure_ascii=False, indent=2))
        return 0
    width = max((len(tool.name) for tool in tools), default=0)
    for tool in tools:
        text = " ".join(str(tool.definition.get("description") or tool.definition.get("title") or "").split())
        room = max(_LINE - width - 2, 20)
        print(f"{tool.name:<{width}}  {text if len(text) <= room else text[: room - 1] + '…'}".rstrip())
    return 0


async def _tools(config: Config, server: str | None) -> list[ToolRecord]:
    app = App(config)
    async with app.running():
        await app.supervisor.all_tried()
        return [tool for tool in app.gateway.catalog.tools if server in (None, tool.server, tool.prefix)]
