"""Types of fields: durations, sizes, texts; and the frozen base class of all sections."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from aggregator.config.durations import DURATION_PATTERN, SIZE_PATTERN, parse_duration, parse_size

MIB = 2**20


def _whole(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a whole number")
    return value


def _texts(value: object) -> object:
    """Return numbers and booleans as text, which hosts accept in `env` and `args`; a null removes its entry."""
    if isinstance(value, Mapping):
        return {key: as_text(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [as_text(item) for item in value]
    return value


def as_text(value: object) -> object:
    """Return a number or a boolean as a program gets it in `env` and `args`; any other value as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}]}
    ),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": SIZE_PATTERN}]}),
]
Whole = Annotated[int, BeforeValidator(_whole)]
_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), WithJsonSchema({"type": "array", "items": _SCALAR})]
TextMap = Annotated[
    Mapping[str, str],
    BeforeValidator(_texts),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}),
]


class ConfigModel(BaseModel):
    """A frozen section of the configuration whose validation errors never show a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)
