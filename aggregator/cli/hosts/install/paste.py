"""Our entry as a text to paste, for hosts that keep their servers in settings of their own."""

import json
import os
from pathlib import Path

from aggregator.cli.hosts.install.build import served_address, served_commands
from aggregator.cli.hosts.install.entry import stdio_launch
from aggregator.cli.hosts.install.environment import entry_variables
from aggregator.cli.hosts.install.options import ENTRY, InstallOptions
from aggregator.cli.hosts.install.program import own_command, this_program
from aggregator.cli.runtime.setup import environment
from aggregator.cli.servers.edit import open_config
from aggregator.config.load import Loaded, load
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import shell_line
from aggregator.hosts.model import HostProgram, Machine, OwnLaunch, System


def text_to_paste(host: HostProgram, machine: Machine, options: InstallOptions) -> tuple[str, tuple[str, ...]]:
    """Return what people paste into the settings of a host, and remarks about it.

    Raises:
        OperatorError: there is no configuration, or the host starts no programs and the gateway has no address.
    """
    path = Path(os.path.abspath(open_config(options.config, make=False).path))
    loaded = load(path, environment())
    if "stdio" not in host.speaks or options.http:
        return _address(host, loaded)
    taken = {name for own in loaded.variables.values() for name, needed in own.items() if needed}
    variables = entry_variables(host, machine.system, served_commands(loaded), taken, os.environ)
    own = own_command(this_program())
    launch = stdio_launch(own, path, options.agent, variables.env if host.paste_json else {})
    remarks = (*((own.remark,) if own.remark else ()), *(variables.remarks if host.paste_json else ()))
    return _as_object(host, launch, options) if host.paste_json else command_line(launch, machine.system), remarks


def command_line(launch: OwnLaunch, system: System) -> str:
    """Return a command with its arguments in one line, quoted as the programs of a system split it."""
    return shell_line([launch.command or "", *launch.args], windows=system == "windows")


def _address(host: HostProgram, loaded: Loaded) -> tuple[str, tuple[str, ...]]:
    if "http" not in host.speaks:
        raise OperatorError(f"{host.title} starts programs alone: leave --http out.")
    if not loaded.config.http.port:
        raise OperatorError("The configuration leaves the port to the system (`http.port` is 0): set one there.")
    url = served_address(loaded)
    if "stdio" in host.speaks or url.startswith("https://"):
        return url, ("The host reaches this address while `aggregator serve` runs.",)
    return url, (
        f"{host.title} reaches public https addresses alone, which this is not: set `http.public_url` in the "
        "configuration to the one of your proxy or tunnel.",
    )


def _as_object(host: HostProgram, launch: OwnLaunch, options: InstallOptions) -> str:
    return json.dumps({"mcpServers": {options.name or ENTRY: host.write(launch)}}, ensure_ascii=False, indent=2)
