"""Take invisible characters out of the definitions of one server.

A definition that has them where nothing may change, as in its name, is left out.
"""

from typing import Any

from aggregator.config.server_config import ServerConfig
from aggregator.domain.text.invisible import (
    SENT,
    changed_texts,
    cleaned,
    folded_name,
    hidden_in_names,
    may_hide,
    unseen,
)


class DefinitionCleaner:
    """The cleaning of one server's definitions, one after the other; it remembers the names seen and what was changed.

    Nothing is changed where the configuration has `invisible_characters: keep`.
    """

    def __init__(self, server: ServerConfig, kind: str) -> None:
        self._server = server
        self._kind = kind
        self._keeps = server.invisible_characters == "keep"
        # A resource is identified by its URI; its name is only text to read.
        self._exact = SENT if kind in ("tool", "prompt") else SENT - {"name"}
        self._names: dict[str, str] = {}
        self._changed: list[str] = []

    def fault(self, name: str, definition: Any, text: bytes | None) -> str | None:
        """Return why the definition of this name cannot be shown; None where it can.

        text: the definition as JSON; None if it cannot be written.
        """
        if self._keeps:
            return None
        found = unseen(name)
        if found is not None:
            return f"its name has characters that cannot be seen ({found})"
        if self._names.setdefault(folded_name(name), name) != name:
            return "its name differs from another's by characters that cannot be seen alone"
        found = hidden_in_names(definition, self._exact) if _may_hide(text) else None
        if found is not None:
            return f"a name or value in it has characters that cannot be seen ({found})"
        return None

    def clean(self, name: str, definition: Any, text: bytes | None) -> Any:
        """Return the definition, whose JSON is `text`, without invisible characters in its texts."""
        if self._keeps or not _may_hide(text):
            return definition
        changed = changed_texts(definition, cleaned, self._exact)
        if changed is not definition:
            self._changed.append(name)
        return changed

    def warnings(self) -> list[str]:
        """Return one sentence about all that was changed, or nothing."""
        if not self._changed:
            return []
        more = f" and {len(self._changed) - 1} more" if len(self._changed) > 1 else ""
        return [
            f"{self._server.id}: characters that cannot be seen were taken out of {self._kind} "
            f"{self._changed[0]!r:.80}{more} (`invisible_characters` of the server can keep them)"
        ]


def _may_hide(text: bytes | None) -> bool:
    return text is None or may_hide(text)
