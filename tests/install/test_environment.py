"""The variables that our entry brings to a host."""

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.hosts.install.build import served_commands
from aggregator.cli.hosts.install.environment import EntryVariables, absolute_folders, entry_variables
from aggregator.config.load import load
from aggregator.hosts.every_host import host_named
from aggregator.hosts.model import System

SHELL = "/home/ada/.nvm/bin:/usr/bin:/bin"


def which(command: str, path: str) -> str | None:
    """Find `npx` where a version manager puts it, and `python3` where the system does."""
    folder = {"npx": "/home/ada/.nvm/bin", "python3": "/usr/bin"}.get(command)
    return f"{folder}/{command}" if folder in path.split(":") else None


def variables(host: str, system: System = "macos", taken: Collection[str] = (), **environ: str) -> EntryVariables:
    commands = ["npx", "python3", "no-such-program"]
    return entry_variables(host_named(host), system, commands, taken, {"PATH": SHELL, **environ}, which)


def test_commands_that_are_searched_on_path(tmp_path: Path) -> None:
    """Those that are started, unless their entry has a PATH of its own."""
    servers: dict[str, Any] = {
        "plain": {"command": "plain"},
        "off": {"command": "off", "enabled": False},
        "own": {"command": "own", "env": {"PATH": "/its/own"}},
        "more": {"command": "more", "env": {"MODE": "x"}},
        "there": {"command": "/bin/there"},
        "web": {"url": "http://localhost:1/mcp"},
        "launched": {"url": "http://localhost:1/mcp", "launch": {"command": "launched"}},
        "launched_off": {"url": "http://localhost:1/mcp", "launch": {"command": "launched_off"}, "enabled": False},
        "launched_own": {"url": "http://localhost:1/mcp", "launch": {"command": "own_too", "env": {"PATH": "/own"}}},
    }
    path = tmp_path / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    assert served_commands(load(path, {})) == {"plain", "more", "launched"}


def test_a_desktop_host_gets_the_path_of_the_shell() -> None:
    made = variables("claude-desktop")
    assert made.env == {"PATH": SHELL}
    (remark,) = made.remarks
    assert "npx is not on the PATH" in remark
    assert "no-such-program" not in remark


@pytest.mark.parametrize(("host", "system"), [("claude-code", "macos"), ("claude-desktop", "windows")])
def test_a_host_that_has_the_path_gets_none(host: str, system: System) -> None:
    assert variables(host, system) == EntryVariables()


def test_nothing_is_missing_on_the_path_of_the_desktop() -> None:
    made = entry_variables(host_named("claude-desktop"), "linux", ["python3"], (), {"PATH": SHELL}, which)
    assert made == EntryVariables()


def test_variables_of_this_shell_are_named_and_never_their_values() -> None:
    taken = ["GITHUB_TOKEN", "HOME", "UNSET", "OTHER", "AGGREGATOR_PYTHON"]
    set_here: dict[str, Any] = {
        "GITHUB_TOKEN": "canary",
        "OTHER": "canary",
        "HOME": "/home/ada",
        "AGGREGATOR_PYTHON": "canary",
    }
    (remark,) = variables("codex", taken=taken, **set_here).remarks
    assert "takes GITHUB_TOKEN and OTHER from the variables of this shell" in remark
    assert "canary" not in remark
    assert not variables("claude-code", taken=taken, **set_here).remarks


def test_the_folder_of_the_database_goes_along() -> None:
    assert variables("vscode", XDG_DATA_HOME="/data").env == {"XDG_DATA_HOME": "/data"}
    assert variables("vscode", XDG_DATA_HOME="relative").env == {}


@given(st.lists(st.sampled_from(["/a", "/b/c", "", ".", "bin", "../x"])))
def test_folders_of_a_path(folders: list[str]) -> None:
    """Relative folders would mean others in the host's working folder; each other one stays once, in order."""
    made = absolute_folders(os.pathsep.join(folders)).split(os.pathsep)
    assert [folder for folder in made if folder] == list(dict.fromkeys(f for f in folders if os.path.isabs(f)))


def test_what_servers_need_to_reach_the_network_goes_along_without_secrets() -> None:
    """E9: a host that passes nothing on starts servers with the certificates and registries of this shell."""
    given = {
        "SSL_CERT_FILE": "/ca.pem",
        "UV_INDEX_URL": "https://me:canary@mirror.example/simple",
        "NPM_CONFIG_REGISTRY": "https://mirror.example",
        "UV_PUBLISH_TOKEN": "canary",
    }
    made = variables("claude-desktop", "windows", **given)
    assert made.env == {
        "NPM_CONFIG_REGISTRY": "https://mirror.example",
        "SSL_CERT_FILE": "/ca.pem",
        "UV_INDEX_URL": "https://mirror.example/simple",
    }
    told, left = made.remarks
    assert "NPM_CONFIG_REGISTRY, SSL_CERT_FILE and UV_INDEX_URL" in told
    assert "so the entry brings them: servers may need them to reach" in told
    (told,) = variables("claude-desktop", "windows", SSL_CERT_FILE="/ca.pem").remarks
    assert "has SSL_CERT_FILE, which this host may not pass on, so the entry brings it: servers may need it to" in told
    assert "UV_INDEX_URL are left out" in left
    assert "canary" not in repr(made)
    assert variables("claude-code", "windows", **given).env == {}
