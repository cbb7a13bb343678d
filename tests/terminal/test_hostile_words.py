"""Commands in front of a hostile server and a hostile configuration: text, lines and our own colours."""

import io
import json
import logging
import re
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from rich.table import Table
from rich.text import Text

from aggregator.cli.commands import cli
from aggregator.cli.runtime.logs import LogFormatter
from aggregator.cli.runtime.screen import Screen, plain
from aggregator.cli.runtime.tables import print_rows
from aggregator.cli.runtime.writer import say
from aggregator.domain.text.invisible import visible
from tests.adding.test_terminal import Terminal
from tests.terminal.hostile import WORDS

SERVER: Final = Path(__file__).with_name("hostile.py")
# Colours of rich, as it writes them.
_OURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN: Final = "in\\u001b[31;5msane\\u001b]0;owned\\u0007\\u009b2J\\u009d0;x\\u009c\\u0000\\b\\u000b\\f\\u007f"

# What a command exits with, what it printed on stdout, and on stderr.
Run = Callable[..., tuple[int, str, str]]


def is_clean(text: str) -> bool:
    """Return whether each character of a text is shown by a terminal, or ends a line."""
    return all(char.isprintable() or char == "\n" for char in text)


def entry(*args: str) -> dict[str, Any]:
    """Return the entry of a hostile server whose words pass as they are."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVER), *args], "invisible_characters": "keep"}


def write(path: Path, **servers: dict[str, Any]) -> None:
    settings = {"storage": f"sqlite+aiosqlite:///{path.parent / 'a.db'}"}
    path.write_text(json.dumps({"mcpServers": servers, **settings}))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with the hostile server in it, in a home of its own."""
    for name, folder in (("HOME", "home"), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "aggregator.json"
    write(path, evil=entry(), dead=entry("--die"), refused=entry("--refuse"))
    return path


@pytest.fixture
def run(config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, and see to it that its output is clean. A result of a call may bring lines of its own."""

    def command(*words: str, lines: bool = False) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["aggregator", *words, "--config", str(config)])
        try:
            code: Any = cli()
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        assert is_clean(out), (words, out)
        assert is_clean(err), (words, err)
        assert lines or not re.search("^FORGED", out + err, re.MULTILINE), (words, out, err)
        return code or 0, out, err

    return command


def test_what_servers_are(run: Run) -> None:
    code, out, _ = run("check")
    assert code == 1
    assert "evil" in out
    code, out, _ = run("check", "--json")
    assert {one["server"] for one in json.loads(out)["servers"]} == {"evil", "dead", "refused"}
    _, out, _ = run("doctor")
    assert out.startswith("configuration: ")
    _, out, _ = run("doctor", "--json")
    assert json.loads(out)["findings"]


def test_their_tools(run: Run) -> None:
    for level in ("1", "2", "3"):
        _, out, _ = run("tools", "--level", level, lines=True)
        assert "evil.plain" in out
    _, out, _ = run("tools", "--json")
    described = {one["name"]: one for one in json.loads(out)}
    assert described["evil.plain"]["inputSchema"]["properties"]["p"]["default"] == WORDS


def test_results_and_errors_of_calls(run: Run) -> None:
    code, out, _ = run("call", "evil.plain", lines=True)
    assert code == 0
    assert out.startswith(_SHOWN)
    assert "\nFORGED" in out, "the lines of a result stay"
    code, out, _ = run("call", "evil.failing", lines=True)
    assert code == 1
    assert _SHOWN in out
    for name in ("evil.refusing", f"evil.tool{WORDS[:4]}", f"evil.{WORDS[:20]}", f"{WORDS[:30]}.x"):
        code, out, err = run("call", name, lines=True)
        assert code
        assert out or err
    for words in (("tail",), ("tail", "--json"), ("export",), ("export", "--format", "csv"), ("stats", "--by", "tool")):
        _, out, _ = run("audit", *words)
        assert "refusing" in out


def test_pins(run: Run, config: Path) -> None:
    code, out, _ = run("pins", "check", "evil")
    assert code == 2
    assert "suspicious" in out
    run("pins", "check", "evil", "--write")
    write(config, evil=entry("--changed"), dead=entry("--die"))
    for words in (("check",), ("check", "--json", "evil"), ("status",), ("status", "--json"), ("diff",)):
        run("pins", *words)
    _, out, _ = run("pins", "check", "evil")
    assert "its description changed" in out


def test_servers_that_are_added(run: Run, config: Path) -> None:
    for option, name in (("", "more"), ("--die", "last"), ("--refuse", "no")):
        words = (sys.executable, "-I", "-S", str(SERVER), *([option] if option else []))
        for form in ((), ("--json",)):
            _, out, err = run("add", name, "--yes", *form, "--config", str(config), "--", *words)
            assert name in out + err
    run("rename", "more", "other")
    run("remove", "other")


def test_servers_of_other_hosts(run: Run, config: Path, tmp_path: Path) -> None:
    theirs = {f"theirs{WORDS}": {"command": f"x{WORDS}", "args": [WORDS], "env": {f"K{WORDS}": WORDS}}}
    file = tmp_path / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": theirs}))
    for words in ((), ("--json",), ("--write",)):
        _, out, err = run("import", "cursor", *words)
        assert "theirs" in out + err
    run("doctor", "--no-connect")
    run("install")


def test_a_hostile_configuration(run: Run, config: Path) -> None:
    hostile = {f"name{WORDS}": entry(), "a": {"command": WORDS}, "b": {"url": WORDS}, "c": {f"key{WORDS}": WORDS}}
    for servers in (hostile, {**hostile, "d": {"url": f"http://[{WORDS}"}, "e": WORDS}):
        config.write_text(json.dumps({"mcpServers": servers, f"setting{WORDS}": WORDS, "log_level": WORDS}))
        for words in (("check",), ("check", "--json"), ("tools",), ("doctor", "--no-connect"), ("pins", "status")):
            run(*words)
        for words in (("call", "a.b"), ("flow", "show"), ("audit", "tail"), ("secrets", "list"), ("connections",)):
            run(*words)
    config.write_text(f'{{"mcpServers": {{"{WORDS}')
    run("check")


def test_hostile_policy_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "p.yaml").write_text(json.dumps({"agents": {f"agent{WORDS}": {"allow": [WORDS]}}, f"key{WORDS}": WORDS}))
    for words in (("check",), ("check", "--json"), ("explain", "x"), ("explain", "x", "evil.plain"), ("test",)):
        run("policy", *words)


def test_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("aggregator.server.x", logging.WARNING, "", 0, "%s", (WORDS,), None)
    line = LogFormatter([], as_json=False).format(record)
    assert _SHOWN in line
    assert line.isprintable()
    line = LogFormatter([], as_json=True).format(record)
    assert line.isprintable()
    assert json.loads(line)["message"] == WORDS
    try:
        raise ValueError(WORDS)
    except ValueError:
        record.exc_info = sys.exc_info()
    assert is_clean(LogFormatter([], as_json=False).format(record))
    line = LogFormatter([], as_json=True).format(record)
    assert line.isprintable()
    assert WORDS in json.loads(line)["exception"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[1mb", "a\\u001b[1mb"),
        ("a\x7fb\x9bc", "a\\u007fb\\u009bc"),
        ("a\r\nb\rc\n", "a\nb\\rc\n"),
        ("\u202ea\u200e\u2066", "\\u202ea\\u200e\\u2066"),
        ("a\tb\u2028c\u200bd", "a\\tb\\u2028c\\u200bd"),
        ("a\u200db\ufe0f", "a\\u200db\\ufe0f"),
        ("\ud83d!", "\\ud83d!"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f680 \u2764\ufe0f", None),
        ("a\xa0b \u3000", None),
        ("", None),
    ],
)
def test_what_is_escaped(text: str, shown: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Joiners and selectors that a script needs stay, and so do spaces."""
    assert visible(text) == (text if shown is None else shown)
    say(text, end="")
    assert capsys.readouterr().out == visible(text)


def test_json_stays_the_same_json() -> None:
    value = {WORDS: [WORDS, "\ud83d", "\U000e0041"]}
    for text in (json.dumps(value, ensure_ascii=False), json.dumps(value, ensure_ascii=False, indent=2)):
        assert json.loads(visible(text)) == value
        assert is_clean(visible(text))


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """An escape has the width that it is shown with, and a cell keeps to its line."""
    print_rows([("A", "B"), ("\x1b\ta", "1"), ("b\nc", "2")])
    assert capsys.readouterr().out.splitlines() == ["A          B", "\\u001b\\ta  1", "b c        2"]


def test_colours_are_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    out = Screen()
    out.print(f"[red]{plain(WORDS)}[/]")
    out.print(Text(WORDS))
    table = Table()
    table.add_column("a")
    table.add_row("b\x1b[2Jc")
    out.print(table)
    said = terminal.getvalue()
    assert "\x1b[31m" in said
    assert is_clean(_OURS.sub("", said))
    assert "\x1b[31;5m" not in said
    assert "[red][/blue]" in said
    *_, head, _, row, _ = said.splitlines()
    assert len(_OURS.sub("", head)) == len(_OURS.sub("", row))


def test_words_of_a_server_that_is_waited_for(tmp_path: Path) -> None:
    """Its last line is shown while the trial runs; marks of rich in it are no marks, and break nothing."""
    words = ("--yes", "--timeout", "2s", "--", sys.executable, "-I", "-S", str(SERVER), "--deaf")
    with closing(Terminal(tmp_path, "evil", *words)) as terminal:
        assert terminal.end() == 1, terminal.said
    assert "evil did not connect" in terminal.said
    assert "[red][/blue]" in terminal.said
    assert "Traceback" not in terminal.said
    assert is_clean(terminal.said.replace("\r\n", "\n"))
