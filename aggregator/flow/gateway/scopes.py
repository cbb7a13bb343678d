"""The labels of scopes in memory: which labels count in which scope, from when, and until when.

This file decides. Law: until it expires or is cleared, a label leaves no scope; an unknown scope starts with its
owner's labels, so that indistinguishable conversations share all their reads.
"""

import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from aggregator.flow.decide.decide_flow import FlowState, LabelSource, labels_told
from aggregator.flow.storage import CALLED, LISTED, FlowClear, FlowRow
from aggregator.wire.codec import encode

Kind = Literal["session", "trace", "key"]
# Seconds that the labels of a session, whose id stays valid for less, and of a trace are kept.
SESSION_LASTS: Final = 8 * 86400.0
TRACE_LASTS: Final = 86400.0
# A row is written so that it lasts longer by this part: so often, at most, is it written anew.
_BEYOND: Final = 0.1
# Seconds after which an expired label no longer counts for a call that waited with a question: longer than the question
# is valid.
RESUMED_WITHIN: Final = 960.0
MOST_SCOPES: Final = 10_000
# Seconds by which clocks of two replicas may differ: each errs by half a query (`replicas/group/clock.py`).
CLOCKS_DIFFER: Final = 0.5
_DIGITS: Final = 12
# Scopes kept because a label of theirs is in no row yet; beyond that, the least recently used are dropped too.
_KEPT_UNWRITTEN: Final = 100


class ScopeOwner(NamedTuple):
    """An agent and its identification: its key, or the user and program of its token, or neither."""

    agent_id: str
    key_id: str | None
    bearer: tuple[str, str, str | None] | None


class ScopeKey(NamedTuple):
    """The name of a scope in memory. `id` is the session or trace; empty for all that comes with a key."""

    owner: ScopeOwner
    kind: Kind
    id: str = ""

    @property
    def of_key(self) -> "ScopeKey":
        """The scope of all that comes with the same key."""
        return self if self.kind == "key" else ScopeKey(self.owner, "key")

    @property
    def digest(self) -> str:
        """The name of the scope in the database: sessions and keys are secrets."""
        return sha256(encode([*self.owner, self.kind, self.id])).hexdigest()

    @property
    def shown(self) -> str:
        """The display name of the scope."""
        if self.kind == "trace":
            return self.id
        if self.kind == "key" and self.owner.bearer is None:
            return self.owner.key_id or "without-key"
        return f"{'session' if self.kind == 'session' else 'token'}-{self.digest[:_DIGITS]}"


class PlacedRow(NamedTuple):
    """A row that is to be written, with its scope."""

    key: ScopeKey
    row: FlowRow


@dataclass(slots=True)
class ScopeLabel:
    """One label of a scope.

    `source` is the call that brought it last, `first` the time from which it counts. It counts until `expires`; its row
    in the database, as far as this process knows, until `stored`.
    """

    source: LabelSource
    first: float
    expires: float
    stored: float = 0.0


class KnownLabels(NamedTuple):
    """The labels of a scope that count from `since` to before `until`, while `Scopes` makes no other change.

    `told`: the same in the form of a record.
    """

    labels: frozenset[str]
    told: str | None
    since: float
    until: float
    changes: int


class Renewal(NamedTuple):
    """The labels that results bring again: each place of one in memory, and for how many seconds it counts there.

    No row has to be written before `until`, while `Scopes` makes no other change.
    """

    labels: frozenset[str]
    decay: float
    places: tuple[tuple[ScopeLabel, float], ...]
    until: float
    changes: int


@dataclass(slots=True)
class Scope:
    """The labels that calls of one scope brought, which was first heard of at `opened`.

    `loaded`: the rows of the scope were read since then, or there are none. `mark`: that of the labels in the database
    before they were read; None if it is unknown.

    `of_key` names the scope of its key. Of a session: it `takes_over` what its key knew when it was opened, once it has
    `begun`, unless it had `listed` before, here or elsewhere. `told`: a row says that it called before it listed.
    `compared`: since it has begun, the rows of its key were read.

    `known` and `renewal` save calls without a task the work of the call before.
    """

    key: ScopeKey
    opened: float
    loaded: bool
    mark: bytes | None = None
    labels: dict[str, ScopeLabel] = field(default_factory=dict)
    begun: bool = False
    takes_over: bool = False
    listed: bool = False
    told: bool = False
    compared: bool = False
    known: KnownLabels | None = None
    renewal: Renewal | None = None
    of_key: ScopeKey = field(init=False)

    def __post_init__(self) -> None:
        self.of_key = self.key.of_key

    @property
    def untold(self) -> bool:
        """True if other processes do not know yet that this session takes over the labels of its key."""
        return self.takes_over and not self.told


