"""Archives that no version of ours wrote, made by hand."""

import gzip
import io
import json
import tarfile
from hashlib import sha256
from typing import Any, Final

from aggregator.storage.tables import REVISION

HEADER: Final = {
    "format": 1,
    "aggregator": "0.1.0",
    "schema": REVISION,
    "made": "2026-11-23T12:00:00+00:00",
    "store": "sqlite",
    "audit": True,
}
Member = tuple[str, bytes]


def members_of(archive: bytes) -> list[Member]:
    """Return the members of an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        found = []
        for member in opened:
            file = opened.extractfile(member)
            assert file is not None
            found.append((member.name, file.read()))
        return found


def packed(members: list[Member], types: dict[str, bytes] | None = None) -> bytes:
    """Return an archive of these members; `types` are those of members that are no plain files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as opened:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            about.type = (types or {}).get(name, tarfile.REGTYPE)
            opened.addfile(about, io.BytesIO(content))
    return gzip.compress(out.getvalue()[: _end(out.getvalue())])


def made_by_hand(parts: list[tuple[str, list[Any]]], header: dict[str, Any] | None = None) -> bytes:
    """Return an archive of these parts with a manifest that fits them; rows are JSON values, or lines as bytes."""
    members: list[Member] = [("aggregator-backup.json", json.dumps({**HEADER, **(header or {})}).encode())]
    tables: dict[str, int] = {}
    said = []
    for name, rows in parts:
        lines = b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
        members.append((name, lines))
        digest = sha256(lines).hexdigest()
        said.append({"name": name, "rows": len(rows), "bytes": len(lines), "sha256": digest})
        table = name.partition("/")[0]
        tables[table] = tables.get(table, 0) + len(rows)
    members.append(("manifest.json", json.dumps({"tables": tables, "parts": said}).encode()))
    return packed(members)


def _end(tar: bytes) -> int:
    """Return where two blocks of zeros end, without those that round a tar up."""
    last = len(tar.rstrip(b"\0"))
    return -(-last // 512) * 512 + 1024
