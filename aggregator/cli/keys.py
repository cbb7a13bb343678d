"""`aggregator keys`: makes, lists and ends API keys.

Law: a key is printed once, to stdout; neither the database nor the log has it.
"""

import json
import os
import re
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text
from aggregator.identity.keys import NewKey, new_key, policy_line
from aggregator.policy.live import LivePolicies
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url
from aggregator.storage.records import ConsoleRole, KeyRecord

if TYPE_CHECKING:
    from aggregator.storage.opening import Database

_SPAN: Final = re.compile(r"(\d{1,6})([dhm])", re.ASCII)
# The last year that ISO 8601 writes with four digits.
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_SPANS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0}


def new(
    storage: str | None,
    agent: str,
    label: str = "",
    expires: str | None = None,
    print_hash: bool = False,
    console: str | None = None,
    *,
    audited: bool = True,
    chain_key: str | None = None,
    policies: Path | None = None,
) -> int:
    """Make a key and print it; with `print_hash`, print its line for a policy file too and store nothing.

    `policies` is the folder of the policy files: a warning says if none of them names the agent.

    Raises:
        OperatorError: the name or the time cannot be used, or the database cannot.
    """
    now = time.time()
    if console is not None and console not in get_args(ConsoleRole):
        raise OperatorError(f"There is no role {console!r:.20}; there are {', '.join(get_args(ConsoleRole))}.")
    if console is not None and print_hash:
        raise OperatorError("A hash in a policy file cannot carry a role: leave --console or --print-hash out.")
    try:
        made = new_key(agent, now=now, label=one_line(label)[:200], expires=parse_when(expires, now))
        made = replace(made, record=replace(made.record, console_role=cast("ConsoleRole | None", console)))
    except ValueError as error:
        raise OperatorError(error_text(error)) from error
    if made.record.expires is not None and made.record.expires <= now:
        raise OperatorError("This key would have ended already.")
    if print_hash and made.record.expires is not None:
        raise OperatorError("A hash in a policy file cannot carry an end: leave --expires or --print-hash out.")
    if not print_hash:
        store_key(storage, made, audited=audited, chain_key=chain_key)
    say(made.text)
    if print_hash:
        say(policy_line(made.record))
        _warn("The second line goes into a policy file. The first is the key: it is kept nowhere and not shown again.")
    else:
        _warn(f"This is the key of {agent}, {_end(made.record)}. It is not shown again.")
    # The holder of a key for the console need not be an agent of the policies, and the printed line names the agent.
    if policies is not None and console is None and not print_hash and (fault := unnamed_agent(agent, policies)):
        _warn(f"warning: {fault}")
    return 0


def unnamed_agent(agent: str, policies: Path) -> str | None:
    """Return in two sentences that the policy files in a folder do not name an agent; None if they do, if there are
    none, or if they cannot be used.
    """
    live = LivePolicies(policies)
    if live.rulebook is None or live.broken or agent in live.rulebook.agents:
        return None
    known = {name.lower(): name for name in live.rulebook.agents}
    near = [known[one] for one in get_close_matches(agent.lower(), known, 3)]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"No policy file names the agent {agent}, so it may do nothing.{meant} Add it under `agents:` in a file of "
        f"{one_line(str(policies))}, or revoke this key."
    )


def store_key(storage: str | None, made: NewKey, *, audited: bool = True, chain_key: str | None = None) -> None:
    """Keep a new key in the database. Raises OperatorError when the database cannot be used."""
    run_loop(_add(_url(storage), made, audited, chain_key))


def listed(storage: str | None, as_json: bool = False) -> int:
    """Print every key of the database, without the secret part."""
    keys, now = run_loop(_all(_url(storage))), time.time()
    if as_json:
        say(json.dumps([_object(key, now) for key in keys], ensure_ascii=False, indent=2))
        return 0
    if not keys:
        say(
            "The database has no key. `aggregator keys new AGENT` makes one. Keys in policy files are not listed.",
            file=sys.stderr,
        )
        return 0
    rows = [("KEY ID", "AGENT", "CONSOLE", "STATE", "EXPIRES", "CREATED", "LAST USED", "LABEL")]
    rows += [
        (
            key.key_id,
            key.agent_id,
            key.console_role or "-",
            state(key, now),
            minute(key.expires, "never"),
            minute(key.created),
            minute(key.last_used),
            one_line(key.label),
        )
        for key in keys
    ]
    print_rows(rows)
    return 0


