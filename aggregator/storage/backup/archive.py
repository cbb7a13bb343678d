"""The archive of a backup: a gzipped tar of parts, written and read once from beginning to end, with bounded memory.

Law: an archive is untrusted. Nothing in it becomes the name of a file, and every length is checked before it is read.
"""

import gzip
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import IO, Any, Final, NamedTuple, Protocol, cast

from aggregator.storage.backup.errors import ArchiveBroken, BackupError

FORMAT: Final = 1
HEADER: Final = "aggregator-backup.json"
MANIFEST: Final = "manifest.json"
# Bytes of rows after which a part ends. A row that is longer is a part of its own.
PART_BYTES: Final = 4 * 2**20
# Longer than any row of ours: the definitions of a tool take 16 MiB at most.
LINE_AT_MOST: Final = 64 * 2**20
_PART_AT_MOST: Final = PART_BYTES + LINE_AT_MOST
# Of a manifest: a line for every part, of which an archive has at most `_PARTS_AT_MOST`.
_MANIFEST_AT_MOST: Final = 64 * 2**20
_PARTS_AT_MOST: Final = 200_000
# Rows contain digests, which hardly compress: a larger expansion is meant to fill a disk.
_UNFOLDS_AT_MOST: Final = 200
_UNFOLDS_FROM: Final = 64 * 2**20
_BLOCK: Final = tarfile.BLOCKSIZE
_PART_NAME: Final = re.compile(r"([a-z][a-z0-9_]{0,62})/([0-9]{6})\.jsonl", re.ASCII)
_SCHEMA: Final = re.compile(r"[0-9]{4}", re.ASCII)
_LEVEL: Final = 3


class ByteSink(Protocol):
    """A place that bytes are written to, in order."""

    def write(self, data: bytes, /) -> object: ...


class ByteSource(Protocol):
    """A place that bytes are read from, in order; an empty answer is the end."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """The first member of an archive: what made it, and when. `schema` is the revision of the tables.

    `store` is the kind of database, `audit` says whether the audit log is part of it.
    """

    aggregator: str
    schema: str
    made: str
    store: str
    audit: bool
    format: int = FORMAT


class Part(NamedTuple):
    """One part: its name in the archive, and what proves it."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(slots=True)
class Manifest:
    """The last member: every part in its order, and the number of rows of every table."""

    parts: list[Part] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)


class ArchiveWriter:
    """A writer of one archive. `begin` a table, `add` its rows as lines of JSON, and `end` the archive.

    `sha256` is the digest of the whole file once it has ended, `size` its length.
    """

    def __init__(self, sink: ByteSink, header: BackupHeader, made: float) -> None:
        self._counted = _Counted(sink)
        # 16 more than the largest window: with the head and the checksum of gzip, and without a time.
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS + 16)
        self._made = int(made)
        self._manifest = Manifest()
        self._table = ""
        self._number = self._rows = 0
        self._lines = bytearray()
        about = {name: getattr(header, name) for name in ("format", "aggregator", "schema", "made", "store", "audit")}
        self._member(HEADER, _json(about))

    @property
    def sha256(self) -> str:
        """The digest of the bytes written so far."""
        return self._counted.digest.hexdigest()

    @property
    def size(self) -> int:
        """The number of bytes that were written so far."""
        return self._counted.count

    def begin(self, table: str) -> None:
        """Begin a table; the one before has ended."""
        self._end_part()
        self._table, self._number = table, 0
        self._manifest.tables[table] = 0

    def add(self, line: bytes) -> None:
        """Add one row, a JSON object without a line end.

        Raises:
            BackupError: it is longer than a row may be, or the file cannot be written.
        """
        if len(line) >= LINE_AT_MOST:
            raise BackupError(f"A row of the table {self._table} takes more than {LINE_AT_MOST // 2**20} MiB.")
        if self._lines and len(self._lines) + len(line) >= PART_BYTES:
            self._end_part()
        self._lines += line
        self._lines += b"\n"
        self._rows += 1

    def end(self) -> Manifest:
        """Write the manifest and what ends the file; return the manifest."""
        self._end_part()
        manifest = self._manifest
        self._member(MANIFEST, _json({"tables": manifest.tables, "parts": [part._asdict() for part in manifest.parts]}))
        self._write(bytes(2 * _BLOCK))
        self._counted.write(self._packer.flush())
        return manifest

    def _end_part(self) -> None:
        if not self._rows:
            return
        self._number += 1
        name, content = f"{self._table}/{self._number:06}.jsonl", bytes(self._lines)
        self._member(name, content)
        self._manifest.parts.append(Part(name, self._rows, len(content), sha256(content).hexdigest()))
        self._manifest.tables[self._table] += self._rows
        self._lines.clear()
        self._rows = 0

    def _member(self, name: str, content: bytes) -> None:
        about = tarfile.TarInfo(name)
        about.size, about.mode, about.mtime = len(content), 0o600, self._made
        self._write(about.tobuf(tarfile.USTAR_FORMAT))
        self._write(content)
        self._write(bytes(-len(content) % _BLOCK))

    def _write(self, data: bytes) -> None:
        self._counted.write(self._packer.compress(data))


