"""`aggregator connections`: lists the accounts that are connected, and ends their use."""

import json
import sys
from pathlib import Path
from typing import Any

from aggregator.accounts.app.open_grants import open_grants
from aggregator.accounts.cli.owners import principal_of
from aggregator.accounts.grants.values import ConnectedAccount
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.domain.errors import OperatorError
from aggregator.domain.grant_owner import owner_of


def listed(path: Path | None, as_json: bool = False) -> int:
    """Print every account, without its tokens."""
    accounts = run_loop(_all(load_config(path, log_level="warning", report=False)))
    if as_json:
        say(json.dumps([_object(one) for one in accounts], ensure_ascii=False, indent=2))
        return 0
    if not accounts:
        say("No account is connected. `aggregator connect SERVER` connects one.", file=sys.stderr)
        return 0
    rows = [("SERVER", "OWNER", "STATE", "EXPIRES", "CONNECTED", "ISSUER")]
    rows += [
        (
            one_line(one.server),
            one_line(str(one.owner)),
            "connected" if one.state == "connected" else f"connect again: {one_line(one.problem or '')}"[:80],
            "renewed by itself" if one.renewable else minute(one.expires, "never"),
            minute(one.created),
            one_line(one.issuer),
        )
        for one in accounts
    ]
    print_rows(rows)
    return 0


def revoke(path: Path | None, server: str, agent: str | None, owner: str | None, every: bool) -> int:
    """End the use of one account, or of all, at a server.

    Raises:
        OperatorError: there is none such, or several, and it is not said which.
    """
    if sum((agent is not None, owner is not None, every)) > 1:
        raise OperatorError("Give one of --agent, --owner and --all.")
    for said in run_loop(_revoke(load_config(path, log_level="warning", report=False), server, agent, owner, every)):
        say(said)
    return 0


async def _all(loaded: Loaded) -> tuple[ConnectedAccount, ...]:
    async with open_grants(loaded) as grants:
        return await grants.list()


async def _revoke(loaded: Loaded, server: str, agent: str | None, owner: str | None, every: bool) -> list[str]:
    async with open_grants(loaded) as grants:
        found = [one for one in await grants.list() if one.server == server]
        if agent is not None:
            wanted = owner_of(principal_of(loaded, agent), "agent")
            found = [one for one in found if one.owner == wanted]
        elif owner is not None:
            found = [one for one in found if owner in (str(one.owner), one.owner.key)]
        if not found:
            raise OperatorError(f"No such account is connected at {server!r:.60}; `aggregator connections list` says.")
        owners = {one.owner.key: one.owner for one in found}
        if len(owners) > 1 and not every:
            names = "; ".join(str(one) for one in owners.values())
            raise OperatorError(f"Several accounts are connected at {server}: say --owner, or --all. {names:.600}")
        said = []
        for one in owners.values():
            done = await grants.revoke(server, one)
            said.append(f"{one_line(server)} of {one_line(str(one))}: {'revoked' if done else 'was gone already'}.")
        return said


def _object(one: ConnectedAccount) -> dict[str, Any]:
    return {
        "server": one.server,
        "owner": {"kind": one.owner.kind, "names": list(one.owner.names), "text": str(one.owner)},
        "issuer": one.issuer,
        "resource": one.resource,
        "scopes": list(one.scopes) if one.scopes is not None else None,
        "state": one.state,
        "problem": one.problem,
        "expires": one.expires,
        "renewable": one.renewable,
        "created": one.created,
        "updated": one.updated,
    }
