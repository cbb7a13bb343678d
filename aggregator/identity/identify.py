"""Identification of the agent behind a request by its credentials, never by `clientInfo`, which anyone may write.

Rule: exactly one credential, in a header. A refusal contains only the sentences below. The first characters tell an
access token from a key; `identity/tokens` handles tokens.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote_plus

from aggregator.domain.principal import LOCAL
from aggregator.identity.keyring import Keyring, Refusal
from aggregator.identity.keys import PREFIX, parse_key
from aggregator.identity.source import NOWHERE, ClientSource
from aggregator.identity.throttle import Throttle

FrontendName = Literal["stdio", "http", "sse", "v1", "console"]
# `open`: there is neither a key nor a policy file, so every request from this machine is the local agent's.
Mode = Literal["open", "keys"]

# RFC 6750, section 2.1; the case of the scheme does not matter (RFC 9110, section 11.1).
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_TELLING: Final = frozenset({"apikey", "xapikey", "key", "accesstoken", "token", "authorization", "auth", "bearer"})
# The beginning of a key, with any of its characters percent-encoded.
_KEY_IN_URL: Final = re.compile("(?:a|%[46]1)(?:g|%[46]7)(?:k|%[46]b)(?:_|%5f)")
_MOST_FIELDS: Final = 256
_LONGEST_NAME: Final = 48


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The credentials of a request. Headers hold every value sent, in order; `query` is the unparsed query of the
    URL.
    """

    frontend: FrontendName
    authorization: tuple[str, ...] = field(default=(), repr=False)
    api_key: tuple[str, ...] = field(default=(), repr=False)
    query: str = field(default="", repr=False)
    endpoint_agent: str | None = None
    source: ClientSource = NOWHERE
    launch_agent: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The identified agent, and the key that proved it."""

    agent_id: str
    key_id: str | None = None


@dataclass(frozen=True, slots=True)
class SentToken:
    """An access token that a request was sent with; it is not verified yet."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """An HTTP status and a sentence for the host; `retry_after` is in seconds, with 429 and 503.

    error: the code for the challenge where credentials were sent (RFC 6750, 3.1).
    """

    status: int
    reason: str
    retry_after: int | None = None
    error: str | None = None


INVALID_TOKEN: Final = "invalid_token"  # noqa: S105 - a code of RFC 6750


_NEEDED: Final = Refused(401, "A key is needed: send `Authorization: Bearer agk_...` or `X-API-Key: agk_...`.")
_NEEDED_OF_EITHER: Final = Refused(
    401, "An access token or a key is needed: send `Authorization: Bearer TOKEN`, or `X-API-Key: agk_...`."
)
_IN_URL: Final = Refused(
    400,
    "A key in a URL ends up in logs and histories. Send it as `Authorization: Bearer agk_...`; if this one was real, "
    "revoke it.",
)
_TOO_MANY_FIELDS: Final = Refused(400, f"A query may have {_MOST_FIELDS} fields.")
_TWICE: Final = Refused(400, "Send exactly one key, in one header.")
_NOT_BEARER: Final = Refused(401, "`Authorization` must be `Bearer` followed by one key.")
_OTHERS: Final = Refused(403, "This key is not for this agent's endpoint.")
_ELSEWHERE: Final = Refused(403, "Without a key only this machine is served, under a loopback name.")
_FORWARDED: Final = Refused(403, "Without a key only this machine is served, and a proxy passed this request on.")
_WRONG: Final[Mapping[str, Refused]] = {
    "malformed": Refused(401, "This is not a key of this aggregator, or it was mistyped.", error=INVALID_TOKEN),
    "unknown": Refused(401, "This key is not known.", error=INVALID_TOKEN),
    "expired": Refused(401, "This key has expired.", error=INVALID_TOKEN),
    "revoked": Refused(401, "This key was revoked.", error=INVALID_TOKEN),
}


def identify(
    facts: RequestFacts, keyring: Keyring, throttle: Throttle, mode: Mode, now: float, *, tokens: bool = False
) -> Claim | Refused | SentToken:
    """Return the agent behind credentials, or the reason for a refusal. `now` is the wall clock.

    tokens: access tokens are accepted too; a sent one is returned unverified.
    """
    if facts.frontend == "stdio":
        # The user who starts the process may choose any agent: there is nothing to prove.
        return Claim(facts.launch_agent or LOCAL.agent_id)
    needed = _NEEDED_OF_EITHER if tokens else _NEEDED
    ignores = mode == "open" and not tokens
    refused = _of_query(facts.query, ignores=ignores)
    if refused is not None:
        return refused
    credential = _credential(facts, ignores=ignores)
    if isinstance(credential, Refused):
        return credential
    if credential is None:
        return _local(facts, needed) if mode == "open" else needed
    if tokens and not facts.api_key and not credential.startswith(PREFIX):
        return SentToken(credential)
    return _by_key(credential, facts, keyring, throttle, now)


def _by_key(text: str, facts: RequestFacts, keyring: Keyring, throttle: Throttle, now: float) -> Claim | Refused:
    record = keyring.verify(parse_key(text), now)
    if isinstance(record, Refusal):
        # An expired or revoked key was valid once, so it is no guess.
        guessed = record.reason in ("malformed", "unknown")
        wait = throttle.failed(facts.source.address, now) if guessed else 0.0
        return _WRONG[record.reason] if wait == 0.0 else slowed(wait)
    if facts.endpoint_agent not in (None, record.agent_id):
        return _OTHERS
    return Claim(record.agent_id, record.key_id)


def slowed(wait: float) -> Refused:
    """Return the refusal of a wrong credential whose sender has to wait so many seconds."""
    seconds = int(wait) + 1
    reason = f"This key is wrong, as were too many others from this address; try another one in {seconds} s."
    return Refused(429, reason, seconds)


def _local(facts: RequestFacts, needed: Refused) -> Claim | Refused:
    if not facts.source.local:
        return _FORWARDED if facts.source.forwarded else _ELSEWHERE
    return Claim(LOCAL.agent_id) if facts.endpoint_agent is None else needed


def _credential(facts: RequestFacts, *, ignores: bool) -> str | Refused | None:
    """Return the one key or token that was sent; `ignores`: anything that is no key of ours is ignored."""
    sent = (*facts.authorization, *facts.api_key)
    if ignores and not any(PREFIX in value.lower() for value in sent):
        return None
    if len(facts.authorization) > 1 or len(facts.api_key) > 1:
        return _TWICE
    keys = [value.strip(" \t") for value in facts.api_key]
    for value in facts.authorization:
        bearer = _BEARER.fullmatch(value.strip(" \t"))
        if bearer is None:
            return _NOT_BEARER
        keys.append(bearer[1])
    if not keys:
        return None
    return keys[0] if len(set(keys)) == 1 else _TWICE


def _of_query(query: str, *, ignores: bool) -> Refused | None:
    """Return the refusal of a query that holds a key. The query is untrusted and may be long: it is not decoded as a
    whole.
    """
    if not query:
        return None
    if _KEY_IN_URL.search(query.lower()):
        return _IN_URL
    fields = query.split("&", _MOST_FIELDS)
    if len(fields) > _MOST_FIELDS:
        return _TOO_MANY_FIELDS
    names = (unquote_plus(field.partition("=")[0][:_LONGEST_NAME]).lower() for field in fields)
    telling = any(name.replace("-", "").replace("_", "") in _TELLING for name in names)
    return _IN_URL if telling and not ignores else None
