"""The rows of the database as plain values. Times are seconds since 1970 (UTC), as `time.time()` gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

# `expired` is never stored: it is what `pending` and `approved` turn into when their time is over.
ApprovalStatus = Literal["pending", "approved", "denied", "used", "expired"]

# What a person may do at the console; each may also do what those before it may.
ConsoleRole = Literal["viewer", "approver", "operator"]

# How exactly it is noted when a list of tools, or a definition in it, was last seen: noting rewrites what was seen.
SEEN_TO_THE: Final = 86400.0

# The subjects of the changes by which processes tell each other of sessions of hosts, of keys, of approvals, of pinned
# definitions, and of flow labels that were cleared.
SESSIONS_SUBJECT: Final = "sessions"
KEYS_SUBJECT: Final = "api_keys"
APPROVALS_SUBJECT: Final = "approvals"
PINS_SUBJECT: Final = "pins"
FLOW_SUBJECT: Final = "flow"

# The kind of the rows which say that a baseline of one kind of items was taken; the name is that kind.
BASELINE: Final = "baseline"
# The kind of the row which says that pins of a server cannot be written; the name says why.
PIN_FAULT: Final = "fault"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret. `hash` is the salted hash; `last_used` is right to the hour.

    `console_role` is what its holder may do at the console; None for nothing.
    """

    key_id: str
    agent_id: str
    hash: str = field(repr=False)
    label: str = ""
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None
    console_role: ConsoleRole | None = None


@dataclass(frozen=True, slots=True)
class HostSessionRecord:
    """The state that is kept of one session of a host: whether it was ended, its log level, and its subscriptions."""

    id: str
    ended: bool = False
    level: str | None = None
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostSessionChange:
    """A change of what is kept of one session. `expires` is when its id is too old."""

    id: str
    agent_id: str
    expires: float
    ended: float | None = None
    level: str | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def then(self, later: "HostSessionChange") -> "HostSessionChange":
        """Return one change that does what this one and a later one of the same session do."""
        added = [uri for uri in self.added if uri not in later.removed and uri not in later.added]
        removed = [uri for uri in self.removed if uri not in later.removed and uri not in later.added]
        return HostSessionChange(
            self.id,
            self.agent_id,
            self.expires,
            ended=self.ended or later.ended,
            level=later.level or self.level,
            added=(*added, *later.added),
            removed=(*removed, *later.removed),
        )


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A person who is signed in at the console, without the secret of the cookie. `id` is for people to refer to it."""

    id: str
    person: str
    role: ConsoleRole
    key_id: str | None
    created: float
    last_seen: float
    expires: float


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that a person has to agree to: whose, of which tool, with which arguments (as a digest).

    `arguments` are those a person is shown, as JSON without secrets; None in the oldest rows. `note` is what the person
    who answered had to say. `expires` of a denied one is when the same call may be asked about again.

    `rule` and `rule_source` (`FILE:LINE`) say why a person is asked. `trace_id` and `conversation_id` are those of the
    call that asked first. `valid_until` is None for an answer that counts once; `uses` counts the calls that were let
    through, `used` is the time of the last. `needed` people have to agree; `agreed` is a JSON list of the names of
    those who have. `asked_again` counts the calls that were refused since a person said no.
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
    server: str | None = None
    schema_version: str | None = None
    rule: str | None = None
    rule_source: str | None = None
    trace_id: str | None = None
    conversation_id: str | None = None
    uses: int = 0
    valid_until: float | None = None
    needed: int = 1
    agreed: str | None = None
    asked_again: int = 0


class AboutCall(NamedTuple):
    """The facts about a call that asks for an approval which a person is shown besides its arguments."""

    server: str | None = None
    schema_version: str | None = None
    rule: str | None = None
    rule_source: str | None = None
    trace_id: str | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry of a server's list of tools: the tool's own name, empty where it has none, and the entry as JSON."""

    name: str
    digest: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ItemList:
    """One list of a server besides its tools: the kind of its items, and all of them as one JSON array."""

    kind: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerCatalog:
    """The catalog of a server as it was last connected, in its own order. `server_info` and `capabilities` are JSON.

    `fingerprint` stands for the configuration of the server: with another one the catalog is another. `items` are the
    lists that the server has answered besides its tools.
    """

    server: str
    fingerprint: str
    transport: str
    protocol: str
    server_info: str
    capabilities: str
    instructions: str | None
    tools: tuple[Definition, ...]
    items: tuple[ItemList, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptCatalog:
    """The lists of a server as they were when it was last connected, which is right to the day.

    items: those besides the tools, by the kind of their items, each as a JSON array. One that is missing was not kept.
    """

    connected: float
    tools: tuple[Definition, ...]
    items: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """One definition that a tool has or had. `last_seen` is right to the day while the tool has it."""

    server: str
    name: str
    digest: str
    text: str = field(repr=False)
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True)
class VersionSeen:
    """One definition that a tool has or had, without its text; `size` is the length of the text in characters."""

    digest: str
    first_seen: float
    last_seen: float
    size: int


@dataclass(frozen=True, slots=True)
class ItemText:
    """One item of a server as it is to be pinned: a tool, prompt, template or skill, or the instructions.

    `text` is its definition as JSON. `version` is the schema version, where the list has one.
    """

    kind: str
    name: str
    digest: str
    version: str
    text: str = field(repr=False)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenItem:
    """One item as the server has it now, and what its change means; `digest` None for one that is gone."""

    kind: str
    name: str
    digest: str | None
    version: str = ""
    text: str = field(default="", repr=False)
    classes: tuple[str, ...] = ()
    renamed_from: str | None = None
    flags: tuple[str, ...] = ()
    held: bool = False


@dataclass(frozen=True, slots=True)
class PinRow:
    """One item: what was approved, None while nothing was, and what the server has in its place, None where it is that.

    `definition` and `seen_definition` are JSON; None also where they were not read. `flags` are those of what the
    server has now.
    """

    server: str
    kind: str
    name: str
    digest: str | None
    version: str | None
    approved: float | None
    approved_by: str | None
    seen_digest: str | None
    seen_version: str | None
    seen: float | None
    classes: tuple[str, ...]
    renamed_from: str | None
    flags: tuple[str, ...]
    held: bool
    definition: str | None = field(default=None, repr=False)
    seen_definition: str | None = field(default=None, repr=False)


# The subject of `changes` by which replicas hear that a lease was taken or released.
LEASES: Final = "leases"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease: the right to do something alone. `owner`: None where it was released; `generation` counts the owners.

    `renewals` counts how often the owner said that it is there. `until` is when it ends by the clock of the database:
    for people; no replica decides by it.
    """

    name: str
    owner: str | None
    generation: int
    renewals: int
    until: float


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """One replica. Times are the database's; `facts` is what it says of itself to the others."""

    id: str
    slot: int
    address: str | None
    version: str
    started: float
    seen: float
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to one heartbeat: the database's time, and every replica of the group that is there.

    `silent` are those that have not been heard of for a lease, and have not left.
    """

    now: float
    replicas: tuple[ReplicaRecord, ...]
    silent: tuple[ReplicaRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One change: of what, by which replica (None: another program), and what was told with it."""

    seq: int
    subject: str
    origin: str | None
    body: Mapping[str, Any]
