"""The types of the values in policy files, with the checks that a pattern of a schema cannot make."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from aggregator.config.durations import DURATION_PATTERN, parse_duration

Verdict = Literal["allow", "deny", "confirm"]
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
SERVER_PATTERN: Final = r"^[A-Za-z0-9_-]+$"
# `{subject}` and `{client}` stand for claims of a token, after something that no claim can change.
WHO_AGENT_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*(\{(subject|client)\})?$"
# RFC 6749, 3.3; of several with `|` between, one is enough.
SCOPE_PATTERN: Final = r"^[\x21\x23-\x5B\x5D-\x7E]+$"
KEY_PATTERN: Final = r"^[^\s:]+:\S+$"
LABEL_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,31}$"
# Most confirmations that a rule may require, and most seconds that a call may wait for them.
PEOPLE_AT_MOST: Final = 10
LONGEST_WAIT: Final = 3600.0
# All of them stand in the reason of a decision.
LABELS_OF_A_RULE: Final = 8
# Seconds: the flow state of a key alone is kept no longer.
LONGEST_DECAY: Final = 30 * 86_400.0


def _count(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected a whole number from 1 up")
    return value


def _people(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= PEOPLE_AT_MOST:
        raise ValueError(f"expected a number of people from 1 to {PEOPLE_AT_MOST}")
    return value


def _wait(value: object) -> object:
    if (type(value) in (int, float) and value == 0) or (isinstance(value, str) and value.strip() in ("0", "0s")):
        return 0.0
    seconds = parse_duration(value)
    if seconds > LONGEST_WAIT:
        raise ValueError("expected at most an hour")
    return seconds


def _decay(value: object) -> object:
    seconds = parse_duration(value)
    if seconds > LONGEST_DECAY:
        raise ValueError("expected at most 30 days")
    return seconds


def _one_is_a_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def none_is_empty(value: object) -> object:
    """Read `allow:` with nothing after it as an empty object."""
    return {} if value is None else value


def no_list(value: object) -> object:
    return [] if value is None else value


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=64)]
Server = Annotated[str, StringConstraints(pattern=SERVER_PATTERN, max_length=128)]
HashedKey = Annotated[str, StringConstraints(pattern=KEY_PATTERN, max_length=1000)]
PatternText = Annotated[str, StringConstraints(min_length=1, max_length=500)]
WhoAgent = Annotated[str, StringConstraints(pattern=WHO_AGENT_PATTERN, max_length=52)]
Claim = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Scope = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN, max_length=500)]
Claims = Annotated[list[Claim], BeforeValidator(no_list)]
Scopes = Annotated[list[Scope], BeforeValidator(no_list)]
Count = Annotated[int, BeforeValidator(_count), Field(ge=1, le=10**9)]
People = Annotated[
    int, BeforeValidator(_people), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": PEOPLE_AT_MOST})
]
Wait = Annotated[
    float,
    BeforeValidator(_wait),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}]}),
]
Decay = Annotated[
    float,
    BeforeValidator(_decay),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}]}),
]
Label = Annotated[str, StringConstraints(pattern=LABEL_PATTERN)]
_LABEL_SCHEMA: Final = {"type": "string", "pattern": LABEL_PATTERN}
_SEVERAL: Final = {"type": "array", "minItems": 1, "maxItems": LABELS_OF_A_RULE}
EarlierName = Annotated[str, StringConstraints(min_length=1, max_length=9_000)]
LabelNames = Annotated[
    list[Label],
    BeforeValidator(_one_is_a_list),
    Field(min_length=1, max_length=LABELS_OF_A_RULE),
    WithJsonSchema({"anyOf": [_LABEL_SCHEMA, {**_SEVERAL, "items": _LABEL_SCHEMA}]}),
]
Patterns = Annotated[list[PatternText], BeforeValidator(no_list)]
# One of the values of an object, where JSON Schema says itself that nothing is an empty list.
LabelPatterns = Annotated[
    list[PatternText],
    BeforeValidator(no_list),
    WithJsonSchema({"type": ["array", "null"], "items": {"type": "string", "minLength": 1, "maxLength": 500}}),
]
Names = Annotated[list[Name], BeforeValidator(no_list)]
Servers = Annotated[list[Server], BeforeValidator(no_list)]
