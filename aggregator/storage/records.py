"""The rows of the database as plain values. Times are seconds since 1970 (UTC), as `time.time()` gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

# `expired` is never stored: it is what `pending` and `approved` turn into when their time is over.
ApprovalStatus = Literal["pending", "approved", "denied", "used", "expired"]

# The rights of a user at the console; each role includes the ones before it.
ConsoleRole = Literal["viewer", "approver", "operator"]

# The resolution of the last-seen times of lists and definitions: recording one rewrites the row.
SEEN_TO_THE: Final = 86400.0

# The subjects of the changes by which processes tell each other of sessions of hosts, of keys, of approvals, of pinned
# definitions, and of flow labels that were cleared.
SESSIONS_SUBJECT: Final = "sessions"
KEYS_SUBJECT: Final = "api_keys"
APPROVALS_SUBJECT: Final = "approvals"
PINS_SUBJECT: Final = "pins"
FLOW_SUBJECT: Final = "flow"

# The kind of rows that record a baseline; the name is the kind of its items.
BASELINE: Final = "baseline"
# The kind of the row which says that pins of a server cannot be written; the name says why.
PIN_FAULT: Final = "fault"
# Ends the name of a baseline whose first list came in part.
PART: Final = ":part"
# The kind of the row with the version of a server: `version` when all was approved, `seen_version` now.
PIN_VERSION: Final = "version"
# Among the classes of a new item: the server added it while it was connected.
ADDED_LATER: Final = "later"
# Among the classes of a pin: the approved definition is served while the current one waits.
SERVED: Final = "served"
# Among the classes of such a pin: the server does not take all that the approved definition allows.
TAKES_LESS: Final = "less"
# What stands among the classes of a change and is none.
MARKERS: Final = frozenset({ADDED_LATER, SERVED, TAKES_LESS})


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
    """A change of the stored state of one session. `expires` is the end of its id."""

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
    """A user signed in at the console, without the secret of the cookie. `id` is for display."""

    id: str
    person: str
    role: ConsoleRole
    key_id: str | None
    created: float
    last_seen: float
    expires: float


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that needs confirmation: its agent, tool and arguments (as a digest).

    `arguments` are the displayed arguments, as JSON without secrets; None in the oldest rows. `note` is the note of the
    user who answered. `expires` of a denied one is the time from which the same call may ask again.

    `rule` and `rule_source` (`FILE:LINE`) give the reason for asking. `trace_id` and `conversation_id` come from the
    first call that asked. `valid_until` is None for an answer that counts once; `uses` counts the calls it permitted,
    `used` is the time of the last. `needed` users have to agree; `agreed` is a JSON list of the names of those who
    have. `asked_again` counts the calls refused since the denial.
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
    """The facts about a call that an approval displays besides its arguments."""

    server: str | None = None
    schema_version: str | None = None
    rule: str | None = None
    rule_source: str | None = None
    trace_id: str | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry of a server's list of tools: the tool's own name, empty if it has none, and the entry as JSON."""

    name: str
    digest: str
    text: str = field(repr=False)


# In place of a kind: the server asks hosts in the course of calls, which tells not for which one.
ASKS: Final = "asks"
# In place of a kind: the server adds tools while it is connected.
GROWS: Final = "grows"
HABITS: Final = frozenset({ASKS, GROWS})


@dataclass(frozen=True, slots=True)
class ItemList:
    """One list of a server besides its tools: the kind of its items, and all of them as one JSON array."""

    kind: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerCatalog:
    """The catalog of a server from its last connection, in its own order. `server_info` and `capabilities` are JSON.

    `fingerprint` stands for the configuration of the server: another fingerprint means another catalog. `items` are the
    server's other lists besides its tools.
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
    """The lists of a server from its last connection, accurate to a day.

    items: the lists besides the tools, by kind, each as a JSON array. A missing list was not stored.
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
    """One item of a server in the form to pin: a tool, prompt, template or skill, or the instructions.

    `text` is its definition as JSON. `version` is the schema version, if the list has one.
    """

    kind: str
    name: str
    digest: str
    version: str
    text: str = field(repr=False)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenItem:
    """One item of the server now, with the classes of its change; `digest` None for a removed one."""

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
    """One item: the approved definition or None, and the server's current one, None if it is the same.

    `definition` and `seen_definition` are JSON; None also if they were not read. `flags` are the flags of the current
    definition.
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


# The subject of `changes` that notifies replicas that a lease was taken or released.
LEASES: Final = "leases"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease: the right of one holder. `owner`: None after a release; `generation` counts the owners.

    `renewals` counts the owner's signs of life. `until` is its end by the clock of the database: for display; no
    replica decides by it.
    """

    name: str
    owner: str | None
    generation: int
    renewals: int
    until: float


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """One replica. Times are the database's; `facts` are its facts for the others."""

    id: str
    slot: int
    address: str | None
    version: str
    started: float
    seen: float
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The answer to one heartbeat: the database's time, and every replica of the group that is there.

    `silent` are those that have not been heard of for a lease, and have not left.
    """

    now: float
    replicas: tuple[ReplicaRecord, ...]
    silent: tuple[ReplicaRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One change: its subject, its replica (None: another program), and its body."""

    seq: int
    subject: str
    origin: str | None
    body: Mapping[str, Any]


# Pairs of a moment, in seconds since 1970 by the group's clock, and the calls made up to it, oldest first.
UsageTimes = tuple[tuple[float, int], ...]


class UsageRow(NamedTuple):
    """The calls that one replica has charged to one counter; they count until `expires`, by the group's clock.

    `times` is None where only the number counts.
    """

    counter: str
    used: int
    times: UsageTimes | None
    expires: float