class ArchiveReader:
    """A reader of one archive: `header` at once, then `parts`, whose end proves that every part was there unchanged.

    `manifest` is there when `parts` has ended.
    """

    def __init__(self, source: ByteSource) -> None:
        self._counted = _CountedSource(source)
        self._gzip = gzip.GzipFile("", "rb", fileobj=cast("IO[bytes]", self._counted))
        self._unfolded = 0
        self.manifest: Manifest | None = None
        self.header = self._header()

    def parts(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the table and the lines of each part, in order.

        Raises:
            ArchiveBroken: the file was truncated or changed, or was never one of ours.
            BackupError: it cannot be read.
        """
        found, last = Manifest(), ""
        number = 0
        while True:
            name, size = self._next_member()
            if name == MANIFEST:
                break
            if (part := _PART_NAME.fullmatch(name)) is None:
                raise ArchiveBroken(f"The backup has a member {name[:80]!r}, which none of ours has. Use another one.")
            table = part[1]
            if table != last and table in found.tables:
                raise ArchiveBroken(f"The table {table} stands in the backup twice. Use another one.")
            number = number + 1 if table == last else 1
            if int(part[2]) != number:
                raise ArchiveBroken(f"Part {number} of the table {table} is missing in the backup. Use another one.")
            last = table
            if size > _PART_AT_MOST or len(found.parts) >= _PARTS_AT_MOST:
                raise ArchiveBroken("The backup has larger parts than any of ours, or more. Use another one.")
            content = self._content(size)
            lines = content.split(b"\n")
            if lines.pop():
                raise ArchiveBroken(f"The part {name} of the backup ends within a row. Use another one.")
            found.parts.append(Part(name, len(lines), size, sha256(content).hexdigest()))
            found.tables[table] = found.tables.get(table, 0) + len(lines)
            yield table, lines
        self._prove(found, size)

    def _prove(self, found: Manifest, size: int) -> None:
        """Compare the read parts with the manifest, and read to the end of the file.

        The checksum of gzip covers the manifest itself.
        """
        said = _manifest(self._bounded_json(MANIFEST, size, _MANIFEST_AT_MOST))
        for part, proof in zip(found.parts, said.parts, strict=False):
            if part != proof:
                raise ArchiveBroken(
                    f"The part {part.name[:80]} of the backup is not what was written. Use another one."
                )
        if len(found.parts) != len(said.parts) or found.tables != {k: n for k, n in said.tables.items() if n}:
            raise ArchiveBroken("The backup does not have the parts that its manifest names. Use another one.")
        if any(self._read(2 * _BLOCK)) or self._read(1):
            raise ArchiveBroken("Something follows the end of the backup. Use another one.")
        self.manifest = said

    def _header(self) -> BackupHeader:
        try:
            name, size = self._next_member()
        except ArchiveBroken as error:
            raise ArchiveBroken(f"This is no backup of `aggregator backup`, or a damaged one. ({error})") from None
        if name != HEADER:
            raise ArchiveBroken("This is no backup of `aggregator backup`: its first member is another one.")
        told = self._bounded_json(HEADER, size, 2**16)
        made_by = told.get("format")
        if not isinstance(made_by, int) or isinstance(made_by, bool) or made_by < 1:
            raise ArchiveBroken(f"{HEADER} of the backup does not say which format it has. Use another one.")
        if made_by > FORMAT:
            raise BackupError(
                f"This backup has format {made_by}, which a newer version of aggregator made "
                f"({str(told.get('aggregator'))[:40]!r}); this one reads {FORMAT}. Use that version."
            )
        version, schema, made, store = (told.get(name) for name in ("aggregator", "schema", "made", "store"))
        audit = told.get("audit")
        texts = all(isinstance(text, str) and len(text) <= 100 for text in (version, schema, made, store))
        if not texts or not isinstance(audit, bool) or not _SCHEMA.fullmatch(str(schema)):
            raise ArchiveBroken(f"{HEADER} of the backup does not say what made it. Use another one.")
        return BackupHeader(str(version), str(schema), str(made), str(store), audit)

    def _next_member(self) -> tuple[str, int]:
        """Return the name and the length of the next member."""
        block = self._read(_BLOCK)
        try:
            about = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError):
            raise ArchiveBroken("The backup ends before its manifest, or is damaged. Use another one.") from None
        if about.type != tarfile.REGTYPE or about.size < 0:
            raise ArchiveBroken("The backup has a member that is no plain file. Use another one.")
        return about.name, about.size

    def _bounded_json(self, name: str, size: int, at_most: int) -> dict[str, Any]:
        if size > at_most:
            raise ArchiveBroken(f"{name} of the backup is larger than any of ours. Use another one.")
        try:
            told = json.loads(self._content(size))
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise ArchiveBroken(f"{name} of the backup is no JSON object. Use another one.")
        return told

    def _content(self, size: int) -> bytes:
        content = self._read(size)
        if len(content) < size:
            raise ArchiveBroken("The backup ends in the middle: it was truncated. Use another one.")
        self._read(-size % _BLOCK)
        return content

    def _read(self, size: int) -> bytes:
        try:
            data = self._gzip.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ArchiveBroken("The backup is truncated or damaged: it does not unpack. Use another one.") from None
        except OSError as error:
            raise BackupError(f"The backup cannot be read: {error.strerror or error}.") from error
        self._unfolded += len(data)
        if self._unfolded > max(_UNFOLDS_FROM, _UNFOLDS_AT_MOST * self._counted.count):
            raise ArchiveBroken("The backup unfolds to far more than rows of ours do. Use another one.")
        return data


def _manifest(told: Mapping[str, Any]) -> Manifest:
    try:
        parts = [Part(**part) for part in told["parts"]]
        return Manifest(parts, {str(table): int(count) for table, count in told["tables"].items()})
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ArchiveBroken(f"{MANIFEST} of the backup is not as we write it. Use another one.") from None


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


class _Counted:
    """A sink that counts and digests the bytes passing through."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink
        self.count = 0
        self.digest = sha256()

    def write(self, data: bytes) -> None:
        try:
            self._sink.write(data)
        except OSError as error:
            # Wrapped, because code that reads a database treats an error of the system as one of the database.
            raise BackupError(f"The backup cannot be written: {error.strerror or error}.") from error
        self.count += len(data)
        self.digest.update(data)


class _CountedSource:
    """A source that counts the bytes read from it, for a decompressor that reads ahead and cannot go back."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.count += len(data)
        return data

    def readable(self) -> bool:
        return True
