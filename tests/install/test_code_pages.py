"""Files of hosts in every encoding and with every line end that people have: our entry in, and every byte back."""

import codecs
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.hosts.install.host_files import choose_file, entries
from aggregator.hosts.every_host import host_named
from aggregator.hosts.machine import this_machine
from aggregator.hosts.parse import parse_file
from tests.hosts.grounds import put
from tests.install.conftest import Install, tree

TEXTS = {
    "cursor": '{{\n\t"mcpServers": {{\n\t\t"grüße": {{"command": "{0}"}}\n\t}}\n}}\n',
    "codex": '# grüße\nmodel = "x"\n\n[mcp_servers."grüße"]\ncommand = "{0}"\n',
    "goose": "# grüße\nextensions:\n  grüße:\n    type: stdio\n    cmd: {0}\n    args: []\n",
    "opencode": '{{ // grüße\n  "mcp": {{ "grüße": {{ "type": "local", "command": ["{0}"] }} }},\n}}',
}
ENCODINGS = {
    "utf-8": ("utf-8", b""),
    "utf-8 with a mark": ("utf-8", codecs.BOM_UTF8),
    "utf-16 of Notepad": ("utf-16-le", codecs.BOM_UTF16_LE),
    "utf-16 the other way": ("utf-16-be", codecs.BOM_UTF16_BE),
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", TEXTS)
def test_an_entry_goes_in_and_comes_out(
    name: str, encoding: str, ends: str, home: Path, config: Path, install: Install
) -> None:
    codec, mark = ENCODINGS[encoding]
    host = host_named(name)
    file = choose_file(host, this_machine(), None, None)
    put(file.path, mark + TEXTS[name].format("käse").replace("\n", ends).encode(codec))
    before = tree(home)
    install(name, "--write")
    written = file.path.read_bytes()
    text = written.removeprefix(mark).decode(codec)
    assert written.startswith(mark)
    assert text.count("\n") == text.count(ends)
    found: dict[str, Any] = entries(parse_file(file.path, file.format), file)
    assert host.read(found["grüße"])["command"] == "käse"
    assert host.read(found["aggregator"])["args"][0] == "stdio"
    assert "points here already" in install(name)
    install(name, "--undo", "--write")
    assert tree(home) == before


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_our_own_file_keeps_its_encoding(encoding: str, home: Path, config: Path, install: Install) -> None:
    """A take-over edits both files, each in its own encoding."""
    codec, mark = ENCODINGS[encoding]
    config.write_bytes(mark + '{\r\n  // grüße\r\n  "mcpServers": {}\r\n}\r\n'.encode(codec))
    put(home / ".cursor/mcp.json", '{"mcpServers": {"a": {"command": "käse"}}}')
    before = tree(home)
    install("cursor", "--take-over", "--write")
    text = config.read_bytes().removeprefix(mark).decode(codec)
    assert '"command": "käse"' in text
    assert text.count("\n") == text.count("\r\n")
    install("cursor", "--undo", "--write")
    assert tree(home) == before


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437", "utf-8"])
def test_output_in_a_code_page(encoding: str, home: Path) -> None:
    """What the code page lacks is an escape of JSON, so that JSON stays what it is."""
    folder = home / "grüße €😀"
    folder.mkdir()
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONIOENCODING": encoding,
        "XDG_CONFIG_HOME": str(folder),
    }
    put(folder / "aggregator/aggregator.json", '{"mcpServers": {}}')
    put(folder / "opencode/opencode.json", json.dumps({"mcp": {"x": {"type": "local", "command": ["y"]}}}))
    words = [sys.executable, "-m", "aggregator", "install", "opencode", "--json"]
    done = subprocess.run(words, env=environ, cwd=home, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode(encoding))["file"] == str(folder / "opencode/opencode.json")
