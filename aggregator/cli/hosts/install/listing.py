"""`aggregator install` without a host: which hosts are here, and which of their files point here already."""

import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from aggregator.app.health_page import address
from aggregator.cli.hosts.install.entry import pointing
from aggregator.cli.hosts.install.host_files import SCOPES
from aggregator.cli.runtime.setup import environment
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.config.errors import ConfigError
from aggregator.config.files.find import find_config, own_file
from aggregator.config.load import load
from aggregator.config.settings import HttpConfig
from aggregator.frontends.web.address_wishes import framework_path
from aggregator.hosts.discover import FoundFile, discover
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.machine import this_machine
from aggregator.hosts.model import HostProgram, Machine


def list_hosts(config: Path | None, as_json: bool) -> int:
    """Print every host: whether it is on this machine, and the files that point to the configuration."""
    machine = this_machine()
    path, http = _configuration(config)
    ports = {http.port} - {0} if http is not None else ()
    found = discover(machine)
    rows = [_row(host, machine, [file for file in found if file.host is host], path, ports) for host in HOSTS]
    if as_json:
        say(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    print_rows(
        [
            ("HOST", "PROGRAM", "HERE", "POINTS HERE"),
            *(
                (
                    str(row["host"]),
                    str(row["title"]),
                    "yes" if row["here"] else "-",
                    one_line(", ".join(map(str, row["points_here"])) or "-"),
                )
                for row in rows
            ),
        ]
    )
    say("`aggregator install HOST` shows what would be written, and asks.")
    if http is not None and http.enabled and http.port:
        base = (http.public_url or address(http)).rstrip("/")
        at = f"{base}{framework_path(http)}"
        say(f"Agent frameworks connect to {at} while `aggregator serve` runs: model APIs take its names and schemas.")
    return 0


def _configuration(config: Path | None) -> tuple[Path, HttpConfig | None]:
    """Return the configuration that entries may point to, with its web address; one that is not there yet has none."""
    try:
        path = find_config(config, Path.cwd(), os.environ).path
        http = load(path, environment()).config.http
    except ConfigError:
        if config is not None:
            raise
        return own_file(os.environ), None
    return path, http


def _row(
    host: HostProgram, machine: Machine, found: list[FoundFile], config: Path, ports: Collection[int]
) -> dict[str, Any]:
    points = [
        str(file.file.path)
        for file in found
        if any(pointing(host, server.entry, config, ports) == "here" for server in file.servers)
    ]
    here = is_installed(host, machine) or any(file.file.scope in ("user", "profile") for file in found)
    return {
        "host": host.id,
        "title": host.title,
        "here": here,
        "files": [str(file.file.path) for file in found],
        "points_here": list(dict.fromkeys(points)),
    }


def is_installed(host: HostProgram, machine: Machine) -> bool:
    """Return whether a host is installed on this machine or has left a folder there, or its program is on PATH."""
    if host.program is not None and shutil.which(host.program, path=machine.environ.get("PATH")) is not None:
        return True
    if any(map(os.path.lexists, host.programs(machine))):
        return True
    common = {machine.home, machine.folder, *machine.folder.parents}
    return any(
        os.path.isdir(file.path.parent)
        for file in host.files(machine)
        if file.scope in SCOPES and file.scope != "project" and file.path.parent not in common
    )
