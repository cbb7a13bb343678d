"""The owner of an account that a command is about, and the principal who asks."""

import os

from aggregator.app.policies import read_policies
from aggregator.config.load import Loaded
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.grant_owner import GATEWAY, SHARED, GrantOwner, owner_of
from aggregator.domain.principal import LOCAL, Principal
from aggregator.identity.launch import launch_agent


def server_to_connect(loaded: Loaded, name: str) -> ServerConfig:
    """Return the server of that name, whose accounts users connect.

    Raises:
        OperatorError: there is none, or it has no accounts to connect.
    """
    found = next((one for one in loaded.config.servers if name in (one.id, one.prefix)), None)
    if found is None:
        known = ", ".join(one.id for one in loaded.config.servers if one.auth is not None) or "none with `auth`"
        raise OperatorError(f"There is no server {name!r:.60} in the configuration; there is: {known:.400}.")
    if found.auth is None:
        raise OperatorError(
            f'{found.id} has no `auth` in the configuration. Add "auth": {{"per": "shared"}} to it if it asks for a '
            "login (OAuth)."
        )
    if found.auth.how.by_itself:
        raise OperatorError(f"{found.id} needs no person: the aggregator is the account (`{found.auth.grant}`).")
    return found


def principal_of(loaded: Loaded, agent: str | None) -> Principal:
    """Return an agent as its policies describe it; who runs the command may name any.

    Raises:
        OperatorError: the policies know no such agent.
    """
    name = launch_agent(agent, os.environ) or LOCAL.agent_id
    live = read_policies(loaded.policies, named=loaded.config.names_policies)
    if live.rulebook is None:
        return Principal(name)
    rules = live.rulebook.for_agent(name)
    if rules is None and agent is not None:
        raise OperatorError(f"The policies name no agent {name!r:.60}.")
    return Principal(name, rules.tenant, rules.roles) if rules is not None else Principal(name)


def owner_to_connect(server: ServerConfig, agent: str | None, principal: Principal) -> GrantOwner:
    """Return the owner of the account: the named agent, else the owner from the server's `auth`.

    Raises:
        OperatorError: an agent is named, though the account is one for all.
    """
    assert server.auth is not None, "only servers with `auth` are connected"
    if server.auth.per == "shared":
        if agent is not None:
            raise OperatorError(
                f"{server.id} has one account for all agents (`auth.per` is `shared`): leave --agent out."
            )
        return SHARED
    if agent is None and server.auth.lists == "gateway":
        return GATEWAY
    return owner_of(principal, server.auth.per)
