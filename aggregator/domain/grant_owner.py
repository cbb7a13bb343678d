"""The owner of a grant: on whose behalf the aggregator holds tokens for an upstream server."""

import json
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.domain.principal import Principal

# Whose account a server is used with, as `auth.per` of its configuration says.
Per = Literal["user", "agent", "shared"]
OwnerKind = Literal["user", "agent", "shared", "gateway"]


@dataclass(frozen=True, slots=True)
class GrantOwner:
    """The owner of a grant.

    kind: `user` is one user at one issuer, `agent` one agent of one tenant, `shared` all agents together, and `gateway`
    the aggregator itself, which reads lists and calls no tool. names: issuer and subject of a `user`, tenant (or "")
    and id of an `agent`; empty for the others.
    """

    kind: OwnerKind
    names: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The owner as one text, different for different owners with any characters in their names."""
        return json.dumps([self.kind, *self.names], ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_key(cls, key: str) -> "GrantOwner":
        """Return the owner that has this `key`.

        Raises:
            ValueError: no owner has it.
        """
        parts = json.loads(key)
        if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
            raise ValueError("not the key of an owner")
        kind, *names = parts
        if kind not in _NAMES or len(names) != _NAMES[kind]:
            raise ValueError("not the key of an owner")
        return cls(kind, tuple(names))

    def __str__(self) -> str:
        """Return the owner for display."""
        if self.kind == "user":
            return f"{self.names[1]} of {self.names[0]}"
        if self.kind == "agent":
            return f"agent {self.names[1]}" + (f" of {self.names[0]}" if self.names[0] else "")
        return "all agents" if self.kind == "shared" else "the aggregator"


_NAMES: Final = {"user": 2, "agent": 2, "shared": 0, "gateway": 0}
SHARED: Final = GrantOwner("shared")
GATEWAY: Final = GrantOwner("gateway")


def owner_of(principal: Principal, per: Per) -> GrantOwner:
    """Return the owner of the account for a call of `principal`. A caller without a token is no known user: the account
    is then its agent's.
    """
    if per == "shared":
        return SHARED
    if per == "user" and principal.token is not None:
        return GrantOwner("user", (principal.token.issuer, principal.token.subject))
    return GrantOwner("agent", (principal.tenant or "", principal.agent_id))


def credentials_source(server: str, owner: GrantOwner) -> str:
    """Return the source of an owner's credentials at a server, by which redaction knows them."""
    return f"{server} {owner.key}"
