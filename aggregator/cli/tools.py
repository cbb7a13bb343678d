"""`aggregator tools`."""

import json
from pathlib import Path
from unicodedata import east_asian_width

from aggregator.app import App
from aggregator.cli.setup import load_config, run_loop
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
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
        print(f"{tool.name:<{width}}  {_cut(text, max(_LINE - width - 2, 20))}".rstrip())
    return 0


def _cut(text: str, room: int) -> str:
    """As much of `text` as fits so many columns; Chinese characters take two."""
    used = 0
    for at, char in enumerate(text):
        used += 2 if east_asian_width(char) in "WF" else 1
        if used > room - 1 and at + 1 < len(text):
            return text[:at] + "…"
    return text


async def _tools(config: Config, server: str | None) -> list[ToolRecord]:
    app = App(config)
    known = {name for link in app.links.values() for name in (link.config.id, link.config.prefix)}
    if server is not None and server not in known:
        raise OperatorError(f"There is no server {server!r}; there are {', '.join(sorted(known)) or 'none'}.")
    async with app.running():
        await app.supervisor.all_tried()
        return [tool for tool in app.gateway.catalog.tools if server in (None, tool.server, tool.prefix)]
