"""Remove invisible characters, and characters that no database or file stores, from the definitions of one server.

A definition is left out if it has them in a fixed part, such as its name.
"""

from typing import Any

from aggregator.config.server_config import ServerConfig
from aggregator.domain.text.invisible import (
    SENT,
    changed_texts,
    cleaned,
    every_text,
    folded_name,
    hidden_in_names,
    may_hide,
    unchanged_texts,
    unseen,
)
from aggregator.domain.text.unstorable import halved, may_be_halved, storable, unstorable


class DefinitionCleaner:
    """The cleaning of one server's definitions, one after the other; it records the names seen and the changes.

    With `invisible_characters: keep` in the configuration only characters that cannot be stored are changed.
    """

    def __init__(self, server: ServerConfig, kind: str) -> None:
        self._server = server
        self._kind = kind
        self._keeps = server.invisible_characters == "keep"
        # A resource is identified by its URI; its name is only text to read.
        self._exact = SENT if kind in ("tool", "prompt") else SENT - {"name"}
        self._names: dict[str, str] = {}
        self._changed: list[str] = []
        self._mended: list[str] = []

    def fault(self, name: str, definition: Any, text: bytes | None) -> str | None:
        """Return the reason not to show the definition of this name, or None.

        text: the definition as JSON; None if it cannot be written.
        """
        if (fault := self._unstorable(name, definition, text)) is not None or self._keeps:
            return fault
        found = unseen(name)
        if found is not None:
            return f"its name has characters that cannot be seen ({found})"
        if self._names.setdefault(folded_name(name), name) != name:
            return "its name differs from another's by characters that cannot be seen alone"
        found = hidden_in_names(definition, self._exact) if _may_hide(text) else None
        if found is not None:
            return f"a name or value in it has characters that cannot be seen ({found})"
        return None

    def _unstorable(self, name: str, definition: Any, text: bytes | None) -> str | None:
        """Return why a definition can neither be stored nor be mended; None if it can."""
        if (found := unstorable((name,))) is not None:
            return f"its name has a character that can be neither stored nor sent ({found})"
        if not _may_be_halved(text):
            return None
        # Nothing of a skill is changed.
        fixed = every_text(definition) if self._kind == "skill" else unchanged_texts(definition, self._exact)
        if (found := halved(fixed)) is not None:
            return f"a name or value in it has a character that can be neither stored nor sent ({found})"
        return None

    def clean(self, name: str, definition: Any, text: bytes | None) -> Any:
        """Return the definition, whose JSON is `text`, without invisible and unstorable characters in its texts."""
        changed = definition
        if _may_hide(text) and not self._keeps:
            changed = changed_texts(definition, cleaned, self._exact)
            if changed is not definition:
                self._changed.append(name)
        if not (_may_be_halved(text) or (self._keeps and _may_hide(text))):
            return changed
        mended = changed_texts(changed, storable, self._exact)
        if mended is not changed:
            self._mended.append(name)
        return mended

    def warnings(self) -> list[str]:
        """Return one sentence about all that was changed for one reason, or nothing."""
        said = []
        if self._changed:
            keep = " (`invisible_characters` of the server can keep them)"
            said.append(f"characters that cannot be seen were taken out of {self._named(self._changed)}{keep}")
        if self._mended:
            said.append(f"characters that can be neither stored nor sent are U+FFFD now in {self._named(self._mended)}")
        return [f"{self._server.id}: {one}" for one in said]

    def _named(self, names: list[str]) -> str:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"{self._kind} {names[0]!r:.80}{more}"


def _may_hide(text: bytes | None) -> bool:
    return text is None or may_hide(text)


def _may_be_halved(text: bytes | None) -> bool:
    return text is None or may_be_halved(text)