class Scopes:
    """The scopes of one process; those used longest ago are forgotten. `stored`: they are in a database too."""

    def __init__(self, *, stored: bool, most: int = MOST_SCOPES) -> None:
        self._stored = stored
        self._most = most
        self._scopes: OrderedDict[ScopeKey, Scope] = OrderedDict()
        # The labels of forgotten scopes that are in no database, which every later scope of their owner begins with.
        self._forgotten: dict[ScopeOwner, dict[str, ScopeLabel]] = {}
        # Scopes with a label that is in no row yet.
        self._unwritten: dict[ScopeKey, None] = {}
        # Counts the changes after which other labels may count, in any scope.
        self._changes = 0

    def __repr__(self) -> str:
        return f"<Scopes {len(self._scopes)}, {len(self._unwritten)} to be written>"

    def __len__(self) -> int:
        return len(self._scopes)

    @property
    def unwritten(self) -> tuple[ScopeKey, ...]:
        """The scopes with a label that is in no row yet."""
        return tuple(self._unwritten)

    def is_committed(self, key: ScopeKey) -> bool:
        """Return whether all labels of a scope, and of its key, are in rows that last long enough."""
        return not any(one in self._unwritten for one in with_key(key))

    def find(self, key: ScopeKey) -> tuple[Scope, Scope] | None:
        """Return a scope and that of its key, which is the same for a key; None if one is not in memory."""
        scope = self._scopes.get(key)
        of_key = scope if scope is None or key.kind == "key" else self._scopes.get(scope.of_key)
        return (scope, of_key) if scope is not None and of_key is not None else None

    def use(self, scope: Scope, of_key: Scope, now: float) -> FlowState:
        """Return the labels that count of a scope that is in memory, as is that of its key."""
        self._scopes.move_to_end(scope.key)
        if of_key is not scope:
            self._scopes.move_to_end(of_key.key)
        return _counted(scope, of_key, now)

    def known(self, scope: Scope, of_key: Scope, now: float) -> KnownLabels:
        """Return what `use` does without the calls that brought the labels: the same object while nothing changes."""
        self._scopes.move_to_end(scope.key)
        if of_key is not scope:
            self._scopes.move_to_end(of_key.key)
        known = scope.known
        if known is None or known.changes != self._changes or not known.since <= now < known.until:
            labels = frozenset(_counted(scope, of_key, now))
            places = (one.labels[label] for one in (scope, of_key) for label in labels if label in one.labels)
            until = min((place.expires for place in places if place.expires > now), default=math.inf)
            known = scope.known = KnownLabels(labels, labels_told(labels), now, until, self._changes)
        return known

    def open(self, key: ScopeKey, now: float) -> None:
        """Load a scope, and its key's scope, into memory; a missing one begins with its owner's labels.

        A trace begins with the labels of its key at this time, as long as they count for the key.
        """
        # That of the key after its traces, which need it, so that it is not forgotten before them.
        for one in with_key(key):
            if one in self._scopes:
                self._scopes.move_to_end(one)
                continue
            self._changes += 1
            scope = self._scopes[one] = Scope(one, now, loaded=not self._stored)
            for label, known in self._forgotten.get(one.owner, {}).items():
                scope.labels[label] = ScopeLabel(known.source, known.first, known.expires)
            if len(self._scopes) > self._most:
                self._forget_one(key)

    def begin(self, key: ScopeKey, now: float, *, takes_over: bool) -> None:
        """Record a call in a session; with the first one, `takes_over` tells whether the session starts with its key's
        labels.
        """
        scope = self._scopes.get(key)
        if scope is None or not scope.begun:
            self.open(key, now)
            scope = self._scopes[key]
            scope.begun, scope.takes_over, scope.opened = True, takes_over and not scope.listed, now
            self._changes += 1

    def listed(self, key: ScopeKey, now: float) -> FlowRow | None:
        """Return the row by which other processes know that a session was sent a list; None if it called before."""
        scope = self._scopes.get(key)
        if scope is not None and (scope.begun or scope.listed):
            return None
        self.open(key, now)
        self._scopes[key].listed = True
        return _mark(key, LISTED, now, now)

    def called(self, key: ScopeKey, now: float) -> FlowRow | None:
        """Return the row by which other processes know that a session called before it listed; None if none is due."""
        scope = self._scopes.get(key)
        if scope is None or not scope.untold:
            return None
        return _mark(key, CALLED, scope.opened, now)

    def mark_called(self, key: ScopeKey) -> None:
        """Note that the row of `called` is committed."""
        if (scope := self._scopes.get(key)) is not None:
            scope.told = True

    def state(self, key: ScopeKey, now: float) -> FlowState:
        """Return the labels of a scope that count, with the calls that brought them last."""
        scope = self._scopes.get(key)
        if scope is None:
            return {}
        return _counted(scope, self._scopes.get(scope.of_key), now)

    def _forget_one(self, opened: ScopeKey) -> None:
        kept, sparing = with_key(opened), len(self._unwritten) <= _KEPT_UNWRITTEN
        for key, scope in self._scopes.items():
            lost = not self._stored or key in self._unwritten
            if key in kept or (lost and (key.kind == "key" or (self._stored and sparing))):
                continue
            del self._scopes[key]
            self._unwritten.pop(key, None)
            if lost:
                forgotten = self._forgotten.setdefault(key.owner, {})
                for label, known in scope.labels.items():
                    if label not in forgotten or forgotten[label].expires < known.expires:
                        forgotten[label] = known
            return

    # -- results that bring labels

    def bring(self, key: ScopeKey, labels: Collection[str], source: LabelSource, decay: float) -> tuple[str, ...]:
        """Record labels of a result, in its scope and in its key's, for `decay` seconds.

        Return the labels that are new to its scope. `rows` returns the rows to write.
        """
        now = source.at
        self.open(key, now)
        self._changes += 1
        new = tuple(sorted(set(labels) - self.state(key, now).keys()))
        for one in with_key(key):
            scope, lasts = self._scopes[one], _lasts(one.kind, decay)
            for label in labels:
                known, ends = scope.labels.get(label), _ends(one.kind, now, lasts)
                if known is None or known.expires <= now:
                    known = scope.labels[label] = ScopeLabel(
                        source, now, ends, known.stored if known is not None else 0.0
                    )
                else:
                    _renew(known, source, ends)
                if self._stored and known.stored < now + lasts:
                    self._unwritten[one] = None
        return new

    def brings_nothing_new(self, key: ScopeKey, labels: Collection[str], source: LabelSource, decay: float) -> bool:
        """Record labels that came before and need no row; return False, and change nothing, if there are others."""
        scope, now = self._scopes.get(key), source.at
        if scope is None:
            return False
        renewal = scope.renewal
        if (
            renewal is None
            or renewal.changes != self._changes
            or now >= renewal.until
            or renewal.labels != labels
            or renewal.decay != decay
        ):
            renewal = scope.renewal = self._renewal(key, labels, now, decay)
            if renewal is None:
                return False
        for known, lasts in renewal.places:
            _renew(known, source, now + lasts)
        return True

    def _renewal(self, key: ScopeKey, labels: Collection[str], now: float, decay: float) -> Renewal | None:
        """Return what a result with these labels renews; None if it brings a label or needs a row."""
        places, until = [], math.inf
        for one in with_key(key):
            scope = self._scopes.get(one)
            if scope is None:
                return None
            lasts = _lasts(one.kind, decay)
            for label in labels:
                known = scope.labels.get(label)
                if known is None or known.expires <= now or (self._stored and known.stored < now + lasts):
                    return None
                places.append((known, _ends(one.kind, 0.0, lasts)))
                until = min(until, known.expires, known.stored - lasts if self._stored else math.inf)
        return Renewal(frozenset(labels), decay, tuple(places), until, self._changes)

    # -- rows

    def rows(self, keys: Iterable[ScopeKey], decay: float) -> list[PlacedRow]:
        """Return the rows that have to be written for these scopes."""
        rows = []
        for key in keys:
            scope, lasts = self._scopes.get(key), _lasts(key.kind, decay)
            if key not in self._unwritten or scope is None:
                continue
            digest, agent, shown = key.digest, key.owner.agent_id, key.shown
            for label, known in scope.labels.items():
                tool, at, trace_id = known.source
                if known.stored < at + lasts:
                    ends = at + lasts * (1 + _BEYOND)
                    row = FlowRow(digest, label, agent, key.kind, shown, tool, trace_id, known.first, at, ends)
                    rows.append(PlacedRow(key, row))
        return rows

    def written(self, rows: Collection[PlacedRow], decay: float) -> None:
        """Note that rows are committed."""
        for key, row in rows:
            scope = self._scopes.get(key)
            known = scope.labels.get(row.label) if scope is not None else None
            if known is not None:
                known.stored = max(known.stored, row.expires)
        keys = {key for key, _ in rows}
        left = {key for key, _ in self.rows(keys, decay)}
        for key in keys - left:
            self._unwritten.pop(key, None)

    def postpone(self, keys: Iterable[ScopeKey]) -> None:
        """Have these scopes be the last of those that are to be written."""
        for key in keys:
            if key in self._unwritten:
                del self._unwritten[key]
                self._unwritten[key] = None

    def take(
        self,
        key: ScopeKey,
        found: Mapping[str, Sequence[FlowRow]],
        now: float,
        mark: bytes | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        """Take the rows that were read of a scope and of its key, after `mark` was read.

        `is_new`: the scope was opened for this reading.
        """
        self.open(key, now)
        self._changes += 1
        for one in with_key(key):
            scope, rows = self._scopes[one], found.get(one.digest, ())
            marks = {row.label: row.first for row in rows if row.label in (LISTED, CALLED)}
            if marks:
                _take_marks(scope, marks.get(LISTED, math.inf), marks.get(CALLED, math.inf))
            for row in rows:
                if row.label in marks:
                    continue
                known, ends = scope.labels.get(row.label), math.inf if one.kind == "session" else row.expires
                source = LabelSource(row.tool, row.last, row.trace_id)
                if known is None or known.expires <= row.first:
                    scope.labels[row.label] = ScopeLabel(source, row.first, ends, row.expires)
                    continue
                known.first = min(known.first, row.first)
                known.expires, known.stored = max(known.expires, ends), max(known.stored, row.expires)
                if source.at > known.source.at:
                    known.source = source
            scope.loaded, scope.mark = True, mark
        scope = self._scopes[key]
        if is_new if key.kind == "trace" else scope.untold and not scope.compared:
            # These rows were committed before, even if the clock of the replica that wrote them is ahead.
            scope.opened = max([scope.opened, *(one.first for one in self._scopes[scope.of_key].labels.values())])
        scope.compared = scope.compared or scope.begun

    def clear(self, cleared: FlowClear) -> None:
        """Forget the reads before a clear, in its scopes; later reads are written again."""
        self._changes += 1
        for owner, labels in self._forgotten.items():
            if cleared.agent_id in (None, owner.agent_id) and not cleared.scopes:
                self._forgotten[owner] = {name: known for name, known in labels.items() if known.source.at > cleared.at}
        for key, scope in self._scopes.items():
            if cleared.agent_id not in (None, key.owner.agent_id):
                continue
            if cleared.scopes and key.digest not in cleared.scopes:
                continue
            scope.labels = {label: known for label, known in scope.labels.items() if known.source.at > cleared.at}
            scope.loaded = not self._stored
            if scope.opened <= cleared.at:
                scope.takes_over = False
            self._write_again(scope)

    def doubt(self) -> None:
        """Have everything written again: the database is another one, or was restored."""
        self._changes += 1
        for scope in self._scopes.values():
            scope.loaded = not self._stored
            self._write_again(scope)

    def _write_again(self, scope: Scope) -> None:
        for known in scope.labels.values():
            known.stored = 0.0
        if scope.labels and self._stored:
            self._unwritten[scope.key] = None
        else:
            self._unwritten.pop(scope.key, None)


def _counted(scope: Scope, of_key: Scope | None, now: float) -> FlowState:
    """Return the labels of a scope that count, with the calls that brought them last."""
    labels = scope.labels
    state = {label: known.source for label, known in labels.items() if known.expires > now} if labels else {}
    if of_key is not None and of_key.labels and (scope.takes_over or scope.key.kind == "trace"):
        for label, known in of_key.labels.items():
            if known.expires > now and known.first <= scope.opened and label not in state:
                state[label] = known.source
    return state


def with_key(key: ScopeKey) -> tuple[ScopeKey, ...]:
    """Return a scope and the scope of its key."""
    return (key,) if key.kind == "key" else (key, key.of_key)


def _mark(key: ScopeKey, label: str, first: float, now: float) -> FlowRow:
    """Return the row that says of a session, in place of a label, how it began."""
    ends = now + SESSION_LASTS * (1 + _BEYOND)
    return FlowRow(key.digest, label, key.owner.agent_id, key.kind, key.shown, "", None, first, now, ends)


def _take_marks(scope: Scope, listed: float, called: float) -> None:
    """Take when a session listed and when it called before that, as any process has noted it; infinite: never.

    Who notes a call has seen no list: of two times that clocks of replicas cannot tell apart, the call is the first.
    """
    if called < listed + CLOCKS_DIFFER:
        if not scope.told:
            if not scope.begun or called < scope.opened + CLOCKS_DIFFER:
                scope.opened = called
            scope.begun, scope.takes_over, scope.listed, scope.told = True, True, False, True
    else:
        scope.listed = scope.listed or not scope.begun or listed <= scope.opened + CLOCKS_DIFFER
        scope.takes_over = scope.takes_over and not scope.listed


def _renew(known: ScopeLabel, source: LabelSource, ends: float) -> None:
    known.expires = max(known.expires, ends)
    if source.at >= known.source.at:
        known.source = source


def _lasts(kind: Kind, decay: float) -> float:
    """Return for how many seconds a label counts in a scope of a kind; its rows last that long at least."""
    return decay if kind == "key" else TRACE_LASTS if kind == "trace" else SESSION_LASTS


def _ends(kind: Kind, at: float, lasts: float) -> float:
    """Return until when a label counts that was brought at a time; a session that is in memory forgets none."""
    return math.inf if kind == "session" else at + lasts
