"""`aggregator backup`, `restore`, `migrate-store` and `prune` as an operator runs them."""

import asyncio
import gzip
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from aggregator.cli.commands import app
from aggregator.cli.first_run.complete import candidates
from aggregator.cli.runtime.setup import DatabaseSettings
from aggregator.cli.store import backup, migrate_store, prune, restore
from aggregator.domain.errors import OperatorError
from aggregator.storage.backup.contents import LEFT_OUT
from tests.backup.databases import made_archive, make_database, url_of
from tests.storage.conftest import ordinary_folder as ordinary_folder
from tests.storage.processes import ROOT

PATIENCE: Final = 60.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a database and two configurations: `a.json` names it, `b.json` an empty one."""
    asyncio.run(make_database(url_of(tmp_path / "a.db")))
    for name in "ab":
        servers = {"e": {"command": "true"}}
        (tmp_path / f"{name}.json").write_text(json.dumps({"mcpServers": servers, "storage": f"sqlite:///{name}.db"}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run the program."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "aggregator", *words], capture_output=True, env=environ, timeout=PATIENCE, **options
    )


def settings(folder: Path, name: str = "b.db") -> DatabaseSettings:
    return DatabaseSettings(url_of(folder / name))


def test_from_one_database_into_another(folder: Path) -> None:
    """Through files and through a pipe, with the words that tell what is in a backup.

    Proves: F21, F22
    """
    made = command("backup", "one.tar.gz", "--config", "a.json")
    assert made.returncode == 0, made.stderr
    said = made.stdout.decode()
    assert "mcp_tool_call_log  5" in said
    assert "SHA-256" in said
    assert "kept_results (results that models read on for an hour or so)" in said
    assert "by --no-audit" not in said
    assert "keep it as secret as the database" in said
    assert stat.S_IMODE((folder / "one.tar.gz").stat().st_mode) == 0o600
    done = command("restore", "one.tar.gz", "--config", "b.json")
    assert done.returncode == 0, done.stderr
    assert b"The audit log is whole: 6 rows, none missing, none changed." in done.stdout
    assert b"database_restored" in command("audit", "tail", "--config", "b.json").stdout
    piped = command("backup", "-", "--config", "a.json")
    assert b"SHA-256" in piped.stderr
    again = command("restore", "-", "--replace", "--config", "b.json", "--json", input=piped.stdout)
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert told["tables"]["api_keys"] == 1
    assert told["audit"]["rows"] == 6
    assert Path(told["replaced"]).name.startswith("b.db.replaced-")


def test_help_and_completion_have_the_commands(folder: Path) -> None:
    said = command("--help").stdout.decode()
    for name in ("backup", "restore", "migrate-store", "prune"):
        assert f" {name} " in said
    found = [name for name, _ in candidates(typer.main.get_command(app), ["mig"])]
    assert found == ["migrate-store"]


def test_names_of_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, nothing at all, a file that is there, a name that is none."""
    url = url_of(folder / "a.db")
    (folder / "kept").mkdir()
    assert backup.run(url, folder / "kept", True, False, False) == 0
    assert backup.run(url, None, True, False, True) == 0
    names = [path.name for path in (*folder.glob("aggregator-*"), *(folder / "kept").iterdir())]
    assert len(names) == 2
    assert all(name.startswith("aggregator-backup-2") and name.endswith("Z.tar.gz") for name in names)
    kept = next((folder / "kept").iterdir())
    content_before = kept.read_bytes()
    with pytest.raises(OperatorError, match=r"is there already\. --force replaces it"):
        backup.run(url, kept, True, False, False)
    assert kept.read_bytes() == content_before
    assert backup.run(url, kept, False, True, False) == 0
    assert kept.read_bytes() != content_before
    with pytest.raises(OperatorError, match="is no file"):
        backup.run(url, Path(os.devnull), True, True, False)
    with pytest.raises(OperatorError, match="cannot be written: No such file or directory"):
        backup.run(url, folder / "no" / "such", True, False, False)
    with pytest.raises(OperatorError, match=r"There is no file .*: name that of a backup"):
        restore.run(settings(folder), folder, False, False, False)
    assert capsys.readouterr().out


def test_a_full_disk_leaves_no_half_of_a_backup(folder: Path) -> None:
    """Nor the one before: a file may be this long, and no longer.

    Proves: F21
    """

    def bounded() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    asyncio.run(make_database(url_of(folder / "c.db"), 3000))
    (folder / "a.json").write_text('{"mcpServers": {"e": {"command": "true"}}, "storage": "sqlite:///c.db"}')
    (folder / "one.tar.gz").write_bytes(b"the one before")
    done = command("backup", "one.tar.gz", "--force", "--config", "a.json", preexec_fn=bounded)
    assert done.returncode == 2
    assert b"The backup cannot be written: File too large." in done.stderr
    assert b"Traceback" not in done.stderr
    assert (folder / "one.tar.gz").read_bytes() == b"the one before"
    assert not list(folder.glob(".*part"))


def test_a_full_disk_leaves_no_half_of_a_database(folder: Path) -> None:
    """Proves: F22."""
    (folder / "one.tar.gz").write_bytes(made_archive(folder / "c.db", 3000))

    def bounded() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    done = command("restore", "one.tar.gz", "--config", "b.json", preexec_fn=bounded)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert [path.name for path in folder.glob("b.db*")] == ["b.db.lock"]


