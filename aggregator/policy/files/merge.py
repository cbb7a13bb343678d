"""Merge all files: lists are joined, single values that differ are errors naming both places.

Law: the order of the files changes nothing but the order of complaints.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.config.files.report import dotted
from aggregator.domain.problems import Problem
from aggregator.policy.files.crosscheck import crosscheck
from aggregator.policy.files.documents import AgentPart, DefaultsPart, LimitsPart, PolicyFile, RolePart, WhoPart
from aggregator.policy.files.yamltree import Path, YamlTree
from aggregator.policy.patterns import Pattern, PatternError, parse
from aggregator.policy.rules import (
    RULE_FIELDS,
    Body,
    BodyKind,
    Documents,
    FlowLabel,
    FlowRule,
    Key,
    Place,
    Rule,
    RuleField,
    Setting,
    WhoRule,
    owner,
)

# Rules for tools only: `resource:`, `prompt:` and `skill:` patterns are errors in them.
_TOOLS_ONLY = frozenset({"arguments", "limits", "read_only", "idempotent", "retry", "pinned"})
_SCALARS = ("confirm_by", "confirm_fallback", "confirm_wait", "denials", "names", "schemas", "expose", "tenant")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """One file that is valid for itself."""

    file: str
    content: PolicyFile
    tree: YamlTree


@dataclass(slots=True)
class _Draft:
    """A body as it grows with each file that has it."""

    kind: BodyKind
    name: str
    place: Place
    rules: dict[tuple[str, str], Rule] = field(default_factory=dict)
    roles: dict[str, Place] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    bindings: dict[str, Setting] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return owner(self.kind, self.name)

    def whole(self) -> Body:
        return Body(
            self.kind,
            self.name,
            self.place,
            tuple(sorted(self.rules.values(), key=lambda rule: (rule.field, rule.pattern.text))),
            self.roles,
            self.settings,
            self.bindings,
            tuple(self.keys[hashed] for hashed in sorted(self.keys)),
        )


def merge(
    parts: Iterable[CheckedFile], revision: str, problems: list[Problem], files: tuple[str, ...] = ()
) -> Documents:
    """Merge the files into documents; contradictions in one file or between two go to `problems`."""
    merging = _Merging(problems)
    for part in sorted(parts, key=lambda part: part.file):
        merging.add(part)
    documents = Documents(
        agents={name: draft.whole() for name, draft in sorted(merging.agents.items())},
        roles={name: draft.whole() for name, draft in sorted(merging.roles.items())},
        defaults=merging.defaults.whole() if merging.defaults is not None else None,
        tenants=merging.tenants,
        revision=revision,
        files=files,
        who=merging.who,
        labels=merging.flow_labels(),
        flow=tuple(merging.flow.values()),
        decay=merging.decay,
        conversation=merging.conversation,
    )
    problems += crosscheck(documents)
    return documents


class _Merging:
    """The bodies and tenants so far, while one file after another is merged."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.agents: dict[str, _Draft] = {}
        self.roles: dict[str, _Draft] = {}
        self.defaults: _Draft | None = None
        self.tenants: dict[str, dict[str, Place]] = {}
        self.who: tuple[WhoRule, ...] = ()
        self.labels: dict[str, Place] = {}
        self.label_rules: dict[tuple[str, str], Rule] = {}
        self.flow: dict[tuple[frozenset[str], frozenset[str], str], FlowRule] = {}
        self.decay: Setting | None = None
        self.conversation: Setting | None = None

    def add(self, part: CheckedFile) -> None:
        """Merge all of one file."""
        content, here = part.content, _Position(part)
        for name, agent in content.agents.items():
            draft = self._draft(self.agents, "agent", name, here.place("agents", name))
            self._body(draft, agent or AgentPart(), here, ("agents", name))
        for name, role in content.roles.items():
            draft = self._draft(self.roles, "role", name, here.place("roles", name))
            self._body(draft, role or RolePart(), here, ("roles", name))
        if content.defaults is not None:
            place = here.place("defaults")
            self.defaults = self.defaults or _Draft("defaults", "", place)
            self._body(self.defaults, content.defaults, here, ("defaults",))
        for name, tenant in content.tenants.items():
            servers = self.tenants.setdefault(name, {})
            for at, server in enumerate(tenant.servers if tenant is not None else ()):
                servers.setdefault(server, here.place("tenants", name, "servers", at))

        if content.who and self.who:
            fix = "Put all of them into one file: their order counts."
            self._error(here, ("who",), f"Another file has rules `who` already ({self.who[0].place}).", fix)
        elif content.who:
            self.who = tuple(_who_rules(content.who, here))
        self._flow(content, here)

    def flow_labels(self) -> dict[str, FlowLabel]:
        """Return the labels of all files so far."""
        patterns: dict[str, list[Rule]] = {name: [] for name in sorted(self.labels)}
        for (name, _), rule in sorted(self.label_rules.items()):
            patterns[name].append(rule)
        return {name: FlowLabel(name, self.labels[name], tuple(rules)) for name, rules in patterns.items()}

    def _flow(self, content: PolicyFile, here: "_Position") -> None:
        for name, texts in content.labels.items():
            self.labels.setdefault(name, here.place("labels", name))
            for at, text in enumerate(texts):
                where = ("labels", name, at)
                if (pattern := self._pattern("labels", text, here, where)) is not None:
                    rule = Rule("labels", pattern, f"label {name}", here.place(*where), name)
                    self.label_rules.setdefault((name, text), rule)
        for at, part in enumerate(content.flow):
            after, calls = frozenset(part.after), frozenset(part.calls)
            new = FlowRule(after, calls, part.then, here.place("flow", at))
            self.flow.setdefault((after, calls, part.then), new)
        if content.decay is not None:
            self.decay = self.decay or Setting(content.decay, "decay", here.place("decay"))
            if self.decay.value != content.decay:
                self._differ(here, ("decay",), self.decay.place)
        if content.conversation is not None:
            said = Setting(content.conversation, "conversation", here.place("conversation"))
            self.conversation = self.conversation or said
            if self.conversation.value != content.conversation:
                self._differ(here, ("conversation",), self.conversation.place)

    def _draft(self, drafts: dict[str, _Draft], kind: BodyKind, name: str, place: Place) -> _Draft:
        return drafts.setdefault(name, _Draft(kind, name, place))

    def _body(self, draft: _Draft, body: DefaultsPart, here: "_Position", path: Path) -> None:
        for rule_field in RULE_FIELDS:
            self._rules(draft, rule_field, getattr(body, rule_field), here, (*path, rule_field))
        for plain_name, server in body.bindings.items():
            where = (*path, "bindings", plain_name)
            if any(char in plain_name for char in "*?["):
                fix = "Write one line for each tool."
                self._error(here, where, "A binding is for one name, without wildcards.", fix)
            self._set(draft, draft.bindings, plain_name, server, here, where)
        for name in _SCALARS:
            if (value := getattr(body, name, None)) is not None:
                self._set(draft, draft.settings, name, value, here, (*path, name))
        for trait in type(body.annotations).model_fields:
            if (value := getattr(body.annotations, trait)) is not None:
                self._set(draft, draft.settings, f"annotations.{trait}", value, here, (*path, "annotations", trait))
        if isinstance(body, RolePart):
            for at, name in enumerate(body.roles):
                draft.roles.setdefault(name, here.place(*path, "roles", at))
        if isinstance(body, AgentPart):
            for at, hashed in enumerate(body.keys):
                key_id, _, rest = hashed.partition(":")
                draft.keys.setdefault(hashed, Key(key_id, rest, here.place(*path, "keys", at)))

    def _rules(
        self,
        draft: _Draft,
        name: RuleField,
        written: "Iterable[str] | Mapping[str, Any]",
        here: "_Position",
        path: Path,
    ) -> None:
        for at, text in enumerate(written):
            where = (*path, text if isinstance(written, Mapping) else at)
            pattern = self._pattern(name, text, here, where)
            if pattern is None:
                continue
            value = written[text] if isinstance(written, Mapping) else None
            new = Rule(name, pattern, draft.owner, here.place(*where), value)
            if isinstance(value, LimitsPart):
                self._limits(draft, new, value, here, where)
                continue
            known = draft.rules.setdefault((name, text), new)
            if known.value != value:
                self._differ(here, where, known.place)

    def _limits(self, draft: _Draft, rule: Rule, value: LimitsPart, here: "_Position", path: Path) -> None:
        known = draft.rules.get(("limits", rule.pattern.text))
        bounds: dict[str, Setting] = dict(known.value) if known is not None else {}
        for name in type(value).model_fields:
            if (bound := getattr(value, name)) is not None:
                self._set(draft, bounds, name, bound, here, (*path, name))
        place = known.place if known is not None else rule.place
        draft.rules["limits", rule.pattern.text] = Rule("limits", rule.pattern, rule.owner, place, bounds)

    def _set(
        self, draft: _Draft, settings: dict[str, Setting], name: str, value: Any, here: "_Position", path: Path
    ) -> None:
        known = settings.setdefault(name, Setting(value, draft.owner, here.place(*path)))
        if known.value != value:
            self._differ(here, path, known.place)

    def _pattern(self, name: RuleField, text: str, here: "_Position", path: Path) -> Pattern | None:
        try:
            pattern = parse(text)
        except PatternError as error:
            self._error(here, path, error.message, error.fix)
            return None
        if name in _TOOLS_ONLY and pattern.kind in ("resource", "prompt", "skill"):
            self._error(here, path, f"`{name}` is for tools.", f"Take {pattern.kind}: patterns out.")
            return None
        return pattern

    def _differ(self, here: "_Position", path: Path, first: Place) -> None:
        self._error(here, path, f"This differs from what {first} says.", "Say it in one place, or the same in both.")

    def _error(self, here: "_Position", path: Path, message: str, fix: str) -> None:
        self.problems.append(Problem(here.place(*path).whole, dotted(path), message, fix, "error"))


def _who_rules(parts: Iterable[WhoPart], here: "_Position") -> Iterator[WhoRule]:
    for at, part in enumerate(parts):
        yield WhoRule(
            at + 1,
            part.agent,
            here.place("who", at),
            part.issuer,
            part.subject,
            part.client,
            tuple(part.groups),
            tuple(part.scopes),
            part.tenant,
            tuple(part.roles),
        )


@dataclass(frozen=True, slots=True)
class _Position:
    """One file, to find the places of its values."""

    part: CheckedFile

    def place(self, *path: str | int) -> Place:
        return Place(self.part.file, self.part.tree.line(path))
