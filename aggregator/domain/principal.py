"""The agent behind a request. Never taken from `clientInfo`, which is display only (S/basic/index)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# The role that opens the metrics; it gives no other right.
METRICS_ROLE: Final = "metrics"

# Characters of a program that a record names.
_PROGRAM: Final = 200
_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The verified claims of a request's OAuth access token.

    issuer, subject: of RFC 7519, 4.1.1, 4.1.2. client: the program that the token was issued to (RFC 9068, 2.2).
    expires: seconds since 1970. text: the token itself, for a token exchange if the operator configured one (RFC 8693);
    it goes to no upstream, no log and no page.
    """

    issuer: str
    subject: str
    client: str | None = None
    groups: tuple[str, ...] = ()
    scopes: frozenset[str] = frozenset()
    expires: float = 0.0
    text: str = field(default="", repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as an object for another replica, without the token itself."""
        return {
            "issuer": self.issuer,
            "subject": self.subject,
            "client": self.client,
            "groups": list(self.groups),
            "scopes": sorted(self.scopes),
            "expires": self.expires,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "TokenFacts":
        """Return the facts of an object that `to_json` made."""
        groups, scopes = tuple(kept["groups"]), frozenset(kept["scopes"])
        return cls(kept["issuer"], kept["subject"], kept["client"], groups, scopes, kept["expires"])

    @property
    def bearer(self) -> tuple[str, str, str | None]:
        """The user and the program of the token, equal for tokens that replace each other."""
        return self.issuer, self.subject, self.client


@dataclass(frozen=True, slots=True)
class Principal:
    """The agent behind a request, and its identification: `key_id` and `token` are None on stdio and without policy
    files; at most one of them is set.
    """

    agent_id: str
    tenant: str | None = None
    roles: tuple[str, ...] = ()
    key_id: str | None = None
    token: TokenFacts | None = None

    @property
    def known_by(self) -> str | None:
        """The identification of the agent for records: the id of its key; for a token `token:`, which no id has, with
        the program that the token was issued to.
        """
        return self.key_id if self.token is None else f"token:{self.token.client or ''}"[:_PROGRAM]

    def is_same_caller(self, other: "Principal") -> bool:
        """Tell whether both are one agent with one key, or one user's tokens of one program; tenant and roles may have
        changed with the policies.
        """
        mine, others = (one.token.bearer if one.token is not None else None for one in (self, other))
        return (self.agent_id, self.key_id, mine) == (other.agent_id, other.key_id, others)


# Without policy files there is one agent: every program that reaches the frontend on the loopback.
LOCAL: Final = Principal(agent_id="local")


def is_agent_id(text: str) -> bool:
    """Return whether a text can be the name of an agent."""
    return _AGENT.fullmatch(text) is not None


def check_agent_id(agent_id: str) -> None:
    """Check that a text can be the name of an agent: no spaces, no look-alike letters, nothing a URL would change.

    Raises:
        ValueError: it cannot.
    """
    if not is_agent_id(agent_id):
        raise ValueError("The name of an agent is made of letters, digits, `_`, `.` and `-`, at most 64 of them.")
