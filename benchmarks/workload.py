"""Generated worlds: catalogs with schemas as real servers have them, and policy files for any number of agents."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.validate import validate_tools
from aggregator.config.load import load
from aggregator.config.model import Config
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.identity.keys import new_key, policy_line

_SERVERS: Final = 10
_AGENTS_A_FILE: Final = 250
_VERBS: Final = ("get", "list", "find", "create", "delete")

# What fits the schemas below, and what does not: a number as text, a field too few, one that is out of bounds.
FITS: Final[Mapping[str, Any]] = {
    "query": "routes from the station to the harbour",
    "limit": 20,
    "sort": "newest",
    "tags": ["public", "current"],
    "filter": {"after": "2026-01-31", "owners": [{"id": 7, "name": "Ada"}, {"id": 8, "name": "Grace"}]},
}
BREAKS: Final[Mapping[str, Any]] = {**{k: v for k, v in FITS.items() if k != "query"}, "limit": "20", "sort": "oldish"}
# Fits the tool's own schema, and not what the policy adds to it.
LOOSE: Final[Mapping[str, Any]] = {**FITS, "limit": 90}
ANSWERS: Final[Mapping[str, Any]] = {
    "content": [{"type": "text", "text": "2 routes"}],
    "structuredContent": {"total": 2, "items": [{"id": 1, "title": "by tram"}, {"id": 2, "title": "on foot"}]},
}
WRONG: Final[Mapping[str, Any]] = {**ANSWERS, "structuredContent": {"total": "2", "items": [{"id": 1}]}}


@dataclass(frozen=True, slots=True)
class Workload:
    """A catalog, the folder of the policies, and who asks, with the key of each."""

    config: Config
    catalog: Catalog
    policies: Path
    agents: tuple[Principal, ...]
    keys: tuple[str, ...]


def make_workload(folder: Path, tools: int, agents: int) -> Workload:
    """Files for `agents` agents, each with rules of its own, and `tools` tools of ten servers."""
    servers = {f"s{number}": {"command": "true", "output_validation": "enforce"} for number in range(_SERVERS)}
    path = folder / "world.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    config = load(path, {}).config
    records: list[ToolRecord] = []
    for at, server in enumerate(config.servers):
        definitions = [_definition(number) for number in range(at, tools, _SERVERS)]
        vetted, warnings = validate_tools(server, definitions, ambiguous=False, name_limit=47)
        assert not warnings, warnings
        records += vetted
    policies = folder / f"policies-{tools}-{agents}"
    policies.mkdir()
    names = [f"agent-{number}" for number in range(agents)]
    keys = _write_policies(policies, names)
    return Workload(config, Catalog(records), policies, tuple(map(Principal, names)), keys)


def _definition(number: int) -> dict[str, Any]:
    """No two are equal, as no two real tools are."""
    owner = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    item = {"type": "object", "properties": {"id": {"type": "integer"}, "title": {"type": "string"}}}
    return {
        "name": f"{_VERBS[number // _SERVERS % len(_VERBS)]}_{number}",
        "description": "Finds what is asked for, newest first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": f"What to look for in part {number}."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "sort": {"enum": ["newest", "oldest", "name"]},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 20},
                "filter": {
                    "type": "object",
                    "properties": {"after": {"type": "string"}, "owners": {"type": "array", "items": owner}},
                    "additionalProperties": False,
                },
            },
            "required": ["query"],
        },
        "outputSchema": {
            "type": "object",
            "description": f"What part {number} has.",
            "properties": {
                "total": {"type": "integer"},
                "items": {"type": "array", "items": {**item, "required": ["id", "title"]}},
            },
            "required": ["total", "items"],
        },
    }


def _write_policies(folder: Path, names: list[str]) -> tuple[str, ...]:
    folder.joinpath("roles.yaml").write_text(
        "roles:\n"
        "  everybody: { allow: ['s?.get_*', 's?.list_*'], limits: { '*': { concurrent: 1000 } } }\n"
        "  reader: { roles: [everybody], allow: ['s0.*', 's1.*', 's2.*'], deny: ['*.delete_*'] }\n"
        "  writer: { roles: [reader], allow: ['s3.*', 's4.create_*'], read_only: ['s3.get_*'] }\n"
    )
    keys = []
    for start in range(0, len(names), _AGENTS_A_FILE):
        lines = ["agents:"]
        for number, name in enumerate(names[start : start + _AGENTS_A_FILE], start):
            key = new_key(name, now=time.time())
            keys.append(key.text)
            lines += [
                f"  {name}:",
                f"    keys: ['{policy_line(key.record)}']",
                f"    roles: [{'writer' if number % 2 else 'reader'}]",
                f"    allow: [s5.find_{number}, 's{number % _SERVERS}.*']",
                f"    deny: [s6.get_{number}]",
                "    arguments: { 's0.*': { properties: { limit: { maximum: 50 } }, required: [query] } }",
                "    limits: { 's0.*': { per_minute: 1000000 } }",
            ]
        folder.joinpath(f"agents-{start}.yaml").write_text("\n".join(lines) + "\n")
    return tuple(keys)
