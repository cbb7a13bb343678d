"""Archives of strangers: with anything in one, a restore says what is wrong in one sentence and changes nothing."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import asyncio
import gzip
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.errors import OperatorError
from aggregator.storage.backup import archive as archives
from aggregator.storage.backup.archive import ArchiveWriter, BackupHeader
from aggregator.storage.backup.errors import ArchiveBroken, BackupError
from aggregator.storage.errors import StorageTooNew, StorageTooOld
from tests.backup.archives import HEADER, made_by_hand, members_of, packed
from tests.backup.databases import KEY, content, made_archive, restored, url_of
from tests.laws import examples
from tests.storage.next_revision import UNKNOWN, add_next_revision

GOOD_KEY: Final = {
    "key_id": "k",
    "agent_id": "shop",
    "hash": "h",
    "label": "",
    "created": 1.5,
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return made_archive(tmp_path_factory.mktemp("source") / "a.db")


async def refused(folder: Path, archive: bytes, said: str, kind: type[OperatorError] = ArchiveBroken) -> None:
    """Hold that an archive is refused with these words, and that nothing is made of it."""
    with pytest.raises(kind, match=said) as raised:
        await restored(url_of(folder / "new.db"), archive)
    assert "\n" not in str(raised.value)
    assert {one.name for one in folder.iterdir()} <= {"new.db.lock"}


async def test_a_member_by_hand_is_taken(tmp_path: Path) -> None:
    await restored(url_of(tmp_path / "new.db"), made_by_hand([("api_keys/000001.jsonl", [GOOD_KEY])]))
    assert [row[0] for row in (await content(url_of(tmp_path / "new.db")))["api_keys"]] == ["k"]


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (b"", "no backup of `aggregator backup`"),
        (b"SQLite format 3\0" * 100, "no backup of `aggregator backup`"),
        (gzip.compress(b"x" * 2000, mtime=0), "no backup of `aggregator backup`"),
        (packed([("notes.txt", b"hello")]), "its first member is another one"),
        (packed([("aggregator-backup.json", b"[]")]), "no JSON object"),
        (packed([("aggregator-backup.json", b"[" * 60000)]), "no JSON object"),
        (packed([("aggregator-backup.json", b" " * 70000)]), "larger than any of ours"),
        (packed([("aggregator-backup.json", json.dumps(HEADER).encode())]), "before its manifest"),
        (made_by_hand([], {"format": "1"}), "which format"),
        (made_by_hand([], {"format": True}), "which format"),
        (made_by_hand([], {"schema": "head"}), "what made it"),
        (made_by_hand([], {"schema": "../.."}), "what made it"),
        (made_by_hand([], {"audit": "no"}), "what made it"),
        (made_by_hand([], {"made": "x" * 10_000}), "what made it"),
        (made_by_hand([("../../etc/passwd", [{}])]), "which none of ours has"),
        (made_by_hand([("/etc/cron.d/x", [{}])]), "which none of ours has"),
        (made_by_hand([("sqlite_master/000001.jsonl", [{}])]), "a table sqlite_master, which its schema has not"),
        (made_by_hand([("replicas/000001.jsonl", [{}])]), "a table replicas, which its schema has not"),
        (made_by_hand([("api_keys/000002.jsonl", [GOOD_KEY])]), "Part 1 of the table api_keys is missing"),
        (made_by_hand([("api_keys/000001.jsonl", [GOOD_KEY])] * 2), "Part 2 of the table api_keys is missing"),
        (made_by_hand([("api_keys/000001.jsonl", [b"nonsense"])]), "Line 1 of a part of api_keys"),
        (made_by_hand([("api_keys/000001.jsonl", [b"\xff"])]), "Line 1 of a part of api_keys"),
        (made_by_hand([("api_keys/000001.jsonl", [b"[" * 100_000])]), "Line 1 of a part of api_keys"),
        (made_by_hand([("api_keys/000001.jsonl", [b""])]), "Line 1 of a part of api_keys"),
        (made_by_hand([("api_keys/000001.jsonl", [{**GOOD_KEY, "hash": ["h"]}])]), "Line 1 of a part of api_keys"),
        (made_by_hand([("api_keys/000001.jsonl", [{**GOOD_KEY, "hash": True}])]), "Line 1 of a part of api_keys"),
        (made_by_hand([("api_keys/000001.jsonl", [{**GOOD_KEY, "hash": 5}])]), "a whole number as `hash`"),
        (made_by_hand([("api_keys/000001.jsonl", [{**GOOD_KEY, "created": "5"}])]), "a text as `created`"),
        (made_by_hand([("api_keys/000001.jsonl", [{**GOOD_KEY, "created": 10**30}])]), "as `created`"),
        (made_by_hand([("api_keys/000001.jsonl", [{**GOOD_KEY, "evil": "x"}])]), "a column that the table has not"),
        (made_by_hand([("api_keys/000001.jsonl", [{"key_id": "k"}])]), "nothing as `agent_id`"),
        (made_by_hand([("audit_events/000001.jsonl", [{}])], {"audit": False}), "no audit log, and has one"),
    ],
    # The bytes have the time in them, and processes of one run must name tests alike.
    ids=lambda value: value if isinstance(value, str) else "archive",
)
async def test_what_is_no_backup(tmp_path: Path, archive: bytes, said: str) -> None:
    """Proves: F23."""
    await refused(tmp_path, archive, said)


async def test_newer_ones_name_the_version(tmp_path: Path) -> None:
    """Proves: F23."""
    newer = made_by_hand([], {"format": 2, "aggregator": "9.0.0"})
    await refused(tmp_path, newer, r"newer version of aggregator made \('9.0.0'\)", BackupError)
    await refused(tmp_path, made_by_hand([], {"schema": "9999"}), "newer version of aggregator", StorageTooNew)
    older = made_by_hand([], {"schema": "0015"})
    await refused(tmp_path, older, r"The backup was made .* before the first release \(schema 0015\)", StorageTooOld)


async def test_a_schema_that_no_version_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F23."""
    folder = tmp_path / "target"
    folder.mkdir()
    add_next_revision(tmp_path / "migrations", monkeypatch)
    await refused(folder, made_by_hand([], {"schema": UNKNOWN}), f"knows no schema {UNKNOWN}", BackupError)


