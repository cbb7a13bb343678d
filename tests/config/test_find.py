"""Where the configuration file is."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.config.files.find import ConfigLocation, trust_list
from aggregator.config.files.watch import stamp
from aggregator.config.load import ConfigError, find_config, load, load_found
from aggregator.storage.errors import StorageError
from aggregator.storage.locate import default_url
from tests import ON_WINDOWS


def test_the_order_of_places(tmp_path: Path) -> None:
    """Proves: E7."""
    working, own = tmp_path / "working", tmp_path / "config" / "aggregator"
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "APPDATA": str(tmp_path / "config"), "HOME": str(tmp_path)}
    if sys.platform == "darwin":
        own = tmp_path / "Library" / "Application Support" / "aggregator"
    for folder in (working, own):
        folder.mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        find_config(None, working, environ)
    for place in (working / "aggregator.json", own / "aggregator.json"):
        assert str(place) in str(caught.value)
    assert "`aggregator init`" in str(caught.value)
    (own / "aggregator.json").write_text("{}")
    assert find_config(None, working, environ) == ConfigLocation(own / "aggregator.json", "own")
    (working / "aggregator.json").write_text("{}")
    found = find_config(None, working, environ)
    assert found == ConfigLocation(own / "aggregator.json", "own", passed_over=working / "aggregator.json")
    assert f"{working / 'aggregator.json'} is not used" in str(found)
    (working / "other.json").write_text("{}")
    assert find_config(Path("other.json"), working, environ) == ConfigLocation(working / "other.json", "named")
    # Started in the folder of the user's own, there is nothing to pass over.
    assert find_config(None, own, environ).passed_over is None


def test_the_file_of_the_working_folder_is_used_once_it_is_trusted(tmp_path: Path) -> None:
    """As it is: an edit, another folder with the same content, or a link to another file are not what was trusted."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "APPDATA": str(tmp_path / "config"), "HOME": str(tmp_path)}
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "aggregator.json").write_text("{}")
    file, known = here / "aggregator.json", trust_list(environ)
    with pytest.raises(ConfigError, match=r"is not trusted.*aggregator trust"):
        find_config(None, here, environ)
    known.add(file, b"{}")
    found = find_config(None, here, environ)
    assert (found.path, found.why) == (file, "trusted")
    # A server of a program that runs follows edits of both.
    assert {file, known.path} <= load_found(found, {}).files
    assert load_found(found, {}).path == file
    with pytest.raises(ConfigError, match="is not trusted"):
        find_config(None, there, environ)
    file.write_text("{ }")
    with pytest.raises(ConfigError, match="was changed since it was trusted"):
        find_config(None, here, environ)
    with pytest.raises(ConfigError, match="was changed since it was trusted"):
        load_found(found, {})  # between the look and the reading
    file.write_text("{}")
    (there / "aggregator.json").unlink()
    (there / "aggregator.json").symlink_to(file)
    with pytest.raises(ConfigError, match="is not trusted"):
        find_config(None, there, environ)  # what it names would be looked for in another folder
    assert known.remove(there / "aggregator.json") is False
    there.joinpath("aggregator.json").unlink()
    there.rmdir()
    there.symlink_to(here)
    assert find_config(None, there, environ).why == "trusted", "both names are of one folder"
    assert known.remove(there / "aggregator.json") is True
    with pytest.raises(ConfigError, match="is not trusted"):
        find_config(None, here, environ)


