"""Turn Pydantic's errors about a policy file into sentences with the expected value, the given one, and the fix."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from aggregator.config.files.report import nearest
from aggregator.policy.files.documents import PolicyFile
from aggregator.policy.files.yamltree import Path

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_EXPECTED: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("a text", "Put the value in quotes."),
    "int": ("a whole number", "Correct the value."),
    "list": ("a list", 'Write a list, such as ["one", "two"], or one item a line after "- ".'),
    "mapping": ("an object with keys", 'Write "key: value" lines, indented.'),
    "dict": ("an object with keys", 'Write "key: value" lines, indented.'),
    "model": ("an object with keys", 'Write "key: value" lines, indented.'),
    "greater_than_equal": ("a number from 1 up", "Correct the value. To forbid something, write it under `deny`."),
    "less_than_equal": ("a smaller number", "Correct the value."),
    "string_too_short": ("a text that is not empty", "Correct or remove it."),
    "too_short": ("at least one", "Name one, or remove the line."),
    "too_long": ("a shorter list", "Take some out, or put them into another rule."),
    "string_too_long": ("a shorter text", "Correct or remove it."),
}
_LABEL_SHAPE: Final = (
    "the name of a label",
    "Use a-z, 0-9, _ and -, beginning with a letter, at most 32 characters.",
)
_SHAPES: Final[Mapping[str, tuple[str, str]]] = {
    "keys": (
        "KEYID:HASH",
        "`aggregator keys new AGENT --print-hash` prints such a line; the key itself never stands in a file.",
    ),
    "servers": ("the name of a server", "Use A-Z, a-z, 0-9, _ and -, as `aggregator check` prints it."),
    "bindings": ("the name of a server", "Use A-Z, a-z, 0-9, _ and -, as `aggregator check` prints it."),
    **dict.fromkeys(("labels", "flow"), _LABEL_SHAPE),
}
_NAME_SHAPE: Final = ("a name", "Use A-Z, a-z, 0-9 and . _ -, beginning with a letter or a digit.")
_ELSEWHERE: Final[Mapping[str, str]] = {
    "tenant": "Only agents have a tenant.",
    "keys": "Only agents have keys.",
    "roles": "The defaults take no roles: write the rules here, or name the roles at each agent.",
}


class PolicyComplaint(NamedTuple):
    """A mistake at one place, and how to correct it."""

    path: Path
    message: str
    fix: str


def complaints(error: ValidationError, written: object, root: type[BaseModel] = PolicyFile) -> list[PolicyComplaint]:
    """Return one complaint per place.

    `written` is the whole file as plain values, `root` the model it was checked with.
    """
    made: dict[Path, PolicyComplaint] = {}
    for detail in error.errors(include_url=False, include_input=False):
        path = tuple(step for step in detail["loc"] if step != "[key]")
        made.setdefault(path, PolicyComplaint(path, *_sentences(detail, path, written, root)))
    return list(made.values())


def _sentences(detail: "ErrorDetails", path: Path, written: object, root: type[BaseModel]) -> tuple[str, str]:
    known, context = detail["type"], detail.get("ctx", {})
    if known == "extra_forbidden":
        return _unknown_key(path, root)
    if known == "missing":
        return "A value is missing here.", "Add it."
    came = _lookup(path, written)
    if known == "literal_error":
        words = _words(context["expected"])
        meant = nearest(came, words) if isinstance(came, str) else None
        fix = f"Did you mean `{meant}`?" if meant else "Write one of them."
        return f"Expected {' or '.join(words)}, got {describe_value(came)}.", fix
    if known == "string_pattern_mismatch":
        shape, fix = next((_SHAPES[str(step)] for step in reversed(path) if step in _SHAPES), _NAME_SHAPE)
        return f"This is not {shape}.", fix
    if known == "value_error":
        return f"{_capital(str(context['error']))}, got {describe_value(came)}.", "Correct the value."
    for name in (known, known.rsplit("_", 1)[0], known.split("_", 1)[0]):
        if name in _EXPECTED:
            expected, fix = _EXPECTED[name]
            if expected == "a text" and isinstance(came, Mapping) and len(came) == 1:
                fix = "A colon with a space behind it makes an object: put the text in quotes, or take the space out."
            return f"Expected {expected}, got {describe_value(came)}.", fix
    return "This value does not fit here.", "See the reference of the field in docs/policies.md."


def _unknown_key(path: Path, root: type[BaseModel]) -> tuple[str, str]:
    key, model = str(path[-1]), model_at(path[:-1], root)
    known = model.model_fields
    meant = nearest(key, known)
    if meant:
        return f"There is no key `{key}` here.", f"Did you mean `{meant}`?"
    if key in _ELSEWHERE:
        return f"There is no key `{key}` here.", _ELSEWHERE[key]
    return f"There is no key `{key}` here.", f"The keys are {', '.join(known)}."


def model_at(path: Path, root: type[BaseModel] = PolicyFile) -> type[BaseModel]:
    """Return the model that checks the value at a path."""
    model: Any = root
    for step in path:
        fields = getattr(model, "model_fields", {})
        if step in fields:
            model = _inner(fields[step].annotation) or model
    return model  # type: ignore[no-any-return]


def _inner(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside a field's type, such as `Mapping[Name, AgentPart | None]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner(part))), None)


def describe_value(value: object) -> str:
    """Describe a value, with its content if that is a short word or a number."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"{value!a}" if len(value) <= 40 else "a text"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object"


def _words(expected: Any) -> list[str]:
    return [word.strip("' ") for word in str(expected).replace(" or ", ", ").split(",")]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lookup(path: Path, written: Any) -> Any:
    for step in path:
        try:
            written = written[step]
        except (KeyError, IndexError, TypeError):
            return None
    return written
