"""Five people's worth of files as they are: comments, capitals, twins, secrets, broken ones, other systems."""

import json
import shutil
from pathlib import Path
from typing import Final

import pytest

from aggregator.cli.hosts import import_hosts
from aggregator.config.load import load
from aggregator.hosts.model import Machine, System
from tests.hosts.grounds import CANARY

PEOPLE: Final = Path(__file__).parent / "people"

# Every entry that is found, and what becomes of it: `+ key` is added, `- key` too but switched off.
EXPECTED: Final[dict[tuple[str, System], dict[str, str]]] = {
    ("ada", "linux"): {
        "claude-code/sentry": "+ sentry",
        "claude-code/playwright": "- playwright",
        "claude-code/brave": "+ brave",
        "vscode/GitHub": "+ GitHub",
        "vscode/db": "+ db",
        "vscode/local tools": "+ local-tools",
        "cline/github.com/modelcontextprotocol/servers/tree/main/src/github": "+ github-2",
        "cline/brave-search": "repeated",
    },
    ("bo", "macos"): {
        "claude-desktop/filesystem": "+ filesystem",
        "claude-desktop/notion": "+ notion",
        "claude-desktop/notionApi": "+ notionApi",
        "claude-desktop/puppeteer": "+ puppeteer",
        "claude-desktop/weather": "+ weather",
        "cursor/FileSystem": "+ FileSystem-2",
        "cursor/figma": "+ figma",
        "cursor/Linear": "+ Linear",
        "cursor/supabase": "+ supabase",
        "cursor/": "+ cursor-server",
    },
    ("chi", "windows"): {
        "claude-desktop/filesystem": "+ filesystem",
        "claude-desktop/sqlite": "+ sqlite",
        "claude-desktop/高德地图": "+ claude-desktop-server",
        "claude-desktop/Aggregator": "own",
        "vscode/mcp-server-time": "+ mcp-server-time",
        "windsurf/amap": "+ amap",
        "windsurf/sqlite": "repeated",
        "windsurf/remote": "+ remote",
    },
    ("dee", "linux"): {
        "claude-desktop/GITHUB": "+ GITHUB",
        "claude-desktop/postgres-prod": "+ postgres-prod",
        "claude-desktop/postgres-staging": "+ postgres-staging",
        "claude-desktop/slack": "+ slack",
        "cursor/github": "repeated",
        "cursor/Slack": "repeated",
        "cursor/gateway": "own",
        "roo-code/build": "+ build",
        "roo-code/docs": "- docs",
        "gemini-cli/Github": "+ Github-2",
        "gemini-cli/slow": "+ slow",
        "gemini-cli/search": "- search",
        "copilot-cli/playwright": "+ playwright",
        "copilot-cli/github": "+ github-3",
    },
    ("eli", "linux"): {
        "codex/context7": "+ context7",
        "codex/chrome.devtools": "+ chrome-devtools",
        "codex/linear": "- linear",
        "codex/openai_docs": "+ openai_docs",
        "gemini-cli/site": "+ site",
        "gemini-cli/hub": "+ hub",
        "zed/postgres-context-server": "unusable",
        "zed/time": "+ time",
        "zed/legacy": "+ legacy",
        "goose/developer": "unusable",
        "goose/computercontroller": "unusable",
        "goose/tavily": "+ tavily",
        "goose/old sse": "- old-sse",
    },
}
UNREADABLE: Final = {"chi": ["vscode"], "eli": ["continue"]}


@pytest.mark.parametrize(("name", "system"), EXPECTED)
def test_what_becomes_of_the_servers_of(
    name: str, system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(PEOPLE / name, tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    for file in (tmp_path / "home").rglob("*.json"):
        file.write_bytes(file.read_bytes().replace(b"@FOLDER@", str(folder).encode()))
    monkeypatch.setattr(import_hosts, "this_machine", lambda: Machine(system, tmp_path / "home", {}, folder))
    config = tmp_path / "aggregator.json"
    config.write_text("// new\n{}\n")
    assert import_hosts.run([], config, import_hosts.ImportOptions(write=True, this_folder=True)) == 0
    shown = capsys.readouterr()
    assert CANARY.lower() not in (shown.out + shown.err).lower()
    loaded = load(config, {"LINEAR_TOKEN": "1"})
    assert [str(problem) for problem in loaded.problems if problem.severity == "error"] == []
    taken = {server.id for server in loaded.config.servers}
    config.write_text("{}")
    assert import_hosts.run([], config, import_hosts.ImportOptions(as_json=True, this_folder=True)) == 0
    report = json.loads(capsys.readouterr().out)
    found = {
        f"{file['host']}/{server['name']}": ("+ " if server["enabled"] else "- ") + server["key"]
        if server["outcome"] == "add"
        else server["outcome"]
        for file in report["files"]
        for server in file["servers"]
    }
    assert found == EXPECTED[name, system]
    assert [file["host"] for file in report["files"] if file["problem"]] == UNREADABLE.get(name, [])
    assert taken == {outcome[2:] for outcome in found.values() if outcome[1:2] == " "}