def test_a_reader_that_ends_is_no_success(folder: Path) -> None:
    """`backup - | head` wrote no backup, and says so."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "aggregator", "backup", "-", "--config", "a.json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=PATIENCE,
        )
    finally:
        os.close(writer)
    assert done.returncode == 2
    assert b"The backup cannot be written: Broken pipe" in done.stderr


def test_an_ended_backup_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM in the middle, as a service manager sends it."""

    def end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("aggregator.cli.store.printing.ShownProgress.__call__", end)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        backup.run(url_of(folder / "a.db"), folder / "one.tar.gz", True, False, False)
    assert signal.getsignal(signal.SIGTERM) is before
    assert sorted(path.name for path in folder.iterdir() if "tar" in path.name) == []


def test_what_may_not_be_read_or_written_is_one_sentence(ordinary_folder: Path) -> None:
    file = ordinary_folder / "one.tar.gz"
    file.write_bytes(gzip.compress(b""))
    file.chmod(0)
    with pytest.raises(OperatorError, match=r"one\.tar\.gz cannot be read: Permission denied"):
        restore.run(settings(ordinary_folder), file, False, False, False)
    asyncio.run(make_database(url_of(ordinary_folder / "a.db")))
    (ordinary_folder / "shut").mkdir(0o500)
    with pytest.raises(OperatorError, match="cannot be written: Permission denied"):
        backup.run(url_of(ordinary_folder / "a.db"), ordinary_folder / "shut", True, False, False)


def test_the_line_to_change(folder: Path, capsys: pytest.CaptureFixture[str], postgres_url: str) -> None:
    """The URL without the password, or a file by its whole path; the configuration with that line works.

    Proves: F22
    """
    given = settings(folder, "a.db")
    password = postgres_url.rpartition("@")[0].rpartition(":")[2]
    assert migrate_store.run(given, postgres_url, False, False) == 0
    said = capsys.readouterr().out
    assert password not in said
    assert all(f"{name} ({what})" in said for name, what in LEFT_OUT.items())
    assert '"storage": "postgresql://aggregator:${DATABASE_PASSWORD}@127.0.0.1:' in said
    with pytest.raises(OperatorError, match="is not empty"):
        migrate_store.run(given, postgres_url, False, False)
    assert migrate_store.run(DatabaseSettings(postgres_url), "sqlite:///new.db", False, True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["left_out"] == LEFT_OUT
    assert told["storage"] == f"sqlite+aiosqlite:///{folder / 'new.db'}"
    assert told["tables"]["api_keys"] == 1


@pytest.mark.parametrize("to", ["postgresql//ada:hunter2@host", "postgresql://ada:@b:/hunter2?#@127.0.0.1:5432/x"])
def test_a_url_that_cannot_be_meant_is_told_without_its_password(folder: Path, to: str) -> None:
    with pytest.raises(OperatorError, match="--to is no URL of a database") as raised:
        migrate_store.run(settings(folder, "a.db"), to, False, False)
    assert "hunter2" not in str(raised.value)


def test_a_backup_says_what_it_leaves_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert backup.run(url_of(folder / "a.db"), folder / "x", False, False, False) == 0
    said = capsys.readouterr().out
    assert all(f"{name} ({what})" in said for name, what in LEFT_OUT.items())
    assert "Left out by --no-audit: the audit log." in said
    assert backup.run(url_of(folder / "a.db"), folder / "z", False, False, True) == 0
    tables = json.loads(capsys.readouterr().out)["tables"].keys()
    assert "api_keys" in tables
    assert not tables & {"mcp_tool_call_log", "audit_events", "audit_under_way", "audit_heads"}
    assert backup.run(url_of(folder / "a.db"), folder / "y", True, False, True) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == LEFT_OUT


def test_rows_that_wait_beside_the_database(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backup names the files; a copy waits until they are in."""
    (folder / "a.db.unwritten-00000000000001-aa.jsonl").write_text("{}")
    assert backup.run(url_of(folder / "a.db"), folder / "x", True, False, True) == 0
    assert json.loads(capsys.readouterr().out)["not_yet_in_the_log"] == [
        str(folder / "a.db.unwritten-00000000000001-aa.jsonl")
    ]
    with pytest.raises(OperatorError, match="holds audit rows that are not in the database yet"):
        migrate_store.run(settings(folder, "a.db"), "sqlite:///new.db", False, False)


def test_prune_says_what_goes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: F24."""
    given = settings(folder, "a.db")._replace(keep_for=None)
    assert prune.run(given, True, "2026-01-01", True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"] is True
    assert told["removed"][0] == {"kind": "audit rows", "rows": 6, "why": "before --before or beyond audit.keep_bytes"}
    assert prune.run(given, False, "2026-01-01", False) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["WHAT", "REMOVED", "BECAUSE"]
    assert said[1].startswith("audit rows")
    assert said[1].split()[2] == "6"
    with pytest.raises(OperatorError, match="in the future"):
        prune.run(given, False, "2999-01-01", False)
    with pytest.raises(OperatorError, match="There is no database"):
        prune.run(settings(folder, "no.db"), False, None, False)
    assert not (folder / "no.db").exists()
