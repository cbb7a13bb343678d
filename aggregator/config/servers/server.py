"""Build a server of one entry of `mcpServers`, or report why not; variables `<NAME>_MCP_SERVER_URL` change or add one.

Law: one bad entry never affects another.
"""

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from aggregator.config.durations import format_duration
from aggregator.config.files.jsonfile import kind
from aggregator.config.files.report import Report, Where, did_you_mean
from aggregator.config.files.wording import ConfigComplaint, complaints
from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import DEFAULT_MAX_TIMEOUT
from aggregator.config.servers.checks import (
    NEEDS,
    address_fault,
    likely_milliseconds,
    settle_type,
    unsound,
    without_effect,
)
from aggregator.config.servers.entry import ServerEntry, fill, name, note_keys
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.late import literal_secrets, with_placeholders, without_late
from aggregator.config.servers.secrets import secrets_in
from aggregator.domain.shell import split_line

# Fields that keep an unresolved reference in a server that is switched off for it; others take their default.
_MAY_KEEP_REFERENCES = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "proxy", "launch", "description", "trigger_keywords"}
)
_VARIABLE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_]*)_MCP_(SERVER_URL|TRANSPORT|TIMEOUT)")
_TRANSPORTS = {"sse": "sse", "stdio": "stdio", "http": "http", "streamable-http": "http", "streamable_http": "http"}
_OF_PROGRAMS = ("command", "args", "env", "cwd")
_OF_ADDRESSES = ("url", "headers", "proxy", "launch")


@dataclass(frozen=True)
class Override:
    """The checked variables about one server. The address may be a command line; the timeout is in seconds."""

    name: str
    address: str | None = None
    transport: str | None = None
    timeout: float | None = None


def read_overrides(environ: Mapping[str, str], report: Report) -> dict[str, Override]:
    """Return the overrides by server name in capitals; each value that cannot be used is a warning."""
    raw: dict[str, dict[str, str]] = {}
    for variable in sorted(environ):
        found = _VARIABLE.fullmatch(variable)
        if found and environ[variable].strip():
            raw.setdefault(found[1].upper(), {})[found[2]] = environ[variable].strip()
    checked = (_checked(name, values, report) for name, values in raw.items())
    return {found.name: found for found in checked if found != Override(found.name)}


def apply(override: Override, fields: dict[str, object], report: Report) -> set[str]:
    """Change an entry's fields; return the names of the fields that no longer have the value of the file."""
    changed: set[str] = set()
    if override.address is not None:
        changed |= _readdress(override, override.address, fields, report)
    elif override.transport is not None:
        changed |= _retype(override, override.transport, fields, report)
    if override.timeout is not None:
        fields["timeout"] = override.timeout
        changed.add("timeout")
    return changed


def _checked(name: str, values: Mapping[str, str], report: Report) -> Override:
    transport = values.get("TRANSPORT")
    if transport is not None and transport.lower() not in _TRANSPORTS:
        report.warning(
            (f"{name}_MCP_TRANSPORT",),
            "Expected sse, stdio or http.",
            did_you_mean(transport, _TRANSPORTS) or "Until then it counts as not set.",
        )
    timeout = _milliseconds(values.get("TIMEOUT"))
    if "TIMEOUT" in values and timeout is None:
        report.warning(
            (f"{name}_MCP_TIMEOUT",),
            "Expected a number of milliseconds above zero, such as 30000.",
            "Until then it counts as not set.",
        )
    return Override(name, values.get("SERVER_URL"), _TRANSPORTS.get(transport.lower()) if transport else None, timeout)


def _milliseconds(text: str | None) -> float | None:
    try:
        value = float(text or "") / 1000
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _readdress(override: Override, address: str, fields: dict[str, object], report: Report) -> set[str]:
    known = fields.get("type")
    kind = override.transport or (known if known in ("sse", "http", "auto") else "auto")
    made = _command(address) if kind == "stdio" else {"url": address} if not address_fault(address) else None
    if made is None:
        fault = "This is not a command line." if kind == "stdio" else address_fault(address)
        report.warning((f"{override.name}_MCP_SERVER_URL",), str(fault), "Correct it; until then it counts as not set.")
        return set()
    gone = _OF_ADDRESSES if kind == "stdio" else _OF_PROGRAMS
    for gone_field in (*gone, "target"):
        fields.pop(gone_field, None)
    fields |= made | {"type": kind}
    return {*gone, *made, "target", "type"}


