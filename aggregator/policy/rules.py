"""The content of policy files once they are merged: rules, settings and their owners, each with its place."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from aggregator.policy.patterns import Pattern

RuleField = Literal[
    "allow",
    "deny",
    "confirm",
    "confirm_people",
    "arguments",
    "limits",
    "read_only",
    "idempotent",
    "retry",
    "pinned",
    "scopes",
    "labels",
]
# The fields of agents, roles and the defaults; `labels` is none of them.
RULE_FIELDS: Final[tuple[RuleField, ...]] = (
    "deny", "allow", "confirm", "confirm_people", "arguments", "limits", "read_only", "idempotent", "retry", "pinned",
    "scopes",
)  # fmt: skip
BodyKind = Literal["agent", "role", "defaults"]
FlowOutcome = Literal["confirm", "deny"]

# The labels that need no definition, because annotations of trusted servers and fields of results bring them.
UNTRUSTED: Final = "untrusted"
PRIVATE: Final = "private"
OUTWARD: Final = "outward"
BUILT_IN_LABELS: Final = (UNTRUSTED, PRIVATE, OUTWARD)


class Place(NamedTuple):
    """A line of a file, counted from 1. Its text has the file's folder and name alone: `policies/shop.yaml:9`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{'/'.join(self.file.replace(os.sep, '/').rsplit('/', 2)[-2:])}:{self.line}"

    @property
    def whole(self) -> str:
        """The place with the whole path of its file, for who has to open it."""
        return f"{self.file}:{self.line}"


class Setting(NamedTuple):
    """One value, its `owner`, and the place where it is written."""

    value: Any
    owner: str
    place: Place


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a policy file that speaks of all that matches `pattern`."""

    field: RuleField
    pattern: Pattern
    owner: str
    place: Place
    value: Any = None

    def __str__(self) -> str:
        if self.field == "labels":
            return f'label {self.value} "{self.pattern}"'
        return f'{self.field} "{self.pattern}"' + (f": {self.value}" if self.field == "confirm_people" else "")


class Key(NamedTuple):
    """A hashed API key: `hash` is opaque here and never shown."""

    key_id: str
    hash: str
    place: Place

    @property
    def line(self) -> str:
        """The key as the file has it."""
        return f"{self.key_id}:{self.hash}"

    def __repr__(self) -> str:
        return f"<Key {self.key_id}>"


@dataclass(frozen=True, slots=True)
class Body:
    """The rules and settings of one agent, one role or the defaults, from all files together."""

    kind: BodyKind
    name: str
    place: Place
    rules: tuple[Rule, ...] = ()
    roles: Mapping[str, Place] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    bindings: Mapping[str, Setting] = field(default_factory=dict)
    keys: tuple[Key, ...] = ()

    @property
    def owner(self) -> str:
        """The body in messages: `agent shop`, `role reader`, `defaults`."""
        return owner(self.kind, self.name)


def owner(kind: BodyKind, name: str) -> str:
    """Return the name of a body in rules and messages."""
    return "defaults" if kind == "defaults" else f"{kind} {name}"


@dataclass(frozen=True, slots=True)
class WhoRule:
    """One rule that maps tokens to an agent. A field that is None or empty fits every token.

    number: its place among the rules, from 1. agent: a name, or `PREFIX{subject}` or `PREFIX{client}`. tenant, roles:
    apply to an agent that no policy file names.
    """

    number: int
    agent: str
    place: Place
    issuer: str | None = None
    subject: str | None = None
    client: str | None = None
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    tenant: str | None = None
    roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"rule {self.number} of who"


@dataclass(frozen=True, slots=True)
class FlowLabel:
    """One label with its patterns from all files: rules of the field `labels` whose value is its name."""

    name: str
    place: Place
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowRule:
    """A rule about calls after something was read: once all of `after` are there, calls with one of `calls`."""

    after: frozenset[str]
    calls: frozenset[str]
    then: FlowOutcome
    place: Place

    @property
    def condition(self) -> str:
        """The rule without its place and outcome: `after private and untrusted, calls outward`."""
        return f"after {' and '.join(sorted(self.after))}, calls {' or '.join(sorted(self.calls))}"

    def __str__(self) -> str:
        return f"flow rule {self.place}: {self.condition}"


@dataclass(frozen=True, slots=True)
class Documents:
    """All policy files, merged and checked: every role and tenant named exists, no role inherits itself.

    `tenants`: name -> server id -> place of the claim; no server is claimed twice. `revision` is a digest of the files'
    names and contents. `who`: in the order of their file. `labels`: by name; every label named by a flow rule is
    defined or built in. `decay`: in seconds. `conversation`: `session` or `key`.
    """

    agents: Mapping[str, Body]
    roles: Mapping[str, Body]
    defaults: Body | None
    tenants: Mapping[str, Mapping[str, Place]]
    revision: str
    files: tuple[str, ...] = ()
    who: tuple[WhoRule, ...] = ()
    labels: Mapping[str, FlowLabel] = field(default_factory=dict)
    flow: tuple[FlowRule, ...] = ()
    decay: Setting | None = None
    conversation: Setting | None = None


def made_by(documents: Documents) -> Iterator[Body]:
    """Yield, for each rule `who` that makes an agent, the body of such an agent."""
    for rule in documents.who:
        if rule.agent not in documents.agents:
            yield body_of(rule, rule.agent)


def body_of(rule: WhoRule, agent_id: str) -> Body:
    """Return the body of an agent that a rule `who` makes: the rule's roles and tenant, and nothing of its own."""
    settings = {"tenant": Setting(rule.tenant, str(rule), rule.place)} if rule.tenant is not None else {}
    return Body("agent", agent_id, rule.place, roles=dict.fromkeys(rule.roles, rule.place), settings=settings)
