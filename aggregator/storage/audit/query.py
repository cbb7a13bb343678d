"""The query language for calls: `agent:shop,desk -status:ok tool:crm.* took:>1s since:1h offer`.

A space is "and", a comma "or", a `-` "not"; `*` and `?` stand for any letters, and for one. A word without a key
matches names, messages and stored values. Quoted text is literal.

This file decides: it takes the time as an argument, and turns a text into a plain value that `search` finds rows with.
Law: no text is refused. Invalid parts are reported and ignored.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NamedTuple, get_args

from aggregator.domain.call_record import RowStatus
from aggregator.domain.errors import OperatorError
from aggregator.storage.audit.past_times import past

LONGEST: Final = 1000
PARTS: Final = 20
_VALUE: Final = 200
# The keys whose values are patterns, and the columns that any of them may match.
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "agent": ("agent_id",),
    "tenant": ("tenant",),
    "server": ("server_id", "answered_by"),
    "tool": ("tool_name", "asked_name"),
    "status": ("status",),
    "code": ("error_code",),
    "rule": ("rule",),
    "frontend": ("frontend",),
    "via": ("via",),
    "conversation": ("conversation_id",),
    "user": ("user_id",),
    "trace": ("trace_id",),
}
KEYS: Final = (*COLUMNS, "took", "size", "since", "until")
# What a word may stand for among statuses.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "failed": ("error", "timeout", "unavailable", "interrupted"),
    "refused": ("denied", "invalid"),
}
STATUSES: Final[tuple[str, ...]] = get_args(RowStatus)

_TOKEN: Final = re.compile(r'(?:"[^"]*"?|[^\s"])+')
_PART: Final = re.compile(r'(?:"[^"]*"?|[^,"])+')
_KEY: Final = re.compile(r"([A-Za-z_]{1,30}):(?!//)(.*)", re.DOTALL)
_BOUND: Final = re.compile(r"(>=|<=|>|<)\s*(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-zµ]{0,3})")
_TIME_UNITS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZE_UNITS: Final = {
    "": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
}  # fmt: skip


class Term(NamedTuple):
    """A key of `COLUMNS` whose column must have one of these values or match one of the patterns; if `negated`, it must
    not.
    """

    key: str
    values: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    negated: bool = False


class SearchWord(NamedTuple):
    """A text that must occur somewhere in the row, or nowhere if `negated`."""

    text: str
    negated: bool = False


class Bound(NamedTuple):
    """A bound of `took` (seconds) or `size` (bytes of the result): `>`, `>=`, `<` or `<=` a value."""

    key: str
    operator: str
    value: float
    negated: bool = False


@dataclass(frozen=True, slots=True)
class CallQuery:
    """A search; all of it must be true of a call. `since` and `until` are seconds since 1970.

    `problems` are sentences about the parts of the text that were left out.
    """

    terms: tuple[Term, ...] = ()
    words: tuple[SearchWord, ...] = ()
    bounds: tuple[Bound, ...] = ()
    since: float | None = None
    until: float | None = None
    problems: tuple[str, ...] = ()

    @property
    def all(self) -> bool:
        """True if every call is found."""
        return not (self.terms or self.words or self.bounds or self.since is not None or self.until is not None)


def parse(text: str, now: float) -> CallQuery:
    """Return the query of a text, at the time `now` (seconds since 1970)."""
    terms: list[Term] = []
    words: list[SearchWord] = []
    bounds: list[Bound] = []
    times: dict[str, float] = {}
    problems = [f"Only the first {LONGEST} characters were read."] if len(text) > LONGEST else []
    for number, (key, value, negated) in enumerate(_parts(text[:LONGEST])):
        if number == PARTS:
            problems.append(f"Only the first {PARTS} parts were read.")
            break
        if key is None:
            words.append(SearchWord(value, negated))
        elif key in COLUMNS:
            found = _term(key, value, negated)
            problems.append(found) if isinstance(found, str) else terms.append(found)
        elif key in ("took", "size"):
            bound = _bound(key, value, negated)
            problems.append(bound) if isinstance(bound, str) else bounds.append(bound)
        elif key in ("since", "until"):
            try:
                times[key] = past(_unquoted(value) if not negated else f"-{key}", now)
            except OperatorError as error:
                problems.append(f"`{key}:`: {error}")
        else:
            problems.append(_unknown(key))
    return CallQuery(tuple(terms), tuple(words), tuple(bounds), times.get("since"), times.get("until"), tuple(problems))


def with_term(text: str, key: str, value: str | None) -> str:
    """Return the text with this value in place of all that `key` has there; None takes it out."""
    kept = [token for token in _TOKEN.findall(text) if _keyed(token.removeprefix("-"))[0] != key]
    return " ".join([*kept, f"{key}:{quoted(value)}"] if value is not None else kept)


def quoted(value: str) -> str:
    """Return a value quoted for a query, so that it is literal."""
    if '"' in value:
        # There is no way to write it; a pattern finds it, and perhaps others.
        return re.sub(r'[\s,"]', "?", value)
    return f'"{value}"' if re.search(r"[\s,*?]", value) or not value else value


def _parts(text: str) -> Iterator[tuple[str | None, str, bool]]:
    """Yield key, value and whether it is negated, of each part; words have no key."""
    for token in _TOKEN.findall(text):
        negated = token.startswith("-") and len(token) > 1
        key, value = _keyed(token[1:] if negated else token)
        if key is None:
            value = _unquoted(value)[:_VALUE]
            if not value:
                continue
        yield key, value, negated


def _keyed(token: str) -> tuple[str | None, str]:
    found = _KEY.fullmatch(token)
    return (found[1].lower(), found[2]) if found is not None else (None, token)


def _unquoted(text: str) -> str:
    return text.replace('"', "")


def _term(key: str, value: str, negated: bool) -> Term | str:
    values: list[str] = []
    patterns: list[str] = []
    for part in _PART.findall(value):
        if one := _unquoted(part).strip()[:_VALUE]:
            (patterns if '"' not in part and ("*" in part or "?" in part) else values).append(one)
    if not values and not patterns:
        return f"`{key}:` has no value."
    if len(values) + len(patterns) > PARTS:
        return f"`{key}:` has more than {PARTS} values."
    if key == "status":
        wrong = next((one for one in (*values, *patterns) if one not in GROUPS and one not in STATUSES), None)
        if wrong is not None:
            near = get_close_matches(wrong, (*STATUSES, *GROUPS), 1)
            hint = f"Did you mean `{near[0]}`?" if near else f"There are {', '.join((*STATUSES, *GROUPS))}."
            return f"There is no status `{wrong[:40]}`. {hint}"
        values = [status for one in values for status in GROUPS.get(one, (one,))]
    return Term(key, tuple(values), tuple(patterns), negated)


def _bound(key: str, value: str, negated: bool) -> Bound | str:
    found, units = _BOUND.fullmatch(_unquoted(value)), _TIME_UNITS if key == "took" else _SIZE_UNITS
    unit = (found[3] if key == "took" else found[3].lower()) if found is not None else None
    if found is None or unit not in units:
        example = "took:>1s or took:<250ms" if key == "took" else "size:>64KiB or size:<1kB"
        return f"`{key}:{value[:40]}` is no bound. Write {example}."
    return Bound(key, found[1], float(found[2]) * units[unit], negated)


def _unknown(key: str) -> str:
    near = get_close_matches(key, KEYS, 1)
    hint = f"Did you mean `{near[0]}:`?" if near else f"There are {', '.join(KEYS)}."
    return f"There is no key `{key}:`. {hint} To search for the text, put it in quotes."
