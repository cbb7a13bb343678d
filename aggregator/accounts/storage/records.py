"""The rows of the vault, in the form exchanged with the tables. This module is light."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

# The subject of the changes by which processes tell each other that accounts were connected or ended.
GRANTS_SUBJECT: Final = "oauth_grants"
# What differs as soon as a process has told of such a change: the identity of the database, and the change's number.
Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """A grant with its tokens sealed.

    resource: the address of the server, without query. owner: the `key` of its owner. scopes: None if unknown. problem:
    the reason why a user has to connect again. expires: when the access token ends. renewable: there is a refresh
    token. version: a new number at each store, never that of an ended grant.
    """

    id: str
    account: str
    server: str
    resource: str
    resource_digest: str
    issuer: str
    owner: str
    scopes: tuple[str, ...] | None
    problem: str | None
    expires: float | None
    renewable: bool
    created: float
    updated: float
    key_id: str
    version: int = 1
    sealed: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """A client id at an issuer, sealed."""

    id: str
    issuer: str
    created: float
    expires: float | None
    key_id: str
    sealed: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConnectRecord:
    """An account that is being connected, sealed. state_hash: of the state that its answer has to bring, once."""

    id: str
    state_hash: str | None
    created: float
    expires: float
    key_id: str
    sealed: str = field(repr=False)


def digest_of(*parts: str) -> str:
    """Return a digest that differs for different texts, wherever one ends and the next begins."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()
