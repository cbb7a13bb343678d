"""`%NAME%` in the entries of hosts on Windows."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.hosts.discover import discover
from aggregator.hosts.every_host import host_named
from aggregator.hosts.model import Machine, System
from aggregator.hosts.percent import with_references
from tests.hosts.grounds import put


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("%APPDATA%\\npm\\x.cmd", "${APPDATA}\\npm\\x.cmd"),
        ("%AppData%/x", "${APPDATA}/x"),
        ("%MINE%;%PATH%", "${MINE};${PATH}"),
        ("%mine%", "${MINE}"),
        ("%NOT_SET%", "%NOT_SET%"),
        ("100%", "100%"),
        ("%%", "%%"),
        ("a%20b%20c", "a%20b%20c"),
        ("%41%", "%41%"),
        ("%PATH:~0,2%", "%PATH:~0,2%"),
        ("%ProgramFiles(x86)%\\x", "%ProgramFiles(x86)%\\x"),
        ("x%USERPROFILE%y%USERPROFILE%z", "x${USERPROFILE}y${USERPROFILE}z"),
    ],
)
def test_names_of_variables_become_references(text: str, given: str) -> None:
    entry = {"command": text, "args": [text], "cwd": text, "env": {"A": text}, "envFile": text}
    made, notes = with_references(entry, {"Mine": "x"})
    assert made == {"command": given, "args": [given], "cwd": given, "env": {"A": given}, "envFile": given}
    assert (notes != ()) == (given != text or "(x86)" in text)
    assert len(set(notes)) == len(notes)


def test_addresses_and_headers_are_no_paths() -> None:
    entry = {"url": "https://a.example/%PATH%", "headers": {"A": "%PATH%"}, "enabled": False, "timeout": 5}
    assert with_references(entry, {}) == (entry, ())


@given(st.text(alphabet="%AaPTH_01(){}$ \\", max_size=30), st.dictionaries(st.text("AaPTH_", min_size=1), st.just("x")))
def test_everything_else_stays(text: str, environ: dict[str, str]) -> None:
    """Put back, the references give the text again, but for the case of their names."""
    made, _ = with_references({"command": text}, environ)
    names = {*(name.upper() for name in environ), "PATH", "TMP", "TEMP"}
    again = made["command"]
    for name in names:
        if f"${{{name}}}" not in text:
            again = again.replace(f"${{{name}}}", f"%{name}%")
    assert again.upper() == text.upper() or "${" in text


@pytest.mark.parametrize(("system", "command"), [("windows", "${APPDATA}\\x.exe"), ("linux", "%APPDATA%\\x.exe")])
def test_on_windows_alone(system: System, command: str, tmp_path: Path) -> None:
    machine = Machine(system, tmp_path / "home", {}, tmp_path / "folder")
    entry: dict[str, Any] = {"command": "%APPDATA%\\x.exe", "args": ["${file:%APPDATA%}"]}
    put(machine.home / ".cursor/mcp.json", json.dumps({"mcpServers": {"a": entry}}))
    ((server,),) = [found.servers for found in discover(machine, [host_named("cursor")])]
    assert server.fields is not None
    assert server.fields["command"] == command
    assert "${file" not in json.dumps(server.fields).replace("${$}", "")
    assert ("`%APPDATA%` is written as ${APPDATA} here." in server.notes) == (system == "windows")
