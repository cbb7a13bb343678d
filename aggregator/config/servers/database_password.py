"""A password in the setting `storage` that is a reference: it stays one, and is resolved for each connection."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Final

from aggregator.config.servers.expand import Expander, ExpandError
from aggregator.redaction.redactor import Redactor
from aggregator.secret_sources.reference import SecretReference

STORAGE: Final = "storage"
# Not imported here: every start would pay for it.
_VALUE_OF: Final = "aggregator.secret_sources.values:value_of"
# References between the colon behind the user and the host; what else is there is a part of the password too.
_PASSWORD: Final = re.compile(r"(postgres(?:ql)?(?:\+asyncpg)?://[^/?#@:]*):(\$\{.*\})(@.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LatePassword:
    """A function that returns the password as its sources have it now; `limit` bounds each of them, in seconds."""

    parts: tuple[str | SecretReference, ...] = field(repr=False)
    limit: float
    redactor: Redactor = field(repr=False)

    def __call__(self) -> str:
        """Return the password, which no message shows from now on. Raises SecretUnavailable."""
        value_of = resolve_name(_VALUE_OF)
        found = "".join(part if isinstance(part, str) else value_of(part, self.limit) for part in self.parts)
        self.redactor.learn(STORAGE, [found])
        return found


def take_password(
    root: Mapping[str, object], expander: Expander
) -> tuple[Mapping[str, object], tuple[str | SecretReference, ...]]:
    """Return the file without the password in its `storage`, and that password if it is made of references."""
    written = root.get(STORAGE)
    found = _PASSWORD.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        return root, ()
    try:
        parts = tuple(part for part in expander.parts(found[2]) if part)
    except ExpandError:
        # Told of the setting as a whole.
        return root, ()
    return {**root, STORAGE: f"{found[1]}{found[3]}"}, parts
