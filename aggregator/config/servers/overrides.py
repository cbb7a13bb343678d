"""Environment variables `<NAME>_MCP_SERVER_URL`, `_TRANSPORT` and `_TIMEOUT`, which change or add a server."""

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.config.files.report import Report, did_you_mean
from aggregator.config.servers.checks import NEEDS, address_fault

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
    for name in (*gone, "target"):
        fields.pop(name, None)
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
        words = shlex.split(line)
    except ValueError:
        return None
    return {"command": words[0], "args": words[1:]} if words and words[0] else None
