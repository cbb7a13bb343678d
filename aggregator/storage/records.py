"""The rows of the database as plain values. Times are seconds since 1970 (UTC), as `time.time()` gives them."""

from dataclasses import dataclass, field
from typing import Final, Literal

# `expired` is never stored: it is what `pending` and `granted` turn into when their time is over.
ApprovalStatus = Literal["pending", "granted", "denied", "used", "expired"]

# How exactly it is noted when a list of tools, or a definition in it, was last seen: noting rewrites what was seen.
SEEN_TO_THE: Final = 86400.0


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret. `hash` is the salted hash; `last_used` is right to the hour."""

    key_id: str
    agent_id: str
    hash: str = field(repr=False)
    label: str = ""
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that a person has to agree to: whose, of which tool, with which arguments (as a digest).

    `arguments` are those a person is shown, as JSON without secrets; None in the oldest rows. `note` is what the person
    who answered had to say. `expires` of a denied one is when the same call may be asked about again.
    """

    id: str
    agent_id: str
    tool: str
    digest: str
    summary: str
    status: ApprovalStatus
    created: float
    expires: float
    decided: float | None = None
    decided_by: str | None = None
    used: float | None = None
    note: str | None = None
    arguments: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry of a server's list of tools: the tool's own name, empty where it has none, and the entry as JSON."""

    name: str
    digest: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerCatalog:
    """The catalog of a server as it was last connected, in its own order. `server_info` and `capabilities` are JSON.

    `fingerprint` stands for the configuration of the server: with another one the catalog is another.
    """

    server: str
    fingerprint: str
    transport: str
    protocol: str
    server_info: str
    capabilities: str
    instructions: str | None
    tools: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class KeptTools:
    """The list of a server as it was when it was last connected, which is right to the day."""

    connected: float
    tools: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """One definition that a tool has or had. `last_seen` is right to the day while the tool has it."""

    server: str
    name: str
    digest: str
    text: str = field(repr=False)
    first_seen: float
    last_seen: float
