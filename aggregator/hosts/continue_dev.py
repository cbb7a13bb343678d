"""Continue. Sources: https://docs.continue.dev/customize/deep-dives/mcp, https://docs.continue.dev/reference."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import children, variable_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch, Scope, UnusableEntry

_REFERENCE: Final = re.compile(r"\$\{\{\s*(?:secrets|inputs|env)\.(?:[\w-]+/)*([A-Za-z_]\w*)\s*\}\}", re.ASCII)
_SPELLING: Final = HostSpelling(
    "Continue",
    timeouts={},
    connect_timeouts={"connectionTimeout": 0.001},
    text=lambda text: _REFERENCE.sub(r"${\1}", text),
    silent=frozenset({"faviconUrl", "sourceFile", "sourceSlug"}),
)


def _files(machine: Machine) -> tuple[HostFile, ...]:
    own = variable_folder(machine, "CONTINUE_GLOBAL_DIR") or machine.home / ".continue"
    found = [
        *_blocks(machine.folder / ".continue", machine.folder),
        HostFile(own / "config.yaml", "user", "yaml", ("mcpServers",), is_list=True),
        *_blocks(own, None),
        HostFile(own / "config.json", "user", "json", ("mcpServers",), is_list=True),
        HostFile(own / "config.json", "user", "json", ("experimental", "modelContextProtocolServers"), is_list=True),
    ]
    return tuple(found)


def _blocks(folder: Path, base: Path | None) -> list[HostFile]:
    """Return the files of single servers: YAML with a list, or JSON in the form of Claude Desktop."""
    scope: Scope = "user" if base is None else "project"
    return [
        HostFile(path, scope, "json", ("mcpServers",), base=base)
        if path.suffix.lower() == ".json"
        else HostFile(path, scope, "yaml", ("mcpServers",), is_list=True, base=base)
        for path in children(folder / "mcpServers", ".yaml", ".yml", ".json")
    ]


def _reading(entry: Mapping[str, Any]) -> EntryReading:
    if "uses" in entry and "command" not in entry and "url" not in entry:
        raise UnusableEntry("it is taken from Continue's hub, which alone knows the program that starts it")
    made = dict(entry)
    options = made.pop("requestOptions", None)
    if isinstance(options, Mapping) and isinstance(options.get("headers"), Mapping):
        made.setdefault("headers", options["headers"])
    key = made.pop("apiKey", None)
    if isinstance(key, str) and key:
        headers = made.get("headers")
        made["headers"] = {"Authorization": f"Bearer {key}", **(headers if isinstance(headers, Mapping) else {})}
    if str(made.get("type", "")).lower() == "websocket":
        raise UnusableEntry("its `type` is websocket, which is not spoken here")
    return read_entry(made, _SPELLING)


def _entry(launch: OwnLaunch) -> dict[str, Any]:
    if launch.url is not None:
        options = {"requestOptions": {"headers": dict(launch.headers)}} if launch.headers else {}
        return {"name": "aggregator", "type": "streamable-http", "url": launch.url, **options}
    return plain_entry(launch, name="aggregator", type="stdio")


CONTINUE: Final = HostProgram(
    id="continue",
    title="Continue",
    source="https://docs.continue.dev/customize/deep-dives/mcp",
    files=_files,
    read=lambda entry: _reading(entry).fields,
    notes=lambda entry: _reading(entry).notes,
    write=_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("continue-client", declares=()),
    shell_path=True,
    header_variable="${{ secrets.NAME }}",
    reload="Reload the window of the editor.",
)
