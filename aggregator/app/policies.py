"""The policies of a program, read before the rest of it is built."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aggregator.config.model import Config
from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.views.views import View
from aggregator.policy.live import LivePolicies
from aggregator.schemas.fault import UnusableSchema


def read_policies(folder: Path, *, named: bool = False) -> LivePolicies:
    """Return the policies of a folder, with the JSON Schemas in them checked; `named`: the configuration names it."""
    return LivePolicies(folder, _check_schema, named=named)


def view_at_start(live: LivePolicies, config: Config, agent: str | None) -> View:
    """Return the view of the agent that a stdio process is started for."""
    return View(Principal(agent or LOCAL.agent_id), live.rulebook, trusted_servers(config))


def trusted_servers(config: Config) -> dict[str, bool]:
    """Return by server id whether the configuration trusts the server."""
    return {server.id: server.trusted for server in config.servers}


def _check_schema(schema: Mapping[str, Any]) -> str | None:
    """Return a sentence about the problem of a JSON Schema in a policy file, or None."""
    from aggregator.schemas.check import compile_check

    try:
        compile_check(schema)
    except UnusableSchema as problem:
        return f"The schema cannot be used: {problem}."
    return None
