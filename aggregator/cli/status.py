"""`aggregator status`: prints the health report of a running `aggregator serve`."""

import json
import os
import re
import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.app.health_page import address, asked
from aggregator.cli.runtime.setup import find
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.config.durations import format_duration
from aggregator.config.errors import ConfigError
from aggregator.config.load import load_found
from aggregator.config.servers.checks import address_fault
from aggregator.config.settings import TlsConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text

# EX_UNAVAILABLE of sysexits.h.
NOT_RUNNING: Final = 69
_WELL: Final = frozenset({"ready", "disabled", "stopped"})
_REPLICA_HEAD: Final = ("replica", "machine", "process", "state", "for", "sessions", "calls", "problem")
_HEAD: Final = ("server", "state", "for", "tools", "calls", "next try", "reason")


def run(path: Path | None, url: str | None, as_json: bool, ready: bool = False) -> int:
    """Print a line per server; return 0 if all is well, 1 if not, 69 if no aggregator answers at the address.

    With `ready`, print one line, and return 0 where requests may be sent there.

    Raises:
        OperatorError: the address is not known, or is no address.
    """
    base, tls = address_of(path, url)
    try:
        found = asked(base, tls)
    except (OSError, HTTPException, ValueError) as error:
        why = f"No aggregator answers at {base} ({one_line(error_text(error))})."
        fix = "Start one with `aggregator serve`, or name another address with --url."
        say(json.dumps({"url": base, "running": False, "problem": why}) if as_json else f"{why} {fix}")
        return NOT_RUNNING
    if ready:
        say(f"{base}: {'ready' if found['ready'] else 'not ready'}")
        return 0 if found["ready"] else 1
    troubles = list(_troubles(found))
    if as_json:
        say(json.dumps({"url": base, "running": True, **found}, ensure_ascii=False, indent=2))
    else:
        _print(base, found, troubles)
    return 1 if troubles else 0


def address_of(path: Path | None, url: str | None) -> tuple[str, TlsConfig | None]:
    """Return the address of a running aggregator, `url` or the one in the configuration, with the TLS it has there.

    Raises:
        OperatorError: the address is not known, or is no address.
    """
    return _address(path) if url is None else (_given(url), None)


def _address(path: Path | None) -> tuple[str, TlsConfig | None]:
    """Return the configured address of a listening aggregator.

    Raises:
        OperatorError: the file cannot be read, or leaves the port to the system. A running aggregator may have started
            before the file was broken.
    """
    try:
        loaded = load_found(find(path), os.environ)
    except ConfigError as error:
        raise OperatorError(f"{error} To ask one that runs all the same, name its address with --url.") from error
    http = loaded.config.http
    if not http.port:
        raise OperatorError("The configuration leaves the port to the system (`http.port` is 0): name it with --url.")
    return address(http), loaded.tls


