"""The list of configuration files that the user trusts, each with the digest of its content."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from aggregator.config.errors import ConfigError
from aggregator.config.files.jsonfile import read_bytes
from aggregator.config.files.private_file import write_private


def digest_of(content: bytes) -> str:
    """Return the digest that a file is remembered by."""
    return sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class TrustList:
    """The list of trusted files: a JSON file at `path` with digests by absolute path."""

    path: Path

    def entries(self) -> Mapping[str, str]:
        """Return the digest of every trusted file. Raises ConfigError when the list cannot be read."""
        if not os.path.exists(self.path):
            return {}
        try:
            found: Any = json.loads(read_bytes(self.path))
        except (ValueError, RecursionError):
            found = None
        entries = found.get("trusted") if isinstance(found, dict) else None
        if not isinstance(entries, dict) or not all(isinstance(digest, str) for digest in entries.values()):
            raise ConfigError(f"{self.path} is not a list of trusted files. Remove it, and trust them again.")
        return entries

    def check(self, file: Path, content: bytes | None = None) -> None:
        """Refuse a file that is not trusted with this content, which is read if it is not given.

        Raises:
            ConfigError: the file is not trusted, or the file or the list cannot be read.
        """
        known = self.entries().get(_key(file))
        if known is not None and known == digest_of(read_bytes(file) if content is None else content):
            return
        why = "is not trusted" if known is None else "was changed since it was trusted"
        raise ConfigError(
            f"{file} is in the working folder and {why}, so it is not used: a configuration starts programs. "
            f"Read it, then run `aggregator trust` there; or name it with --config {file}."
        )

    def add(self, file: Path, content: bytes) -> None:
        """Add a file with this content. Raises ConfigError when the list cannot be written."""
        self._write({**self.entries(), _key(file): digest_of(content)})

    def remove(self, file: Path) -> bool:
        """Remove a file; return False if it was not trusted. Raises ConfigError when the list cannot be written."""
        entries = dict(self.entries())
        if entries.pop(_key(file), None) is None:
            return False
        self._write(entries)
        return True

    def _write(self, entries: Mapping[str, str]) -> None:
        text = json.dumps({"trusted": dict(sorted(entries.items()))}, indent=2) + "\n"
        write_private(self.path, text)


def _key(file: Path) -> str:
    """Return the path of a file with the links to its folder resolved, but not a link that the file itself is.

    A linked file is read where it is, but its relative paths are resolved from the folder of the link.
    """
    return os.path.join(os.path.realpath(file.parent), file.name)
