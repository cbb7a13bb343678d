"""Build a server of one entry of `mcpServers`, or report why not.

Law: one bad entry never affects another.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from aggregator.config.durations import format_duration
from aggregator.config.files.jsonfile import kind
from aggregator.config.files.report import Report, Where
from aggregator.config.files.wording import ConfigComplaint, complaints
from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import DEFAULT_MAX_TIMEOUT
from aggregator.config.servers.checks import NEEDS, likely_milliseconds, settle_type, unsound, without_effect
from aggregator.config.servers.entry import ServerEntry, fill, name, note_keys
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.late import literal_secrets, with_placeholders, without_late
from aggregator.config.servers.overrides import Override, apply
from aggregator.config.servers.secrets import secrets_in

# Fields that keep an unresolved reference in a server that is switched off for it; others take their default.
_MAY_KEEP_REFERENCES = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "proxy", "launch", "description", "trigger_keywords"}
)


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
        """Return the server, switched off where a variable is missing; None, with errors reported, for a faulty one."""
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
    """Report what is wrong with an entry as a whole; return whether it can be used."""
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
            entry.warn(hint)
    for hint in likely_milliseconds(as_written):
        entry.warn(hint)
    return not faults


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