def _given(url: str) -> str:
    fault = address_fault(url)
    if fault is not None:
        raise OperatorError(f"{fault} Write --url http://127.0.0.1:8642.")
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _troubles(found: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing that is not well."""
    told = ["It is shutting down."] if found.get("stopping") else []
    servers: Mapping[str, Mapping[str, Any]] = found.get("servers", {})
    if not found["ready"] and not (told or found.get("keys") or found.get("pins")):
        starting = any(server["state"] == "starting" for server in servers.values())
        why = "servers are still being connected for the first time" if starting else "it waits for the database"
        told.append(f"It is not ready: {why}.")
    away = [name for name, server in servers.items() if server["state"] not in (*_WELL, "starting")]
    if away:
        told.append(f"Not available: {', '.join(away)}.")
    silent = [name for name, server in servers.items() if server.get("health", {}).get("circuit", "closed") != "closed"]
    if silent:
        told.append(f"Connected, but not answering: {', '.join(silent)}.")
    unheard = [one["name"] for one in found.get("replicas", []) if "problem" in one]
    if unheard:
        told.append(f"Not answering: {', '.join(unheard)}.")
    told += found.get("differs", [])
    config, policies = found.get("config", {}), found.get("policies", {})
    if config.get("broken"):
        problems = " ".join(config.get("problems", []))
        told.append(f"The configuration has errors, so the one that was in force stays: {problems}")
    if effect := policies.get("effect"):
        told += [effect, *policies["problems"]]
    receivers: Mapping[str, Mapping[str, Any]] = found.get("notify", {})
    failing = [(name, one["problem"]) for name, one in receivers.items() if one["state"] == "failing"]
    told += [f"Notices do not reach {name}: {problem}." for name, problem in failing]
    held = [name for name, server in servers.items() if server.get("held")]
    if held:
        told.append(f"Definitions are held, see `aggregator pins status`: {', '.join(held)}.")
    told += [
        f"{name}: its tools cannot be found by words: {server['unsearchable']}."
        for name, server in servers.items()
        if server.get("unsearchable")
    ]
    parts = ("keys", "issuers", "catalogs", "pins", "search", "tasks", "audit")
    return told + [f"{name}: {found[name]}" for name in parts if found.get(name)]


def _print(base: str, found: Mapping[str, Any], troubles: list[str]) -> None:
    servers = found.get("servers")
    if servers is None:
        say(f"{base}: {'ready' if found['ready'] else 'not ready'}; it says more on its own machine only")
        return
    say(f"{base}: {'ready' if found['ready'] else 'not ready'}, {len(servers)} servers, {found['tools']} tools")
    if servers:
        now = time.time()
        print_rows([_HEAD, *(_row(name, server, now) for name, server in servers.items())])
    replicas = found.get("replicas", [])
    if len(replicas) > 1:
        print_rows([_REPLICA_HEAD, *map(_replica_row, replicas)])
    waiting = found.get("config", {}).get("wait_for_restart")
    meaning = found.get("meaning")
    if meaning:
        say(f"Found by meaning so far: {meaning['found']:,} of {meaning['tools']:,} tools.")
    for line in (*troubles, *([f"Waits for a restart: {', '.join(waiting)}"] if waiting else [])):
        say(one_line(line))


def _replica_row(one: Mapping[str, Any]) -> tuple[str, ...]:
    state = "ready" if one.get("ready") else "silent" if "problem" in one else "not ready"
    sessions = sum(one.get("sessions", {}).values())
    seen = (one.get("machine") or "-", one.get("pid", "-"), state, _span(time.time() - one["since"]))
    return (
        one_line(one["name"]),
        *(one_line(str(value)) for value in seen),
        str(sessions) if "problem" not in one else "-",
        str(one.get("in_flight", "-")),
        one_line(one.get("problem", "")),
    )


def _own_note(server: Mapping[str, Any]) -> str:
    own = server.get("own_connections")
    return "" if own is None else f"it asks during calls: {own} connection{'s' if own != 1 else ''} for single hosts"


def _held_note(server: Mapping[str, Any]) -> str:
    held, waiting = server.get("held", 0), server.get("waiting", 0)
    if waiting:
        newer = f"{waiting} newer definition{'s wait' if waiting != 1 else ' waits'} for an approval"
        return "; ".join(filter(None, (_held_note({**server, "waiting": 0}), newer)))
    if not held:
        return ""
    why = server.get("withheld")
    return f"{held} definition{'s' if held != 1 else ''} held{f': {why}' if why else ' until approved'}"


def _row(name: str, server: Mapping[str, Any], now: float) -> tuple[str, ...]:
    following, others = server["next_try"], server.get("answered_by")
    instead = f"calls go to {' and '.join(others)}" if others else ""
    return (
        one_line(name),
        server["state"],
        _span(now - server["since"]),
        str(server["tools"]),
        str(server["in_flight"]),
        f"in {_span(following - now)}" if following is not None else "-",
        one_line("; ".join(filter(None, (server["reason"], instead, _held_note(server), _own_note(server))))),
    )


def _span(seconds: float) -> str:
    """Return a length of time in its two largest units."""
    spelled = re.match(r"(?:\d+[a-z]+){1,2}", format_duration(max(0, round(seconds))))
    return spelled[0] if spelled else "0s"