async def test_a_row_that_the_database_does_not_take(tmp_path: Path) -> None:
    """The same key twice; a status that there is none of; a list of tools without its server."""
    twice = made_by_hand([("api_keys/000001.jsonl", [GOOD_KEY, GOOD_KEY])])
    await refused(tmp_path, twice, "does not take a row of the table api_keys", BackupError)
    tool = {"server": "s", "fingerprint": "f", "position": 0, "name": "n", "digest": "d"}
    await refused(
        tmp_path, made_by_hand([("mcp_tools/000001.jsonl", [tool])]), "does not take a row of the table", BackupError
    )


async def test_links_and_devices_are_no_parts(tmp_path: Path) -> None:
    """Proves: F23."""
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.XHDTYPE):
        members = [("aggregator-backup.json", json.dumps(HEADER).encode()), ("api_keys/000001.jsonl", b"")]
        await refused(tmp_path, packed(members, {"api_keys/000001.jsonl": kind}), "no plain file")


async def test_a_part_that_was_changed_shows(tmp_path: Path, archive: bytes) -> None:
    """Proves: F23."""
    members = members_of(archive)
    changed = [(name, text.replace(KEY.hash.encode(), b"hash of \xc3\xb6")) for name, text in members]
    assert changed != members
    await refused(tmp_path, packed(changed), "The part api_keys/000001.jsonl of the backup is not what was written")
    await refused(tmp_path, packed(members[:1] + members[2:]), "parts that its manifest names|not what was written")
    await refused(tmp_path, packed([*members[:-1], ("manifest.json", b'{"parts": 5}')]), "not as we write it")


