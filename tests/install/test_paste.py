"""`aggregator install` for hosts that keep their servers in settings of their own: what it prints to paste."""

import json
import ntpath
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.hosts.install.paste import command_line
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import HostProgram, OwnLaunch, System
from tests.install.conftest import Install, tree

PASTED = [host for host in HOSTS if host.paste is not None]
_WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=4)


@pytest.mark.parametrize("host", PASTED, ids=lambda host: host.id)
def test_what_to_paste(host: HostProgram, home: Path, config: Path, install: Install) -> None:
    before = tree(home)
    report = json.loads(install(host.id, "--json", "--agent", "shop"))
    text = report["paste"]
    if "stdio" not in host.speaks:
        assert text == "http://127.0.0.1:8642/mcp"
        assert "public https addresses alone" in report["remarks"][0]
    else:
        words = [*json.loads(text)["mcpServers"]["aggregator"]["args"]] if host.paste_json else shlex.split(text)[1:]
        assert words[-5:] == ["stdio", "--config", str(config), "--agent", "shop"]
    shown = install(host.id, "--write")
    assert host.paste is not None
    assert host.paste in shown
    assert tree(home) == before


def test_the_public_address(home: Path, config: Path, install: Install) -> None:
    config.write_text('{"mcpServers": {}, "http": {"public_url": "https://tools.example.com"}}')
    shown = install("chatgpt")
    assert "https://tools.example.com/mcp\n" in shown
    assert "public https addresses alone" not in shown
    assert "https://tools.example.com/mcp\n" in install("raycast", "--http")


def test_a_host_that_starts_programs_alone(home: Path, config: Path, refused: Callable[..., str]) -> None:
    assert "Perplexity starts programs alone" in refused("perplexity", "--http")


def test_without_a_configuration(home: Path, refused: Callable[..., str]) -> None:
    assert "aggregator" in refused("raycast")


def test_the_object_brings_the_path_of_this_shell(
    home: Path, config: Path, install: Install, monkeypatch: pytest.MonkeyPatch, on_system: Callable[[System], object]
) -> None:
    on_system("macos")
    tools = home / "tools"
    tools.mkdir()
    (tools / "only-here").write_text("#!/bin/sh\n")
    (tools / "only-here").chmod(0o755)
    config.write_text('{"mcpServers": {"a": {"command": "only-here"}}}')
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    report = json.loads(install("cherry-studio", "--json"))
    entry = json.loads(report["paste"])["mcpServers"]["aggregator"]
    assert entry["env"]["PATH"].startswith(f"{tools}:")
    assert any("only-here" in remark for remark in report["remarks"])


@given(command=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), args=_WORDS)
def test_a_line_is_split_into_the_same_words(command: str, args: list[str]) -> None:
    """Shells of POSIX split it so; programs of Windows by the rules of CommandLineToArgvW."""
    launch = OwnLaunch(command, tuple(args))
    assert shlex.split(command_line(launch, "linux")) == [command, *args]
    assert argv(command_line(launch, "windows")) == [command, *args]


def argv(line: str) -> list[str]:
    """Split a line as the C runtime of Windows does: backslashes count before quotes alone."""
    words: list[str] = []
    at = 0
    while True:
        while at < len(line) and line[at] in " \t":
            at += 1
        if at >= len(line):
            return words
        word, quoted = "", False
        while at < len(line) and (quoted or line[at] not in " \t"):
            slashes = len(line[at:]) - len(line[at:].lstrip("\\"))
            at += slashes
            if at < len(line) and line[at] == '"':
                word += "\\" * (slashes // 2)
                if slashes % 2:
                    word += '"'
                else:
                    quoted = not quoted
                at += 1
            else:
                word += "\\" * slashes
                if not slashes:
                    word += line[at]
                    at += 1
        words.append(word)


def test_a_windows_path_is_kept() -> None:
    path = ntpath.join("C:\\", "Program Files", "aggregator.exe")
    assert argv(command_line(OwnLaunch(path, ("--config", "C:\\a b\\")), "windows")) == [path, "--config", "C:\\a b\\"]