def _retype(override: Override, transport: str, fields: dict[str, object], report: Report) -> set[str]:
    need = NEEDS[transport]
    if not fields.get(need):
        report.warning(
            (f"{override.name}_MCP_TRANSPORT",),
            f"The server has no `{need}`, which the transport {transport} needs.",
            f"Set {override.name}_MCP_SERVER_URL as well; until then it counts as not set.",
        )
        return set()
    fields["type"] = transport
    return {"type"}


def _command(line: str) -> dict[str, object] | None:
    try:
        words = split_line(line)
    except ValueError:
        return None
    return {"command": words[0], "args": words[1:]} if words and words[0] else None


@dataclass
class ServerReader:
    """A reader of entries one after the other; `ids` and `prefixes` have the key of the entry that holds each name.

    `variables` gets what each entry looks up in the environment, by its key.
    """

    expander: Expander
    environment: Report
    variables: dict[str, Mapping[str, bool]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)

    def read(
        self, key: str, raw: object, where: Where, report: Report, override: Override | None
    ) -> ServerConfig | None:
        """Return the server, switched off if a variable is missing; None, with errors reported, for a faulty one."""
        if not isinstance(raw, Mapping):
            fix = 'Write {"command": ...} or {"url": ...}.'
            report.error(where, f"Expected an object in {{ }}, got {kind(raw)}.", fix, key)
            return None
        expander = replace(self.expander, looked_up={})
        self.variables[key] = expander.looked_up
        entry = fill(key, raw, where, report, expander)
        if override:
            entry.changed = apply(override, entry.fields, self.environment)
        entry.late = tuple(text for text in entry.late if text.where[0] not in entry.changed)
        known = without_late(entry.fields, entry.late)
        self.expander.secrets.update(filter(None, (*secrets_in(known), *literal_secrets(entry.late))))
        off = _switched_off(entry)
        if not name(entry):
            return None
        allowed = note_keys(entry)
        _note_gaps(entry, off)
        server = _validated(entry, off) if allowed and _makes_sense(entry) else None
        if server is None or not self._take(entry, server):
            return None
        return _settled(entry, server, self.expander.folder)

    def _take(self, entry: ServerEntry, server: ServerConfig) -> bool:
        """Claim the names; the first entry that has one keeps it."""
        if holder := self.ids.get(server.id):
            message = f'The name `{server.id}` is already that of "{holder}".'
            entry.error(ConfigComplaint((), message, "Rename one of the two keys."))
        elif not server.prefix and not server.enabled:
            # A server that is switched off does not reserve the empty prefix.
            self.ids[server.id] = entry.key
            return True
        elif (holder := self.prefixes.get("")) and not server.prefix:
            message = f'Only one server can do without a prefix, and "{holder}" does.'
            entry.error(ConfigComplaint(("prefix",), message, 'Give one of the two a "prefix", or switch it off.'))
        elif holder := self.prefixes.get(server.prefix):
            message = f'The prefix `{server.prefix}` is already that of "{holder}".'
            place = ("prefix",) if "prefix" in entry.raw else ()
            entry.error(ConfigComplaint(place, message, 'Give one of the two another "prefix".'))
        else:
            self.ids[server.id] = self.prefixes[server.prefix] = entry.key
            return True
        return False


def _switched_off(entry: ServerEntry) -> str | None:
    """Return why missing variables switch a server off; None if they do not. Fields that need a value lose theirs."""
    entry.gaps = [gap for gap in entry.gaps if entry.field_of(gap) not in entry.changed]
    for field_name in {entry.field_of(gap) for gap in entry.gaps} - _MAY_KEEP_REFERENCES:
        entry.fields.pop(field_name, None)
    if entry.fields.get("enabled") is False:
        entry.gaps = []  # the operator switched it off already, perhaps because the variable is missing
    return entry.gaps[0].error.message if entry.gaps else None


