"""Where the configuration file is."""

import sys
from pathlib import Path

import pytest

from aggregator.config.load import ConfigError, find_config


def test_the_order_of_places(tmp_path: Path) -> None:
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
    assert "mcpServers" in str(caught.value)
    (own / "aggregator.json").write_text("{}")
    assert find_config(None, working, environ) == own / "aggregator.json"
    (working / "aggregator.json").write_text("{}")
    assert find_config(None, working, environ) == working / "aggregator.json"
    (working / "other.json").write_text("{}")
    assert find_config(Path("other.json"), working, environ) == working / "other.json"


def test_a_named_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no file .*x\.json"):
        find_config(Path("x.json"), tmp_path, {})


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
