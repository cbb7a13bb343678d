"""Resolve the references in one entry or section of the file.

The variables that an entry itself gives go before all others. Rule: a reference in `env` is looked up in the
environment first, so that `"TOKEN": "${TOKEN}"` passes a variable on.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from aggregator.config.fields import as_text
from aggregator.config.files.report import Where
from aggregator.config.servers.expand import Expander, ExpandError
from aggregator.config.servers.foreign import ENV_FILE, MEANT, RENAMED
from aggregator.secret_sources.reference import DeferredText, SecretReference, shortened

_DEEPEST = 20
_LINE = r"(?a)\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*"
_QUOTED = r"""(["'])(.*?)\1\s*(?:#.*)?"""
_ENV: Final = "env"
_LAUNCH: Final = "launch"

# What a variable of an entry stands for: texts, and secrets that are completed later.
Parts = tuple[str | SecretReference, ...]


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
    """Put the variables of the entry's `envFile` into its `env`, of which it has none yet."""
    named = entry.get(ENV_FILE)
    if not isinstance(named, str) or not named:
        return []
    try:
        found = parse_env_file(expander.read(named))
    except ExpandError as error:
        return [UnresolvedText((ENV_FILE,), error)]
    expander.secrets.update(value for value in found.values() if value)
    entry[_ENV] = found
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


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; empty lines, comments and lines of any other form are skipped."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := re.fullmatch(_LINE, line):
            found[match[1]] = _value(match[2])
    return found


def _value(text: str) -> str:
    if quoted := re.fullmatch(_QUOTED, text):
        return quoted[2].replace("\\n", "\n") if quoted[1] == '"' else quoted[2]
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def complete_entry(
    raw: Mapping[str, object], expander: Expander
) -> tuple[dict[str, object], list[DeferredText], list[UnresolvedText]]:
    """Return an entry with its references resolved, the texts that are completed later, and those that cannot be."""
    late: list[DeferredText] = []
    gaps: list[UnresolvedText] = []
    given: dict[str, object] = {}
    if ENV_FILE in raw:
        given[ENV_FILE], gaps = complete(raw[ENV_FILE], expander, (ENV_FILE,), late)
        # A secret cannot stand there: that is a problem of its own.
        if not gaps and not late:
            gaps += add_env_file(given, expander)
    of_file = given.pop(_ENV, None)
    for name in filter(_is_env, raw):
        given[name], found = _variables(raw[name], expander, name, late, _parts(of_file, (), ()))
        gaps += found
    if isinstance(of_file, Mapping) and isinstance(own_env := given.get(_ENV) or {}, Mapping):
        given[_ENV] = {**of_file, **own_env}
    own: dict[str, Parts] = {}
    for name in (name for name in given if _is_env(name)):
        own |= _parts(given[name], (name,), late)
    inner = expander.with_own(own)
    filled: dict[str, object] = {}
    for name, value in raw.items():
        if name in given:
            filled[name] = given[name]
        elif name not in MEANT:
            filled[name] = value
        elif name == _LAUNCH and isinstance(value, Mapping):
            filled[name], found = _launch(value, inner, late)
            gaps += found
        else:
            filled[name], found = complete(value, inner, (name,), late)
            gaps += found
    return {**filled, **{name: value for name, value in given.items() if name not in filled}}, late, gaps


def _is_env(name: str) -> bool:
    return name == _ENV or (name in RENAMED and RENAMED[name][0] == _ENV)


def _launch(
    value: Mapping[str, object], expander: Expander, late: list[DeferredText]
) -> tuple[dict[str, object], list[UnresolvedText]]:
    """Return `launch` with its references resolved: its own `env` goes first."""
    completed: dict[str, object] = {}
    gaps: list[UnresolvedText] = []
    if _ENV in value:
        completed[_ENV], found = complete(value[_ENV], expander, (_LAUNCH, _ENV), late)
        gaps += found
    inner = expander.with_own(_parts(completed.get(_ENV), (_LAUNCH, _ENV), late))
    for name in (name for name in value if name != _ENV):
        completed[name], found = complete(value[name], inner, (_LAUNCH, name), late)
        gaps += found
    return {name: completed[name] for name in value}, gaps


def _variables(
    value: object, expander: Expander, name: str, late: list[DeferredText], of_file: Mapping[str, Parts]
) -> tuple[object, list[UnresolvedText]]:
    """Return the variables of an entry; one that the environment does not have may be another one of the entry, or of
    its file.
    """
    completed, gaps = complete(value, expander, (name,), late)
    if not gaps or not isinstance(value, Mapping) or not isinstance(completed, dict):
        return completed, gaps
    missing = {str(gap.where[1]): gap for gap in gaps}
    # Each round resolves the variables whose values use only those that earlier rounds resolved.
    while missing:
        plain = {key: text for key, text in completed.items() if key not in missing}
        inner = expander.with_own({**of_file, **_parts(plain, (name,), late)})
        left: dict[str, UnresolvedText] = {}
        for key in missing:
            completed[key], found = complete(value[key], inner, (name, key), late)
            if found:
                left[key] = found[0]
        if len(left) == len(missing):
            return completed, [_with_circle(gap, left) for gap in left.values()]
        missing = left
    return completed, []


def _with_circle(gap: UnresolvedText, left: Mapping[str, UnresolvedText]) -> UnresolvedText:
    """Return the gap of a variable with other words if it needs variables of its entry that refer to each other.

    left: the variables of the entry that cannot be resolved.
    """
    path: list[str] = []
    name: str | None = str(gap.where[1])
    while name is not None and name in left and name not in path:
        path.append(name)
        name = left[name].error.variable
    if name is None or name not in path or len(circle := path[path.index(name) :]) == 1:
        return gap
    names = " and ".join((", ".join(map(shortened, circle[:-1])), shortened(circle[-1])))
    fix = "Give one of them a value that uses none of the others."
    return gap._replace(error=ExpandError(f"The variables {names} refer to each other.", fix))


def _parts(env: object, where: tuple[str, ...], late: Iterable[DeferredText]) -> dict[str, Parts]:
    """Return what the variables of an `env` stand for; one that cannot be resolved stands for itself as written."""
    if not isinstance(env, Mapping):
        return {}
    secret = {text.where[-1]: text.parts for text in late if text.where[:-1] == where}
    plain = {str(name): as_text(value) for name, value in env.items()}
    return {name: secret.get(name, (text,)) for name, text in plain.items() if isinstance(text, str)}
