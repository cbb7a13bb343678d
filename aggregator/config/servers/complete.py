"""Resolve the references in one entry or section of the file."""

from collections.abc import Mapping
from typing import NamedTuple

from aggregator.config.files.report import Where
from aggregator.config.servers.envfile import parse_env_file
from aggregator.config.servers.expand import Expander, ExpandError
from aggregator.config.servers.foreign import ENV_FILE
from aggregator.secret_sources.reference import DeferredText, SecretReference

_DEEPEST = 20


class UnresolvedText(NamedTuple):
    """A text with a reference that cannot be resolved, with its path in the entry."""

    where: Where
    error: ExpandError


def complete(
    value: object, expander: Expander, where: Where = (), late: list[DeferredText] | None = None
) -> tuple[object, list[UnresolvedText]]:
    """Return a value with the references in all its texts resolved, and the texts that stay as written.

    With `late`, texts with a reference to a secret are added to it: a file is read, and what the keyring or a program
    would have to tell stays as written.
    """
    gaps: list[UnresolvedText] = []
    return _completed(value, expander, where, gaps, late), gaps


def add_env_file(entry: dict[str, object], expander: Expander) -> list[UnresolvedText]:
    """Add the variables of the entry's `envFile` to `env`, where those of the entry itself go first."""
    named = entry.get(ENV_FILE)
    if not isinstance(named, str) or not named:
        return []
    try:
        found = parse_env_file(expander.read(named))
    except ExpandError as error:
        return [UnresolvedText((ENV_FILE,), error)]
    expander.secrets.update(value for value in found.values() if value)
    own = entry.get("env") or {}
    if isinstance(own, Mapping):
        entry["env"] = {**found, **own}
    return []


def _completed(
    value: object, expander: Expander, where: Where, gaps: list[UnresolvedText], late: list[DeferredText] | None
) -> object:
    if isinstance(value, str):
        try:
            return expander.expand(value) if late is None else _shown(value, expander, where, late)
        except ExpandError as error:
            gaps.append(UnresolvedText(where, error))
    elif len(where) > _DEEPEST:  # no field is nested that deep: the models refuse the value
        return value
    elif isinstance(value, dict):
        return {key: _completed(item, expander, (*where, key), gaps, late) for key, item in value.items()}
    elif isinstance(value, list):
        return [_completed(item, expander, (*where, at), gaps, late) for at, item in enumerate(value)]
    return value


def _shown(text: str, expander: Expander, where: Where, late: list[DeferredText]) -> str:
    parts = expander.parts(text)
    if any(isinstance(part, SecretReference) for part in parts):
        late.append(DeferredText(where, tuple(part for part in parts if part)))
    return "".join(map(expander.shown, parts))
