"""The names of the secrets stored with this program, since a keyring cannot list its content.

The list is a file beside the user's own configuration, which only this user can read. It has no values.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.config.errors import ConfigError
from aggregator.config.files.find import platform_folder
from aggregator.config.files.jsonfile import read_bytes
from aggregator.config.files.private_file import write_private

FILE: Final = "keyring-names.json"


@dataclass(frozen=True, slots=True)
class KeptNames:
    """The list of names in the file at `path`."""

    path: Path

    def __call__(self) -> tuple[str, ...]:
        """Return the names in their order. Raises ConfigError when the list cannot be read."""
        if not os.path.exists(self.path):
            return ()
        try:
            found: Any = json.loads(read_bytes(self.path))
        except (ValueError, RecursionError):
            found = None
        names = found.get("names") if isinstance(found, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{self.path} is not a list of names. Remove it; the keyring keeps its secrets.")
        return tuple(sorted(set(names)))

    def add(self, name: str) -> None:
        """Add a name. Raises ConfigError when the list cannot be written."""
        if name not in (names := self()):
            self._write([*names, name])

    def remove(self, name: str) -> bool:
        """Remove a name; return False if it was not there. Raises ConfigError when the list cannot be written."""
        names = self()
        if name not in names:
            return False
        self._write(one for one in names if one != name)
        return True

    def _write(self, names: Iterable[str]) -> None:
        write_private(self.path, json.dumps({"names": sorted(names)}, indent=2, ensure_ascii=False) + "\n")


def kept_names(environ: Mapping[str, str]) -> KeptNames:
    """Return the list of this user."""
    return KeptNames(platform_folder(environ) / "aggregator" / FILE)
