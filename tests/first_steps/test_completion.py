"""Completion in a shell: the words that fit, from files alone, and scripts that real shells take."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import typer

from aggregator.cli.commands import app
from aggregator.cli.first_run.complete import candidates
from aggregator.cli.first_run.completion import SCRIPTS
from aggregator.domain.errors import OperatorError
from aggregator.hosts.every_host import HOSTS
from tests.end_to_end.server_harness import ROOT

from .conftest import AtTerminal, Run


def completed(line: str) -> list[str]:
    """Return what the last word of a line may become; a line that ends in a space has an empty last word."""
    return [text for text, _ in candidates(typer.main.get_command(app), line.split(" "))]


@pytest.fixture
def known(config: Path) -> Path:
    """A configuration with servers, a policy with agents, a database with tools and keys."""
    config.write_text('{"mcpServers": {"time": {"command": "x"}, "git hub": {"url": "http://x", "prefix": "gh"}}}')
    (config.parent / "policies").mkdir()
    (config.parent / "policies" / "a.yaml").write_text("agents:\n  ada: {}\n  bob: {}\n")
    database = config.parents[2] / ".local" / "share" / "aggregator" / "aggregator.db"
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as made, made:
        made.executescript("""
            CREATE TABLE mcp_servers (id TEXT, fingerprint TEXT, connected REAL);
            CREATE TABLE mcp_tools (server TEXT, fingerprint TEXT, position INTEGER, name TEXT);
            CREATE TABLE api_keys (agent_id TEXT, revoked REAL);
            INSERT INTO mcp_servers VALUES ('time', 'old', 1), ('time', 'new', 2), ('git-hub', 'f', 1),
                ('gone', 'f', 1);
            INSERT INTO mcp_tools VALUES ('time', 'old', 0, 'gone'), ('time', 'new', 0, 'now'),
                ('git-hub', 'f', 0, 'x'), ('gone', 'f', 0, 'y');
            INSERT INTO api_keys VALUES ('eve', NULL), ('mallory', 5);
        """)
    return config


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("re", ["reports", "remove", "rename", "restore"]),
        ("policy ex", ["explain"]),
        ("serve --log-l", ["--log-level"]),
        ("serve --log-level w", ["warning"]),
        ("serve --log-level=w", ["--log-level=warning"]),
        ("serve --host ", []),
        ("check --config ", [":files"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("remove ", ["time", "git hub"]),
        ("remove time ", ["git hub"]),
        ("rename ti", ["time"]),
        ("rename time ", []),
        ("tools --server ", ["time", "git-hub"]),
        ("call ", ["gh.x", "time.now"]),
        ("call t", ["time.now"]),
        ("policy explain a", ["ada"]),
        ("call --agent ", ["local", "ada", "bob", "eve"]),
        ("install cur", ["cursor"]),
        ("pins re", ["reset"]),
        ("pins diff t", ["time"]),
        ("pins check time g", ["git-hub"]),
        ("pins approve --dig", ["--digest"]),
        ("no-such-command ", []),
        ("add x -- uvx --", []),
    ],
)
def test_a_word_is_completed(known: Path, line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def test_hosts_are_completed(home: Path) -> None:
    assert completed("import ") == [host.id for host in HOSTS]


def test_the_configuration_on_the_line_counts(known: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"mcpServers": {"elsewhere": {}}}')
    assert completed(f"remove --config {other} ") == ["elsewhere"]
    assert completed(f"remove --config={other} ") == ["elsewhere"]


def test_nothing_that_is_broken_or_strange_is_offered(config: Path) -> None:
    config.write_text('{"mcpServers": {"a\\nb": {}, "ok": {}}}')
    assert completed("remove ") == ["ok"]
    config.write_text("{")
    assert completed("remove ") == []
    database = config.parents[2] / ".local" / "share" / "aggregator" / "aggregator.db"
    database.parent.mkdir(parents=True)
    database.write_text("no database")
    assert completed("call ") == []
    (config.parent / "policies").mkdir()
    (config.parent / "policies" / "a.yaml").write_text("agents: [")
    assert completed("call --agent ") == ["local"]


def test_a_shell_is_answered_without_the_gateway(known: Path) -> None:
    check = (
        "import sys, aggregator.cli\nsys.argv = ['aggregator', 'complete', '--', 'call', '']\n"
        "try:\n    aggregator.cli.main()\nexcept SystemExit:\n    pass\n"
        "print(*sorted({'mcp', 'pydantic', 'uvicorn', 'aiohttp', 'sqlalchemy', 'yaml', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "gh.x\ntime.now\n\n"


def test_the_script_is_printed_or_put_in_its_place(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("completion", "bash") == (0, SCRIPTS["bash"])
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert run("completion") == (0, SCRIPTS["fish"])
    for name, place in {
        "bash": ".local/share/bash-completion/completions/aggregator",
        "zsh": ".local/share/zsh/site-functions/_aggregator",
        "fish": ".config/fish/completions/aggregator.fish",
    }.items():
        run("completion", name, "--install")
        _, said = run("completion", name, "--install")
        assert (home / place).read_text() == SCRIPTS[name]
        assert str(home / place) in said
    with pytest.raises(OperatorError, match="There is no completion for 'tcsh'; name one of bash, zsh, fish"):
        run("completion", "tcsh")


@pytest.fixture
def program(home: Path) -> Path:
    """A folder with an `aggregator` that runs this one."""
    folder = home / "bin"
    folder.mkdir()
    (folder / "aggregator").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m aggregator "$@"\n')
    (folder / "aggregator").chmod(0o755)
    return folder


BASH = """
source "$HOME/script"
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _aggregator; printf '%s|' "${COMPREPLY[@]}"; echo; }
try aggregator re; try aggregator remove ""; try aggregator call t; complete -p aggregator
"""
FISH = """
source "$HOME/script"
complete -C "aggregator re"; complete -C "aggregator remove "; complete -C "aggregator call t"
"""
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; source $HOME/script; bindkey "^I" complete-word'
zpty -w shell 'echo re""ady'
zpty -r shell shown '*ready*'
zpty -w -n shell $'aggregator call t\\t'
zpty -r shell shown '*time.now*'
print -r -- "${shown##*aggregator}"
"""


