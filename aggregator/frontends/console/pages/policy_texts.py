"""Texts about policies for display: places as links into the files, files without the hashes of keys."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aggregator.frontends.console.parts import ConsoleParts
from aggregator.policy.compare.causes import Cause
from aggregator.policy.files.folder import PolicySource
from aggregator.policy.live import LivePolicies

MASKED: Final = "********"
# The hashes that `aggregator keys` writes into policy files, also in a comment, or in a file with mistakes.
_HASH: Final = re.compile(r"\bb2-[0-9a-f]{8,}(-[0-9a-f]+)?")
_PLACE: Final = re.compile(r"(.*):([0-9]{1,7})", re.DOTALL)


class PolicyTexts:
    """The policy files in the form for display."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    @property
    def live(self) -> LivePolicies | None:
        """The policies, or None without a folder for them."""
        return self._parts.policies

    def names(self) -> list[str]:
        """Return the names of the files, those included that are not in force for their mistakes."""
        live = self.live
        return sorted({Path(one.file).name for one in (*live.in_force, *live.sources)}) if live is not None else []

    def source(self, name: str) -> PolicySource | None:
        """Return a file of the folder: the one in force, else the current one; None if it was not read."""
        live = self.live
        sources = (*live.in_force, *live.sources) if live is not None else ()
        return next((one for one in sources if Path(one.file).name == name), None)

    def now(self, name: str) -> PolicySource | None:
        """Return a current file of the folder; None if it was not read."""
        return next((one for one in self.live.sources if Path(one.file).name == name), None) if self.live else None

    def masked(self, source: PolicySource, first: int = 0, most: int | None = None) -> list[str]:
        """Return lines of a file without the hashes of keys, and without what looks like a secret."""
        live = self.live
        lines = source.text.split("\n")
        window = dict(enumerate(lines[first : None if most is None else first + most], first))
        unclear: set[int] = set()
        for _, key in live.rulebook.keys if live is not None and live.rulebook is not None else ():
            at = key.place.line - 1
            if key.place.file == source.file and at in window and (not key.hash or key.hash not in lines[at]):
                # It is written with escapes, or over several lines.
                unclear.add(at)
            for at, line in window.items():
                if key.hash and key.hash in line:
                    window[at] = line.replace(key.hash, MASKED)
        window |= dict.fromkeys(unclear, f"# {MASKED}")
        return [self._parts.redactor(_HASH.sub(MASKED, line)) for line in window.values()]

    def relative(self, value: Any) -> Any:
        """Return texts, or plain values with texts in them, that name files by the folder's name and their own."""
        live = self.live
        if live is None:
            return value
        if isinstance(value, str):
            return value.replace(f"{live.folder}/", f"{live.folder.name}/")
        if isinstance(value, Mapping):
            return {name: self.relative(item) for name, item in value.items()}
        return [self.relative(item) for item in value] if isinstance(value, list | tuple) else value

    def place(self, source: str | None) -> Mapping[str, Any] | None:
        """Return a `file:line` as text, with the way to the file if it is one of the folder."""
        if not source:
            return None
        found = _PLACE.fullmatch(source)
        name = Path(found[1]).name if found is not None else ""
        href = f"/policies/files/{quote(name, safe='')}?line={found[2]}#L{found[2]}" if found is not None else None
        return {"text": self.relative(source), "href": href if name and self.source(name) is not None else None}

    def cause(self, cause: Cause) -> Mapping[str, Any]:
        """Return a cause as plain values; the place of a line that is added is in no file yet."""
        at = str(cause.place) if cause.place is not None else None
        place = self.place(at)
        if place is not None and cause.edit == "added":
            place = {**place, "href": None}
        return {"text": cause.text, "owner": cause.owner, "edit": cause.edit, "place": place}

    def with_places(self, findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return plain values with the `place` of their `source` beside it."""
        return [{**one, "place": self.place(one["source"])} for one in findings]


def visible(text: str) -> str:
    """Return a text for an editor: what cannot be seen is U+FFFD, line breaks and tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text.replace("\r\n", "\n"))