@pytest.mark.parametrize("content", ["", "[]", '{"trusted": []}', '{"trusted": {"/a": 1}}', "[" * 100_000, "\0"])
def test_a_list_that_cannot_be_read_trusts_nothing(tmp_path: Path, content: str) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path), "HOME": str(tmp_path)}
    known = trust_list(environ)
    known.path.parent.mkdir(parents=True)
    known.path.write_text(content)
    (tmp_path / "aggregator.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not a list of trusted files"):
        find_config(None, tmp_path, environ)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sqlite:///a.db", "sqlite:///{}/a.db"),
        ("sqlite+aiosqlite:///data/a.db", "sqlite+aiosqlite:///{}/data/a.db"),
        ("sqlite:////var/a.db", "sqlite:////var/a.db"),
        ("sqlite:///~/a.db", f"sqlite:///{os.path.expanduser('~/a.db')}"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql://host/db", "postgresql://host/db"),
    ],
)
def test_paths_in_the_file_are_paths_from_its_folder(tmp_path: Path, written: str, meant: str) -> None:
    """Not from the working folder, where somebody else may have put a database or a program of that name."""
    path = tmp_path / "aggregator.json"
    servers = {
        "one": {"command": "./bin/one"},
        "two": {"command": "bin/two", "cwd": "work"},
        "three": {"command": "three"},
        "four": {"command": "/bin/four"},
        "five": {"url": "http://127.0.0.1:1", "launch": {"command": "./five"}},
        "six": {"url": "https://a", "tls": {name: f"{name}.pem" for name in ("ca", "client_cert", "client_key")}},
    }
    path.write_text(json.dumps({"mcpServers": servers, "storage": written}))
    loaded = load(path, {})
    assert loaded.storage == meant.format(tmp_path)
    found = {server.id: server for server in loaded.config.servers}
    assert [found[name].command for name in ("one", "two", "three", "four")] == [
        f"{tmp_path}/bin/one",
        "bin/two",
        "three",
        "/bin/four",
    ]
    assert found["two"].cwd == f"{tmp_path}/work"
    launch = found["five"].launch
    assert launch is not None
    assert launch.command == f"{tmp_path}/five"
    names = ("ca", "client_cert", "client_key")
    assert [getattr(found["six"].tls, name) for name in names] == [f"{tmp_path}/{name}.pem" for name in names]


def test_without_a_home_the_working_folder_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without an entry and without HOME, as in many containers, has a `~` that is a name like any other."""
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    for home in ("~", "here"):
        planted = tmp_path / home / ".config" / "aggregator" / "aggregator.json"
        planted.parent.mkdir(parents=True)
        planted.write_text("{}")
    for environ in ({}, {"HOME": ""}, {"HOME": "here"}):
        with pytest.raises(ConfigError, match="set HOME"):
            find_config(None, tmp_path, environ)
        with pytest.raises(StorageError, match="set HOME"):
            default_url(environ)
    assert find_config(planted, tmp_path, {}).path == planted
    named = dict.fromkeys(("XDG_CONFIG_HOME", "APPDATA"), str(planted.parents[1]))
    assert find_config(None, planted.parents[3], named).path == planted
    assert str(tmp_path) in default_url(dict.fromkeys(("XDG_DATA_HOME", "LOCALAPPDATA"), str(tmp_path)))


def test_a_named_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no file .*x\.json"):
        find_config(Path("x.json"), tmp_path, {})


@pytest.mark.skipif(ON_WINDOWS, reason="the lane has decided which platform this is")
@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"HOME": "/home/ada"}, "/home/ada/.config"),
        ("linux", {"HOME": "/home/ada", "XDG_CONFIG_HOME": "relative"}, "/home/ada/.config"),
        ("linux", {"XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada"),
        ("darwin", {"HOME": "/Users/ada", "XDG_CONFIG_HOME": "/x"}, "/Users/ada/Library/Application Support"),
        ("win32", {"APPDATA": "/ada/Roaming"}, "/ada/Roaming"),
    ],
)
def test_the_platforms_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, environ: dict[str, str], folder: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(ConfigError) as caught:
        find_config(None, tmp_path, environ)
    assert str(Path(folder) / "aggregator" / "aggregator.json") in str(caught.value)


@pytest.mark.parametrize("other", ["st_mtime_ns", "st_size", "st_ino", "st_ctime_ns", None])
def test_a_file_is_another_one_if_anything_about_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str | None
) -> None:
    """D11: a restored backup has the time and the size of the file that it replaces."""
    before = {"st_mtime_ns": 1, "st_size": 2, "st_ino": 3, "st_ctime_ns": 4}
    statuses = iter((SimpleNamespace(**before), SimpleNamespace(**before | ({other: 5} if other else {}))))
    monkeypatch.setattr(Path, "stat", lambda _: next(statuses))
    assert (stamp(tmp_path) != stamp(tmp_path)) is (other is not None)