def revoke(storage: str | None, key_id: str, *, audited: bool = True, chain_key: str | None = None) -> int:
    """End a key for good.

    Raises:
        OperatorError: there is no such key.
    """
    key = end_key(storage, key_id, audited=audited, chain_key=chain_key)
    say(f"{key.key_id} of {key.agent_id} is revoked.")
    return 0


def end_key(storage: str | None, key_id: str, *, audited: bool = True, chain_key: str | None = None) -> KeyRecord:
    """End a key for good, and return it. Raises OperatorError when there is no such key."""
    return run_loop(_revoke(_url(storage), key_id, audited, chain_key))


def expire(storage: str | None, key_id: str, when: str, *, audited: bool = True, chain_key: str | None = None) -> int:
    """Let a key end at a time: `90d`, `2027-01-31`, `now` or `never`.

    Raises:
        OperatorError: there is no such key, or that is no time.
    """
    now = time.time()
    try:
        at = parse_when(when, now)
    except ValueError as error:
        raise OperatorError(error_text(error)) from error
    key = run_loop(_expire(_url(storage), key_id, at, audited, chain_key))
    say(f"{key.key_id} of {key.agent_id}, {_end(key)}.")
    return 0


def parse_when(text: str | None, now: float) -> float | None:
    """Return the time that a text names, in seconds since 1970; None for `never`.

    Known are `90d`, `12h` and `30m` from `now` on, an ISO 8601 date or time (UTC unless it says otherwise), and `now`.

    Raises:
        ValueError: it is none of these.
    """
    if text is None or text == "never":
        return None
    if text == "now":
        return now
    if span := _SPAN.fullmatch(text):
        return now + int(span[1]) * _SPANS[span[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r:.60} is no time; 90d, 12h, 2027-01-31, now and never are.") from None
    seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not 0.0 <= seconds < _LATEST:
        raise ValueError(f"{text} is too far away.")
    return seconds


def state(key: KeyRecord, now: float) -> str:
    """Return the state of a key: `active`, `revoked` or `expired`."""
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= now else "active"


async def _add(url: str, made: NewKey, audited: bool, chain_key: str | None) -> None:
    async with open_database(url, chain_key) as database:
        _warn_of_lost(database)
        await database.keys.add(made.record)
        if audited:
            await _note(database, made.record, f"was made, {_end(made.record)}", label=made.record.label or None)


async def _all(url: str) -> list[KeyRecord]:
    async with open_database(url) as database:
        _warn_of_lost(database)
        return await database.keys.all()


async def _revoke(url: str, key_id: str, audited: bool, chain_key: str | None) -> KeyRecord:
    async with open_database(url, chain_key) as database:
        key = await database.keys.revoke(key_id, time.time())
        if audited:
            await _note(database, key, "is revoked")
        return key


async def _expire(url: str, key_id: str, when: float | None, audited: bool, chain_key: str | None) -> KeyRecord:
    async with open_database(url, chain_key) as database:
        key = await database.keys.expire(key_id, when)
        if audited:
            await _note(database, key, f"was given another end: it is now {_end(key)}")
        return key


async def _note(database: "Database", key: KeyRecord, what: str, label: str | None = None) -> None:
    said = f"The key {key.key_id} of {key.agent_id} {what}."
    known = {"key_id": key.key_id, "expires": key.expires, "revoked": key.revoked}
    await noted(database, "key_changed", said, key.agent_id, by=operator(), label=label, **known)


def _url(storage: str | None) -> str:
    return storage or default_url(os.environ)


def _object(key: KeyRecord, now: float) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "agent_id": key.agent_id,
        "console_role": key.console_role,
        "state": state(key, now),
        "label": key.label,
        "created": key.created,
        "expires": key.expires,
        "revoked": key.revoked,
        "last_used": key.last_used,
    }


def _end(key: KeyRecord) -> str:
    if key.revoked is not None:
        return "revoked"
    return "without expiry" if key.expires is None else f"good until {minute(key.expires)}"


def _warn_of_lost(database: "Database") -> None:
    for file in database.set_aside:
        _warn(
            f"{file} is a damaged database: the keys in it are lost. While it is there, requests without a key are "
            "refused."
        )


def _warn(text: str) -> None:
    say(text, file=sys.stderr)
