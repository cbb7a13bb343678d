"""`aggregator call`: one call of one tool, through every step that a call of a host goes through."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.app.build import build_app
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config, storage_url
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.domain.errors import CallRefused, OperatorError, RpcError, UpstreamError
from aggregator.domain.principal import LOCAL, Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.error_text import error_text
from aggregator.domain.versions import LATEST_LEGACY
from aggregator.gateway.host import Host
from aggregator.identity.launch import launch_agent
from aggregator.pins.app.locked import lock_beside
from aggregator.wire.codec import decode
from aggregator.wire.peer import NoBackChannel

_TAKEN_FOR_ARGUMENTS: Final = (
    "aggregator: --json prints the result as JSON. The object was taken for the arguments; give them with --arguments."
)


def run(
    path: Path | None, agent: str | None, name: str, pairs: list[str], json_arguments: str | None, as_json: bool = False
) -> int:
    """Call the tool and print its result, whole with `as_json`; return 1 if the result is an error.

    `pairs` may be one JSON object. With `as_json` it may stand before the name, as `--json` once took it.

    Raises:
        OperatorError: the arguments are no JSON object, or a pair is not `key=value`.
        RpcError: there is no such tool, or the upstream answered with a JSON-RPC error.
    """
    if pairs and json_arguments is not None:
        raise OperatorError("Give the arguments as key=value or with --arguments, not both.")
    if as_json and _is_object(name) and len(pairs) == 1:
        name, pairs = pairs[0], [name]
    if len(pairs) == 1 and _is_object(pairs[0]):
        pairs, json_arguments = [], pairs[0]
        if as_json:
            say(_TAKEN_FOR_ARGUMENTS, file=sys.stderr)
    loaded = load_config(path, log_level="error")
    app_agent = launch_agent(agent, os.environ)
    result = run_loop(_call(loaded, app_agent, name, pairs, json_arguments))
    if as_json:
        say(json.dumps(result, ensure_ascii=False, indent=2))
        return 1 if result.get("isError") else 0
    for block in result.get("content", []):
        if block.get("type") == "text":
            say(str(block.get("text", "")).expandtabs())
        else:
            say(json.dumps(block, ensure_ascii=False))
    if not result.get("content") and "structuredContent" in result:
        say(json.dumps(result["structuredContent"], ensure_ascii=False, indent=2))
    return 1 if result.get("isError") else 0


async def _call(
    loaded: Loaded, agent: str | None, name: str, pairs: list[str], json_arguments: str | None
) -> Mapping[str, Any]:
    app = build_app(
        loaded.config,
        loaded.policies,
        storage_url(loaded),
        keeps_records=True,
        redactor=loaded.redactor,
        lock=lock_beside(loaded.path),
    )
    principal = Principal(agent) if agent is not None else LOCAL
    async with app.running():
        tool: ToolRecord | None = None
        # An unknown or forbidden tool is reported by the call itself, which leaves an audit row.
        with suppress(CallRefused, RpcError, UpstreamError):
            tool = await app.gateway.find(principal, name)
        arguments = _parse_json(json_arguments) if json_arguments is not None else _parse_pairs(pairs, tool)
        host = Host("cli", "canonical", principal, version=LATEST_LEGACY)
        return await app.gateway.answer(host, "tools/call", {"name": name, "arguments": arguments}, _Silent())


class _Silent:
    request_id = "cli"

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Print a progress notification to stderr."""
        total = f" of {params['total']}" if "total" in params else ""
        say(f"{params.get('progress')}{total} {params.get('message', '')}".rstrip(), file=sys.stderr)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel


def _is_object(text: str) -> bool:
    """Tell whether a word of the command line is a JSON object; no name and no key begins like one."""
    return text.lstrip().startswith("{")


def _parse_json(text: str) -> dict[str, Any]:
    try:
        arguments = decode(text.encode())
    except ValueError as error:
        raise OperatorError(f"The arguments are not JSON: {error_text(error)}.") from error
    if not isinstance(arguments, dict):
        raise OperatorError('--arguments must be an object, such as \'{"city": "Beijing"}\'.')
    return arguments


def _parse_pairs(pairs: list[str], tool: ToolRecord | None) -> dict[str, Any]:
    properties = tool.definition["inputSchema"].get("properties") if tool is not None else None
    arguments = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise OperatorError(f"{pair!r} is not key=value; quote it if the value holds spaces.")
        schema = properties.get(key) if isinstance(properties, dict) else None
        arguments[key] = value if _wants_text(schema, value) else _as_json(value)
    return arguments


def _wants_text(schema: Any, text: str) -> bool:
    """Return whether a schema takes this text as a string: by `type`, `enum`, or a branch of `anyOf` or `oneOf`."""
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    branches = [*_listed(schema.get("anyOf")), *_listed(schema.get("oneOf"))]
    listed = kind == "string" or "string" in _listed(kind) or text in _listed(schema.get("enum"))
    return listed or any(_wants_text(branch, text) for branch in branches)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_json(text: str) -> Any:
    try:
        return decode(text.encode())
    except ValueError:
        return text
