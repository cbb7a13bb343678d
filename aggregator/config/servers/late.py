"""Texts of an entry that are completed for each connection: where they may stand, and their place in the fields."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from aggregator.config.files.report import Where
from aggregator.config.servers.complete import UnresolvedText
from aggregator.config.servers.expand import ExpandError
from aggregator.config.servers.foreign import RENAMED
from aggregator.config.servers.secrets import AUTH_SECRETS, secrets_in_address
from aggregator.secret_sources.reference import DeferredText

# Fields whose texts may have a secret in them, and those of `launch` and `auth`.
_FIELDS: Final = frozenset({"args", "env", "url", "headers", "proxy"})
_PARTS: Final = {"launch": frozenset({"args", "env"}), "auth": AUTH_SECRETS}
# Fields that are addresses as a whole.
_ADDRESSES: Final = frozenset({"url", "proxy"})
_PLACEHOLDER: Final = "x"


def sort_out(found: Iterable[DeferredText]) -> tuple[list[DeferredText], list[UnresolvedText]]:
    """Return the texts that are completed later, and a gap for each that has to be known at once."""
    late: list[DeferredText] = []
    gaps: list[UnresolvedText] = []
    for text in found:
        field, rest = _field(text), text.where[1:]
        if field in _FIELDS or (rest and rest[0] in _PARTS.get(field, ())):
            late.append(text)
        elif text.unknown:
            shown = next(reference.shown for reference in text.references if reference.kind != "file")
            said = f"`{shown}` cannot stand in this field, which is read when the program starts."
            fix = "Secrets can stand in `args`, `env`, `url`, `headers` and `proxy`, and as the secrets of `auth`."
            gaps.append(UnresolvedText(text.where, ExpandError(said, fix)))
    return late, gaps


def under_our_names(late: Iterable[DeferredText], written: Mapping[str, str]) -> tuple[DeferredText, ...]:
    """Return the texts by our names of their fields; `written` has the key of the file that each field came from."""
    return tuple(
        DeferredText((_field(text), *text.where[1:]), text.parts)
        for text in late
        if written.get(_field(text)) == text.where[0]
    )


def _field(text: DeferredText) -> str:
    key = str(text.where[0])
    return RENAMED[key][0] if key in RENAMED else key


def put(value: Any, where: Where, text: str | None) -> Any:
    """Return a copy of fields, of a list or of a model, with another text at one place in it."""
    if not where:
        return text
    step, rest = where[0], where[1:]
    if isinstance(value, BaseModel):
        return value.model_copy(update={str(step): put(getattr(value, str(step)), rest, text)})
    if isinstance(value, Mapping):
        return {**value, step: put(value[step], rest, text)} if step in value else value
    if isinstance(value, list | tuple) and isinstance(step, int):
        return type(value)(put(item, rest, text) if at == step else item for at, item in enumerate(value))
    return value


def literal_secrets(late: Iterable[DeferredText]) -> Iterator[str]:
    """Yield the secrets in addresses that are not references."""
    for text in late:
        yield from secrets_in_address("".join(part for part in text.parts if isinstance(part, str)))


def without_late(value: Any, late: Iterable[DeferredText]) -> Any:
    """Return a copy without the texts that are not known: what is left may be searched for secrets."""
    for text in late:
        if text.unknown:
            value = put(value, text.where, "")
    return value


def with_placeholders(fields: Mapping[str, Any], late: Iterable[DeferredText]) -> dict[str, Any]:
    """Return a copy of fields that can be checked: a letter for each value that is not known.

    An address that begins with such a value is left out, since nothing is known of it.
    """
    for text in late:
        if text.unknown:
            made = "".join(part if isinstance(part, str) else _PLACEHOLDER for part in text.parts)
            whole = text.where[0] in _ADDRESSES and not isinstance(text.parts[0], str)
            fields = put(fields, text.where, None if whole else made)
    return dict(fields)