async def test_a_changed_audit_log_shows_though_every_checksum_is_right(tmp_path: Path, archive: bytes) -> None:
    """An archive made anew of changed rows; with `--unproven` it is taken as it is.

    Proves: F22
    """
    parts = []
    for name, text in members_of(archive)[1:-1]:
        rows = [json.loads(line) for line in text.splitlines()]
        for one in rows:
            if name.startswith("mcp_tool_call_log") and one["seq"] == 2:
                one["agent_id"] = "innocent"
        parts.append((name, rows))
    forged = made_by_hand(parts)
    await refused(tmp_path, forged, r"NOT whole: row 2: It was changed\.", BackupError)
    report = await restored(url_of(tmp_path / "new.db"), forged, unproven=True)
    assert report.audit is None


async def test_what_unfolds_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb of spaces in a member whose length is allowed: it is not read to its end.

    Proves: F23
    """
    monkeypatch.setattr(archives, "_UNFOLDS_FROM", 2**20)
    bomb = made_by_hand([(f"api_keys/{number:06}.jsonl", [b" " * 2**20]) for number in range(1, 30)])
    assert len(bomb) < 2**17
    await refused(tmp_path, bomb, "unfolds to far more|Line 1 of a part")
    long = made_by_hand([("api_keys/000001.jsonl", [b" " * 2**22])])
    await refused(tmp_path, long, "unfolds to far more")


async def test_a_length_that_no_part_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header of a member says 8 GiB: nothing of it is read.

    Proves: F23
    """
    about = tarfile.TarInfo("api_keys/000001.jsonl")
    about.size = 2**33 - 1
    head = packed([("aggregator-backup.json", json.dumps(HEADER).encode())])
    tar = gzip.decompress(head)[:-1024] + about.tobuf(tarfile.USTAR_FORMAT) + bytes(512)
    await refused(tmp_path, gzip.compress(tar), "larger parts than any of ours")


async def test_what_follows_the_end_is_refused(tmp_path: Path, archive: bytes) -> None:
    tar = gzip.decompress(archive)
    await refused(tmp_path, gzip.compress(tar + b"x" * 512), "Something follows the end")
    await refused(tmp_path, archive + gzip.compress(b"more"), "Something follows the end")


@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_truncated_or_damaged_one_is_refused_or_right(archive: bytes, data: st.DataObject) -> None:
    """Cut anywhere, or with any byte changed: either it says so, or what was changed means nothing.

    Proves: F23
    """
    at = data.draw(st.integers(0, len(archive) - 1))
    cut = data.draw(st.booleans())
    broken = archive[:at] if cut else archive[:at] + bytes([archive[at] ^ 0x55]) + archive[at + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        url = url_of(Path(folder) / "new.db")
        try:
            asyncio.run(restored(url, broken))
        except OperatorError:
            assert not (Path(folder) / "new.db").exists()
        else:
            # The head of a gzip that says how it was packed, or bits that fill up a byte between two blocks.
            assert not cut
            assert gzip.decompress(broken) == gzip.decompress(archive)
            assert asyncio.run(_keys(url)) == [KEY.key_id]


async def _keys(url: str) -> list[Any]:
    return [row[0] for row in (await content(url))["api_keys"]]


def test_parts_are_bounded_and_numbered() -> None:
    """Many rows are many parts; a row longer than any of ours is refused with its table."""

    class Sink:
        def write(self, data: bytes, /) -> None:
            assert data is not None

    writer = ArchiveWriter(Sink(), BackupHeader("0", "0001", "now", "sqlite", True), 0.0)
    writer.begin("api_keys")
    for _ in range(5):
        writer.add(b"x" * (archives.PART_BYTES // 2))
    with pytest.raises(BackupError, match="row of the table api_keys takes more than 64 MiB"):
        writer.add(b"x" * archives.LINE_AT_MOST)
    manifest = writer.end()
    assert [part.name for part in manifest.parts] == [f"api_keys/{number:06}.jsonl" for number in range(1, 6)]
    assert manifest.tables == {"api_keys": 5}
