"""`aggregator tools`: lists or searches the tools of every server, in the forms that models are shown."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from aggregator.accounts.app.stored import stored_accounts
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.keep_catalogs import keep_catalogs
from aggregator.catalog.describe.levels import level1, level2, level3
from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.relevance import check_weakness
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import fit

_LEVELS: Final[Mapping[int, Callable[[ToolRecord], str]]] = {1: level1, 2: level2, 3: level3}


def run(
    path: Path | None,
    query: str | None,
    server: str | None,
    level: int,
    limit: int | None,
    max_tokens: int | None,
    as_json: bool,
) -> int:
    """Print the tools, or those that match `query`, best first; return 1 if a query finds none.

    Raises:
        OperatorError: there is no such server.
    """
    tools, weak = run_loop(_tools(load_config(path, log_level="warning"), query, server, limit))
    if as_json:
        say(json.dumps([{**tool.definition, "name": tool.name} for tool in tools], ensure_ascii=False, indent=2))
    else:
        lines = [_LEVELS[level](tool) for tool in tools]
        fitted = fit(lines, max_tokens) if max_tokens is not None else None
        for line in fitted.items if fitted is not None else lines:
            say(line)
        if fitted is not None and fitted.left_out:
            say(f"{fitted.left_out} more do not fit {max_tokens} tokens.", file=sys.stderr)
    if weak:
        say(weak, file=sys.stderr)
    return 1 if query is not None and not tools else 0


async def _tools(
    loaded: Loaded, query: str | None, server: str | None, limit: int | None
) -> tuple[list[ToolRecord], str]:
    async with stored_accounts(loaded) as accounts:
        app = build_app(loaded.config.all_started(), redactor=loaded.redactor, accounts=accounts)
        tools = await _of_servers(loaded, app, server)
    found, weak = (tools, "") if query is None else _found(loaded.config, tools, query)
    return found[:limit], weak


async def _of_servers(loaded: Loaded, app: App, server: str | None) -> list[ToolRecord]:
    known = {name for upstream in app.upstreams.values() for name in (upstream.config.id, upstream.config.prefix)}
    if server is not None and server not in known:
        raise OperatorError(f"There is no server {server!r}; there are {', '.join(sorted(known)) or 'none'}.")
    async with app.running():
        await app.supervisor.wait_all_tried()
        await keep_catalogs(loaded, app.supervisor)
        return [tool for tool in app.gateway.catalog.tools if server in (None, tool.server, tool.prefix)]


def _found(config: Config, tools: list[ToolRecord], query: str) -> tuple[list[ToolRecord], str]:
    """Return the tools that fit a query, best first, and the line that says why even the best hardly does, or ""."""
    index = SearchIndex.of(
        (
            one.id,
            " ".join((one.id, one.description, *one.trigger_keywords)),
            tuple(tool for tool in tools if tool.server == one.id),
        )
        for one in config.servers
    )
    visible = index.visible_to(lambda tool: True)
    found = [hit.tool for hit in search(visible, query, len(tools))]
    return found, check_weakness(visible, query, [tool.name for tool in found])
