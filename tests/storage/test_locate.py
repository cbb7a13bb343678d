"""Where the database is."""

import sys
from pathlib import Path

import pytest

from aggregator.storage.errors import StorageError
from aggregator.storage.locate import default_url, full_url, sqlite_path
from tests import ON_WINDOWS


@pytest.mark.skipif(ON_WINDOWS, reason="the lane has decided which platform this is")
@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"HOME": "/home/ada"}, "/home/ada/.local/share"),
        ("linux", {"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share"),
        ("linux", {"XDG_DATA_HOME": "/srv/ada"}, "/srv/ada"),
        ("darwin", {"HOME": "/Users/ada", "XDG_DATA_HOME": "/x"}, "/Users/ada/Library/Application Support"),
        ("win32", {"LOCALAPPDATA": "/ada/Local"}, "/ada/Local"),
    ],
)
def test_the_default(monkeypatch: pytest.MonkeyPatch, platform: str, environ: dict[str, str], folder: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert default_url(environ) == f"sqlite+aiosqlite:///{folder}/aggregator/aggregator.db"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:////var/a.db", "sqlite+aiosqlite:////var/a.db"),
        ("postgresql://me@db/a", "postgresql+asyncpg://me@db/a"),
        ("postgresql+psycopg://me@db/a", "postgresql+psycopg://me@db/a"),
    ],
)
def test_drivers_need_not_be_named(written: str, meant: str) -> None:
    assert full_url(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:///C:/data/a.db", "sqlite+aiosqlite:///C:/data/a.db"),
        ("sqlite:////C:/data/a.db", "sqlite+aiosqlite:///C:/data/a.db"),
        ("sqlite+aiosqlite:////d:\\data\\a.db", "sqlite+aiosqlite:///d:\\data\\a.db"),
        ("sqlite:///\\\\server\\share\\a.db", "sqlite+aiosqlite:///\\\\server\\share\\a.db"),
        ("sqlite://///server/share/a.db", "sqlite+aiosqlite://///server/share/a.db"),
        ("sqlite:////C:relative.db", "sqlite+aiosqlite:////C:relative.db"),
        ("postgresql:///C:/a", "postgresql+asyncpg:///C:/a"),
    ],
)
def test_drives_and_shares_of_windows(written: str, meant: str) -> None:
    assert full_url(written, windows=True) == meant


def test_a_drive_is_a_folder_elsewhere() -> None:
    assert full_url("sqlite:////C:/a.db", windows=False) == "sqlite+aiosqlite:////C:/a.db"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite+aiosqlite:////var/lib/a b/ä%20.db", Path("/var/lib/a b/ä%20.db")),
        ("sqlite+aiosqlite:///a.db", Path.cwd() / "a.db"),
        ("sqlite+aiosqlite:///~/a.db", Path.home() / "a.db"),
        ("postgresql+asyncpg://me@db/a", None),
    ],
)
def test_the_file_a_url_names(url: str, path: Path | None) -> None:
    assert sqlite_path(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "sqlite+aiosqlite://",
        "sqlite+aiosqlite:///",
        "sqlite+aiosqlite:///:memory:",
        "sqlite+pysqlite:////a.db",
        "sqlite+aiosqlite:////a.db?mode=ro",
    ],
)
def test_urls_that_name_no_file(url: str) -> None:
    with pytest.raises(StorageError, match="must name a file"):
        sqlite_path(url)