def _note_gaps(entry: ServerEntry, off: str | None) -> None:
    for where, error in entry.gaps if off else ():
        place = (*entry.where, *where)
        entry.report.warning(place, f"{error.message} The server is switched off.", error.fix, entry.id)


def _makes_sense(entry: ServerEntry) -> bool:
    """Report the problems of an entry as a whole; return whether it can be used."""
    if fault := settle_type(entry.fields):
        entry.error(fault)
        return False
    whole = entry.fields.keys() - {entry.field_of(gap) for gap in entry.gaps}
    fields = with_placeholders(entry.fields, entry.late)
    faults = list(unsound({key: fields[key] for key in whole}))
    for fault in faults:
        entry.error(fault)
    as_written = {key: value for key, value in entry.fields.items() if key not in entry.changed}
    server_type = entry.fields["type"]
    if isinstance(server_type, str) and server_type in NEEDS:
        for hint in without_effect(as_written, server_type):
            if hint.where != ("env",) or not _refers_to_own(entry.raw):
                entry.warn(hint)
    for hint in likely_milliseconds(as_written):
        entry.warn(hint)
    return not faults


def _refers_to_own(raw: Mapping[str, object]) -> bool:
    """Return whether another field of an entry refers to a variable of its own `env`, as `headers` of a URL may."""
    own = raw.get("env")
    others = json.dumps({key: value for key, value in raw.items() if key != "env"}, ensure_ascii=False)
    ways = ("${%s}", "${%s:-", "${env:%s}")
    return isinstance(own, Mapping) and any(way % name in others for name in own for way in ways)


def _validated(entry: ServerEntry, off: str | None) -> ServerConfig | None:
    values: dict[str, object] = {"description": entry.key, **entry.fields, "id": entry.id, "key": entry.key}
    if off:
        values |= {"enabled": False, "disabled_reason": off}
    try:
        return ServerConfig.model_validate(values)
    except ValidationError as error:
        for fault in complaints(error, entry.raw, entry.place):
            entry.error(fault)
        return None


def _settled(entry: ServerEntry, server: ServerConfig, folder: Path) -> ServerConfig:
    """Return a server with consistent time-outs, absolute paths, and the texts that are completed later."""
    update: dict[str, object] = {"references": entry.late} if entry.late else {}
    longest = max((server.timeout, *server.tools.timeout.values()))
    limits = server.limits
    if longest > limits.max_timeout and "max_timeout" not in limits.model_fields_set:
        update["limits"] = limits.model_copy(update={"max_timeout": max(longest, DEFAULT_MAX_TIMEOUT)})
    elif longest > limits.max_timeout:
        message = f"A time-out of {format_duration(longest)} is above the maximum, which cuts it short."
        entry.warn(ConfigComplaint(("limits", "max_timeout"), message, "Raise it, or lower the time-out."))
        update["timeout"] = min(server.timeout, limits.max_timeout)
    if server.cwd:
        update["cwd"] = _folder(folder, server.cwd)
    elif server.command and _is_relative(server.command):
        update["command"] = _folder(folder, server.command)
    if server.tls is not None:
        named = {name: getattr(server.tls, name) for name in ("ca", "client_cert", "client_key")}
        files = {name: _folder(folder, path) for name, path in named.items() if path is not None}
        update["tls"] = server.tls.model_copy(update=files)
    if server.launch and server.launch.cwd:
        update["launch"] = server.launch.model_copy(update={"cwd": _folder(folder, server.launch.cwd)})
    elif server.launch and _is_relative(server.launch.command):
        update["launch"] = server.launch.model_copy(update={"command": _folder(folder, server.launch.command)})
    return server.model_copy(update=update) if update else server


def _is_relative(command: str) -> bool:
    """Return whether a program is named by a relative path, not to be looked up on `PATH`."""
    return bool(os.path.dirname(command)) and not os.path.isabs(command)


def _folder(base: Path, written: str) -> str:
    return str(base / os.path.expanduser(written))
