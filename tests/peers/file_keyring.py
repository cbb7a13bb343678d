"""A keyring in a JSON file, for programs that tests start: PYTHON_KEYRING_BACKEND=tests.peers.file_keyring.FileKeyring.

The file is named by TEST_KEYRING. `{"behaviour": WORD}` in it makes the keyring `locked`, `broken` or never answer
(`hang`); `printing` prints a value first; what was stored is under `kept`.
"""

import json
import os
import time
from pathlib import Path
from typing import Any, Final

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

SERVICE: Final = "aggregator"


class FileKeyring(KeyringBackend):
    """A keyring that keeps values in the clear."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        found: str | None = self._read(username).get(f"{service}/{username}")
        return found

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._read(username), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        kept = self._read(username)
        if kept.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("no such password")
        self._write(kept)

    @property
    def _file(self) -> Path:
        return Path(os.environ["TEST_KEYRING"])

    def _read(self, username: str) -> dict[str, Any]:
        content = json.loads(self._file.read_text()) if self._file.exists() else {}
        kept: dict[str, Any] = content.get("kept", {})
        match content.get("behaviour"):
            case "hang":
                self._file.with_suffix(".asked").touch()
                time.sleep(600)
            case "locked":
                raise KeyringLocked(f"locked, with {kept}")
            case "broken":
                raise RuntimeError(f"broken, with {kept}")
            case "printing":
                print(kept.get(f"{SERVICE}/{username}"))
        return kept

    def _write(self, kept: dict[str, Any]) -> None:
        self._file.write_text(json.dumps({"kept": kept}))


def keep(file: Path, secrets: dict[str, str], behaviour: str | None = None) -> None:
    """Put these secrets into the keyring of a file, in place of those there."""
    kept = {f"{SERVICE}/{name}": value for name, value in secrets.items()}
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"kept": kept, "behaviour": behaviour}))
    new.replace(file)


class PlaintextKeyring(FileKeyring):
    """The same, under the name of the library's own that keeps values in the clear."""