@pytest.mark.parametrize(
    ("shell", "commands", "said"),
    [
        (
            "bash",
            BASH,
            ["remove|rename|restore|", r"time|git\ hub|", "time.now|", "complete -F _aggregator aggregator"],
        ),
        ("fish", FISH, ["remove\tRemove servers", "rename\tRename a server", "git hub", "time", "time.now"]),
        ("zsh", ZSH, ["call time.now"]),
    ],
)
def test_a_real_shell_completes(
    known: Path, home: Path, program: Path, monkeypatch: pytest.MonkeyPatch, shell: str, commands: str, said: list[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    monkeypatch.setenv("PATH", str(program), prepend=":")
    (home / "script").write_text(SCRIPTS[shell])
    flags = ["--norc", "--noprofile"] if shell == "bash" else ["-N"] if shell == "fish" else ["-f"]
    done = subprocess.run([shell, *flags, "-c", commands], capture_output=True, text=True, timeout=110, check=False)
    assert not [one for one in said if one not in done.stdout], (done.stdout, done.stderr)


def test_at_a_terminal_there_is_a_table_while_servers_start(at_terminal: AtTerminal, config: Path) -> None:
    config.write_text(
        '{"mcpServers": {"missing": {"command": "no-such-program"}, "off": {"command": "x", "enabled": false}}}'
    )
    code, shown = at_terminal("check")
    assert code == 1
    assert "\x1b[?25l" in shown, "the cursor is hidden while the table is live"
    assert shown.index("\x1b[?25h") < shown.index("what is wrong"), "and the table is gone before the result"
    assert "2 of 2 still start" not in shown, "one of them is disabled"


def test_elsewhere_there_is_no_table(config: Path) -> None:
    config.write_text('{"mcpServers": {"missing": {"command": "no-such-program"}}}')
    done = subprocess.run(
        [sys.executable, "-m", "aggregator", "check"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert "\x1b" not in done.stderr + done.stdout
    assert done.returncode == 1
