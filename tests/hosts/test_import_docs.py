"""Holds docs/hosts-and-servers.md to what the program knows and says."""

import json
import re
from pathlib import Path

import pytest

from aggregator.cli.hosts import import_hosts
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import Machine
from tests.hosts.grounds import put
from tests.hosts.host_table import PAGE, with_table

_CLAUDE = {
    "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/notes"]},
    "github": {
        "command": "docker",
        "args": ["run", "-i", "--rm", "-e", "GITHUB_TOKEN", "ghcr.io/github/github-mcp-server"],
        "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghijklmnopqrstuvwxyz"},
    },
    "aggregator": {"command": "aggregator", "args": ["stdio"]},
}
_CURSOR = {
    "files": {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem@latest", "/home/ada/notes"]},
    "linear": {"url": "https://mcp.linear.app/sse"},
    "docs.search": {"url": "https://docs.example.com/mcp?key=k-8f14e45fceea167a", "disabled": True},
}


def example(tmp_path: Path) -> Machine:
    """Return the machine that the page shows."""
    home = tmp_path / "home"
    put(home / ".config" / "Claude" / "claude_desktop_config.json", json.dumps({"mcpServers": _CLAUDE}))
    put(home / ".cursor" / "mcp.json", json.dumps({"mcpServers": _CURSOR}))
    put(home / ".gemini" / "settings.json", '{\n  "mcpServers": {\n    "maps" {')
    (tmp_path / "folder").mkdir()
    return Machine("linux", home, {}, tmp_path / "folder")


def test_the_table_of_hosts_is_the_one_of_the_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "python -m tests.hosts.host_table writes it anew"
    assert all(f"`{host.id}`" in page for host in HOSTS)


def test_the_output_on_the_page_is_that_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = example(tmp_path)
    monkeypatch.setattr(import_hosts, "this_machine", lambda: machine)
    config = machine.home / ".config" / "aggregator" / "aggregator.json"
    assert import_hosts.run([], config, import_hosts.ImportOptions()) == 0
    shown = capsys.readouterr().out.replace(str(machine.home), "/home/ada")
    (page,) = re.findall(r"```console\n\$ aggregator import\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown == page
