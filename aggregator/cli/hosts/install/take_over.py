"""The host's own servers moved into our configuration."""

from collections.abc import Mapping
from typing import Any

from aggregator.cli.hosts.install.plan import ServerMove
from aggregator.cli.servers.edit import ConfigEdit
from aggregator.hosts.model import HostFile, HostProgram, Machine


def server_moves(
    host: HostProgram, file: HostFile, machine: Machine, left: Mapping[str, Any], config: ConfigEdit
) -> tuple[ServerMove, ...]:
    """Add the servers of a host to an edit of our configuration, and return where each goes."""
    raise NotImplementedError
