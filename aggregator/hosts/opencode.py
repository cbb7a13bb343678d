"""opencode, and Kilo Code, which has its form: the program and its arguments in one list.

Sources: https://opencode.ai/docs/mcp-servers, https://opencode.ai/v2/docs/mcp-servers, https://opencode.ai/docs/config,
https://kilo.ai/docs/automate/mcp/using-in-kilo-code.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, HostSpelling, read_entry
from aggregator.hosts.folders import variable_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch, Scope, UnusableEntry
from aggregator.hosts.parse import UnreadableFile, is_there, parse_file

_REFERENCE: Final = re.compile(r"\{env:([A-Za-z_]\w*)\}", re.ASCII)
_FILE: Final = re.compile(r"\{file:[^{}]*\}")


def _spelling(title: str) -> HostSpelling:
    return HostSpelling(
        title,
        renamed={"environment": "env"},
        timeouts={"timeout": 0.001},
        text=lambda text: _REFERENCE.sub(r"${\1}", text),
    )


_OPENCODE: Final = _spelling("opencode")
_KILO: Final = _spelling("Kilo Code")


def _opencode_files(machine: Machine) -> tuple[HostFile, ...]:
    # It takes ~/.config on every system.
    own = (variable_folder(machine, "XDG_CONFIG_HOME") or machine.home / ".config") / "opencode"
    named = variable_folder(machine, "OPENCODE_CONFIG")
    here = machine.folder
    project = [here / ".opencode" / "opencode.json", here / ".opencode" / "opencode.jsonc"]
    project += [here / "opencode.json", here / "opencode.jsonc"]
    user = [*([named] if named is not None else []), own / "opencode.json", own / "opencode.jsonc"]
    return (
        *(_file(path, "project", here) for path in project),
        *(_file(path, "user", None) for path in (*user, own / "config.json")),
    )


def _kilo_files(machine: Machine) -> tuple[HostFile, ...]:
    own = (variable_folder(machine, "XDG_CONFIG_HOME") or machine.home / ".config") / "kilo"
    here = machine.folder
    project = [here / folder / name for folder in (".kilo", "") for name in ("kilo.json", "kilo.jsonc")]
    return (
        *(_file(path, "project", here) for path in project),
        *(_file(own / name, "user", None) for name in ("kilo.json", "kilo.jsonc")),
    )


def _file(path: Path, scope: Scope, base: Path | None) -> HostFile:
    return HostFile(path, scope, "json", _servers(path), base=base)


def _servers(path: Path) -> tuple[str, ...]:
    """Return the place of the servers: version 2 has them one level deeper."""
    with suppress(UnreadableFile):
        part = parse_file(path, "json").get("mcp") if is_there(path) else None
        inner = part.get("servers") if isinstance(part, Mapping) else None
        if isinstance(inner, Mapping) and "type" not in inner:
            return ("mcp", "servers")
    return ("mcp",)


def _reading(entry: Mapping[str, Any], spelling: HostSpelling) -> EntryReading:
    made = dict(entry)
    words = made.get("command")
    if isinstance(words, list):
        if not words or not all(isinstance(word, str) for word in words):
            raise UnusableEntry("its `command` is no list of texts")
        made["command"], made["args"] = words[0], words[1:]
    if made.get("type") == "remote":
        made["type"] = "auto"
    reading = read_entry(made, spelling)
    if _FILE.search(str(reading.fields)):
        note = f"A {{file:...}} of {spelling.title} is not read here: write ${{file:PATH}}."
        return EntryReading(reading.fields, (*reading.notes, note))
    return reading


def _entry(launch: OwnLaunch) -> dict[str, Any]:
    if launch.url is not None:
        headers = {"headers": dict(launch.headers)} if launch.headers else {}
        return {"type": "remote", "url": launch.url, **headers}
    made: dict[str, Any] = {"type": "local", "command": [launch.command, *launch.args]}
    return {**made, "environment": dict(launch.env)} if launch.env else made


OPENCODE: Final = HostProgram(
    id="opencode",
    title="opencode",
    source="https://opencode.ai/docs/mcp-servers",
    files=_opencode_files,
    read=lambda entry: _reading(entry, _OPENCODE).fields,
    notes=lambda entry: _reading(entry, _OPENCODE).notes,
    write=_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("opencode", declares=()),
    program="opencode",
    shell_path=True,
    all_variables=True,
    header_variable="{env:NAME}",
    reload="Start opencode again.",
    errors="`opencode mcp list`",
    shows="`opencode mcp list` shows whether it connects.",
)
KILO_CODE: Final = HostProgram(
    id="kilo-code",
    title="Kilo Code",
    source="https://kilo.ai/docs/automate/mcp/using-in-kilo-code",
    files=_kilo_files,
    read=lambda entry: _reading(entry, _KILO).fields,
    notes=lambda entry: _reading(entry, _KILO).notes,
    write=_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("Kilo-Code", prefix="{}_", spellings="(?<![a-z])kilo[^a-z]*code(?![a-z])", declares=()),
    also=("kilo", "kilocode"),
    program="kilo",
    shell_path=True,
    header_variable="{env:NAME}",
    reload="Reload the window of the editor, or start Kilo again.",
    errors="`kilo mcp list`",
    shows="`kilo mcp list` shows whether it connects.",
)
