"""Records of installs, from which `--undo` restores the files of a host byte for byte.

Law: a record is on disk before the first of its files is written, so that an interrupted install can be undone too. It
contains the former files, secrets included: only this user may read its folder and its file.
"""

import base64
import json
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Literal

from aggregator.domain.errors import OperatorError
from aggregator.domain.patient_files import move_over
from aggregator.editing.document import Format
from aggregator.editing.replace import one_writer

VERSION: Final = 1
# Two files of 16 MiB each at most, in base64.
_LARGEST: Final = 64 * 2**20
_NAME: Final = re.compile(r"\d{6}-[a-z0-9-]+\.json", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before an install, and the digest of its content after it; None: it does not exist.

    `is_host`: it is the host's file, and not our configuration. `entries` are the names of the servers that were added,
    removed or replaced at the path `servers`, with their new values (None: removed). `folders` were made for the file.
    `backup` is the former content of its backup.
    """

    path: Path
    before: bytes | None = field(repr=False)
    after: str
    format: Format
    servers: tuple[str, ...]
    is_list: bool = False
    is_host: bool = True
    entries: Mapping[str, Any] = field(default_factory=dict, repr=False)
    folders: tuple[Path, ...] = ()
    backup: bytes | None = field(default=None, repr=False)

    def state(self, content: bytes | None) -> Literal["before", "after", "changed"]:
        """Return which content a file has now."""
        if content is not None and digest(content) == self.after:
            return "after"
        return "before" if content == self.before else "changed"


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """One install: the host, the name of our entry, the time, and the changed files in the order of writing.

    `key_id` identifies the API key made for the entry. `name` is the name of the record's file.
    """

    host: str
    title: str
    entry: str
    at: float
    changes: tuple[FileChange, ...]
    key_id: str | None = None
    name: str = ""

    @property
    def host_file(self) -> Path:
        """The file of the host, which is written last."""
        return self.changes[-1].path


@dataclass(frozen=True, slots=True)
class InstallRecords:
    """The records in a folder, by ascending number."""

    folder: Path

    def add(self, record: InstallRecord) -> InstallRecord:
        """Write a record under the next number, and return it with that.

        Raises:
            OperatorError: it cannot be written; the message says that nothing was installed.
        """
        content = json.dumps(_to_json(record), ensure_ascii=True).encode()
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.chmod(self.folder, 0o700)
            with one_writer(self.folder) as alone:
                self._remove_cut_off(alone=alone)
                number = max((int(name[:6]) for name in self._names()), default=0) + 1
                # Without locks, two installs at the same time may take one number, and not one name.
                name = f"{number:06d}-{record.host}-{token_hex(4)}.json"
                handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".")
                try:
                    with os.fdopen(handle, "wb") as file:
                        file.write(content)
                        file.flush()
                        os.fsync(file.fileno())
                    move_over(temporary, self.folder / name)
                except OSError:
                    with suppress(OSError):
                        os.unlink(temporary)
                    raise
        except OSError as error:
            raise OperatorError(
                f"The copy for --undo cannot be kept in {self.folder}: {error.strerror or error}. Nothing was "
                "installed. Make room or the folder writable."
            ) from None
        return replace(record, name=name)

    def all(self) -> tuple[InstallRecord, ...]:
        """Return every record, the oldest first. Raises OperatorError for one that cannot be read."""
        return tuple(map(self._read, sorted(self._names())))

    def remove(self, record: InstallRecord) -> None:
        """Remove a record, with the secrets in it. Raises OperatorError when it cannot be removed."""
        path = self.folder / record.name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OperatorError(
                f"{path} cannot be removed: {error.strerror or error}. Remove it: it holds the file of "
                f"{record.title} as it was."
            ) from None
        with suppress(OSError):
            with one_writer(self.folder) as alone:
                self._remove_cut_off(alone=alone)
            self.folder.rmdir()

    def _remove_cut_off(self, *, alone: bool) -> None:
        """Remove what killed processes have left of their records; only a lock says that they are gone."""
        for name in os.listdir(self.folder) if alone else ():
            if name.startswith("."):
                with suppress(OSError):
                    os.unlink(self.folder / name)

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.folder) if _NAME.fullmatch(name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise OperatorError(f"{self.folder} cannot be read: {error.strerror or error}. Make it readable.") from None

    def _read(self, name: str) -> InstallRecord:
        path = self.folder / name
        try:
            with path.open("rb") as file:
                content = file.read(_LARGEST + 1)
            if len(content) > _LARGEST:
                raise ValueError
            return replace(_from_json(json.loads(content)), name=name)
        except OSError as error:
            raise OperatorError(f"{path} cannot be read: {error.strerror or error}. Make it readable.") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise OperatorError(
                f"{path} is an incomplete record of an install. Remove it, and our entry from the host's file by hand."
            ) from None


def digest(content: bytes) -> str:
    """Return the digest that identifies the content of a file."""
    return sha256(content).hexdigest()


def _to_json(record: InstallRecord) -> dict[str, Any]:
    return {
        "version": VERSION,
        "host": record.host,
        "title": record.title,
        "entry": record.entry,
        "at": record.at,
        "key_id": record.key_id,
        "changes": [
            {
                "path": str(change.path),
                "before": _encoded(change.before),
                "after": change.after,
                "format": change.format,
                "servers": list(change.servers),
                "is_list": change.is_list,
                "is_host": change.is_host,
                "entries": dict(change.entries),
                "folders": [str(folder) for folder in change.folders],
                "backup": _encoded(change.backup),
            }
            for change in record.changes
        ],
    }


def _from_json(found: Any) -> InstallRecord:
    if found["version"] != VERSION or not found["changes"]:
        raise ValueError
    changes = tuple(
        FileChange(
            Path(change["path"]),
            _decoded(change["before"]),
            str(change["after"]),
            change["format"],
            tuple(change["servers"]),
            bool(change["is_list"]),
            bool(change["is_host"]),
            dict(change["entries"]),
            tuple(map(Path, change["folders"])),
            _decoded(change["backup"]),
        )
        for change in found["changes"]
    )
    texts = (str(found["host"]), str(found["title"]), str(found["entry"]))
    return InstallRecord(*texts, float(found["at"]), changes, found["key_id"])


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
