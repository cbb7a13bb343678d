"""`aggregator.mcpb` and `server.json`: as the published formats have them, and started as Claude Desktop does it.

uv, which such a host brings, is played by a program that takes the wheel out of the bundle: nothing is downloaded.
"""

import asyncio
import json
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from aggregator.cli import drop_blank_home
from aggregator.cli.first_run.bundle import FIELDS, options, variable
from scripts.releasing.bundle import BUNDLE, SERVER, manifest, pack, registry_name, requirements, server_json
from scripts.releasing.texts import ReleaseFault, semantic_version
from tests.end_to_end.scripted_host import BOUND
from tests.packaging.test_wheel import PROJECT, ROOT, build

Json = dict[str, Any]
_SCHEMAS: Final = Path(__file__).with_name("schemas")
_SMALL: Final = ROOT / "tests" / "doctor" / "small_server.py"
# Seconds for the first start, which compiles every module.
_START: Final = 3 * BOUND
_STAMP: Final = 1_790_000_000
_VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
_WITH_ADDRESS: Final = {**PROJECT, "urls": {"Repository": "https://github.com/owner/aggregator.git"}}
# What uv does with a bundle: install the wheel that pyproject.toml names, and run the program in the named folder.
_UV: Final = """\
#!{python}
import os, sys, tomllib, zipfile
run, quiet, option, folder, program = sys.argv[1:]
assert (run, quiet, option) == ("run", "--quiet", "--directory"), sys.argv
os.chdir(folder)
with open("pyproject.toml", "rb") as file:
    (source,) = tomllib.load(file)["tool"]["uv"]["sources"].values()
if not os.path.exists(".venv"):
    zipfile.ZipFile(source["path"]).extractall(".venv/lib")
os.environ["PYTHONPATH"] = os.path.abspath(".venv/lib")
os.execv(sys.executable, [sys.executable, program])
"""


def schema(name: str) -> Json:
    return dict(json.loads((_SCHEMAS / name).read_text(encoding="utf-8")))


def conforms(value: Mapping[str, Any], name: str) -> None:
    jsonschema.Draft7Validator(schema(name), format_checker=jsonschema.FormatChecker()).validate(value)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def made(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the bundle and `server.json`."""
    folder = tmp_path_factory.mktemp("made")
    assert [file.name for file in pack(ROOT, wheel, folder, _STAMP)] == [BUNDLE, SERVER]
    return folder


@pytest.fixture(scope="module")
def unpacked(made: Path) -> Path:
    """The bundle as a host unpacks it, into a folder whose name has a space."""
    folder = made / "Claude Extensions" / "aggregator"
    with zipfile.ZipFile(made / BUNDLE) as packed:
        packed.extractall(folder)
    return folder


def as_host(folder: Path, settings: Mapping[str, object]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables that a host makes of the manifest.

    As `getMcpConfigForManifest` of `@anthropic-ai/mcpb` does: settings are laid over the defaults, and a placeholder
    that neither names stays as it is.
    """
    told = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    fields = told["user_config"].items()
    values = {name: field["default"] for name, field in fields if "default" in field} | dict(settings)
    known = {"__dirname": str(folder)} | {f"user_config.{name}": str(value) for name, value in values.items()}

    def replaced(text: str) -> str:
        return _VARIABLE.sub(lambda found: known.get(found[1], found[0]), text)

    server = told["server"]["mcp_config"]
    env = {name: replaced(value) for name, value in server["env"].items()}
    return [server["command"], *map(replaced, server["args"])], env


class BundleHost:
    """A host with its session over the pipes of the started bundle."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out, self._ids = process.stdin, process.stdout, 0

    async def ask(self, method: str, **params: Any) -> Json:
        """Send a request, and return its result."""
        self._ids += 1
        self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        async with asyncio.timeout(_START):
            while True:
                message = json.loads(await self._out.readline())
                if message.get("id") == self._ids:
                    return dict(message["result"])

    async def begin(self) -> Json:
        info = {"name": "claude-ai", "version": "0.1.0"}
        told = await self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return told

    async def names(self) -> list[str]:
        return [tool["name"] for tool in (await self.ask("tools/list"))["tools"]]

    def _send(self, message: Json) -> None:
        self._in.write(json.dumps(message).encode() + b"\n")


@asynccontextmanager
async def started(folder: Path, home: Path, **settings: object) -> AsyncIterator[BundleHost]:
    """Start the bundle with the few variables of a program that a desktop starts."""
    tools = home / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "uv").write_text(_UV.format(python=sys.executable))
    (tools / "uv").chmod(0o755)
    (command, *args), env = as_host(folder, settings)
    environ = {"HOME": str(home), "PATH": f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin", **env}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        str(tools / command), *args, cwd="/", env=environ, stdin=pipe, stdout=pipe
    )
    try:
        yield BundleHost(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(BOUND):
            assert await process.wait() == 0


def configured(path: Path, *args: str, **settings: Any) -> Path:
    """Write a configuration with one small server."""
    path.parent.mkdir(parents=True, exist_ok=True)
    server = {"command": sys.executable, "args": [str(_SMALL), *args]}
    path.write_text(json.dumps({"mcpServers": {"box": server}, "http": {"port": 0}, **settings}))
    return path


def test_both_files_are_as_the_published_schemas_want_them(made: Path) -> None:
    with zipfile.ZipFile(made / BUNDLE) as packed:
        conforms(json.loads(packed.read("manifest.json")), "mcpb-manifest-v0.4.schema.json")
    conforms(json.loads((made / SERVER).read_text(encoding="utf-8")), "server-2025-12-11.schema.json")
    addressed = manifest(_WITH_ADDRESS, "1.2.3rc1", "us")
    conforms(addressed, "mcpb-manifest-v0.4.schema.json")
    assert addressed["repository"] == {"type": "git", "url": "https://github.com/owner/aggregator"}
    conforms(server_json(_WITH_ADDRESS, "1.2.3rc1", b"", None), "server-2025-12-11.schema.json")


def test_nothing_in_them_is_invented(made: Path) -> None:
    """Names, licence and texts are those of pyproject.toml, the author has the copyright, the version is the tree's."""
    import aggregator

    with zipfile.ZipFile(made / BUNDLE) as packed:
        told = json.loads(packed.read("manifest.json"))
        assert packed.read("icon.png")[:8] == b"\x89PNG\r\n\x1a\n"
        assert packed.read("LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert packed.read(told["server"]["entry_point"])
        assert packed.read(told["icon"])
    entry = json.loads((made / SERVER).read_text(encoding="utf-8"))
    for name in ("name", "description", "license", "keywords"):
        assert told[name] == PROJECT[name]
    assert told["version"] == entry["version"] == semantic_version(aggregator.__version__)
    assert told["author"]["name"] in (ROOT / "LICENSE").read_text(encoding="utf-8")
    (package,) = entry["packages"]
    assert (package["registryType"], package["identifier"]) == ("pypi", PROJECT["name"])
    assert "repository" not in told
    assert set(told["user_config"]) == set(FIELDS) == {"config", "agent", "expose"}
    given = {variable(field): f"${{user_config.{field}}}" for field in FIELDS}
    assert told["server"]["mcp_config"]["env"] == given
    assert [one.get("name") for one in entry["packages"][0]["packageArguments"][1:]] == list(FIELDS.values())
    assert not any(field["required"] for field in told["user_config"].values())
    assert told["compatibility"]["platforms"] == ["darwin", "win32", "linux"]


def test_the_registry_gets_our_address_where_there_is_one() -> None:
    entry = server_json(_WITH_ADDRESS, "1.2.3", b"bytes", None)
    assert entry["name"] == "io.github.owner/aggregator-mcp" == registry_name(_WITH_ADDRESS)
    bundle = entry["packages"][1]
    assert bundle["identifier"] == "https://github.com/owner/aggregator/releases/download/v1.2.3/aggregator.mcpb"
    assert bundle["fileSha256"] == "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9"
    assert entry["repository"]["source"] == "github"
    assert server_json(PROJECT, "1.2.3", b"", "com.example/aggregator")["name"] == "com.example/aggregator"
    for other in ("https://example.com/a/b", "http://github.com/a/b", "https://github.com/a", ""):
        assert registry_name({**PROJECT, "urls": {"Repository": other}}) is None
    with pytest.raises(ReleaseFault, match="has 101 characters"):
        server_json({**PROJECT, "description": "x" * 101}, "1.2.3", b"", None)


def test_uv_gets_the_wheel_and_the_tested_versions(wheel: Path) -> None:
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    told = tomllib.loads(requirements(PROJECT, "1.2.3", wheel.name, tested))
    assert told["project"]["dependencies"] == ["aggregator-mcp[code,keyring]"]
    assert told["project"]["requires-python"] == ">=3.11,<3.14"
    uv = told["tool"]["uv"]
    assert uv["sources"] == {"aggregator-mcp": {"path": f"wheels/{wheel.name}"}}
    assert uv["package"] is False
    pins = [line for line in tested.splitlines() if "==" in line and not line.startswith("#")]
    assert [pin.partition(" ; ")[0] for pin in uv["constraint-dependencies"]] == pins
    assert pins


def test_the_same_wheel_gives_the_same_bundle(wheel: Path, made: Path, tmp_path: Path) -> None:
    pack(ROOT, wheel, tmp_path, _STAMP)
    assert (tmp_path / BUNDLE).read_bytes() == (made / BUNDLE).read_bytes()
    with pytest.raises(ReleaseFault, match="is not of"):
        pack(ROOT, wheel.with_name("aggregator_mcp-0.0.9-py3-none-any.whl"), tmp_path, _STAMP)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, []),
        ({"config": "", "agent": " ", "expose": "${user_config.expose}"}, []),
        ({"config": "/a b/c.json"}, ["--config", "/a b/c.json"]),
        ({"agent": "me ", "expose": "search"}, ["--agent", "me", "--expose", "search"]),
    ],
)
def test_a_blank_setting_is_no_option(given: dict[str, str], wanted: list[str]) -> None:
    environ = {variable(field): value for field, value in given.items()} | {"PATH": "/bin"}
    assert options(environ) == wanted
    assert environ == {"PATH": "/bin"}, "servers do not get them"
    assert set(FIELDS) == {"config", "agent", "expose"}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"config": "", "agent": "", "expose": ""}], ids=["left out", "blank"])
async def test_the_first_start_makes_a_configuration_without_servers(
    unpacked: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    """Without a file, the host gets a session, and the user a file to add servers to."""
    home = tmp_path / "home"
    async with started(unpacked, home, **settings) as host:
        await host.begin()
        await host.names()
    own = home / ".config" / "aggregator" / "aggregator.json"
    assert json.loads(own.read_text(encoding="utf-8")) == {"mcpServers": {}}
    before = configured(own).read_bytes()
    async with started(unpacked, home, **settings) as host:
        await host.begin()
        names = await host.names()
        assert names
        answer = await host.ask("tools/call", name=names[0], arguments={})
        assert answer["content"][0]["text"] == "tool_0 was called"
    assert own.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "cannot be written"),
        ({"config": "/nicht da/größe.json"}, "There is no file /nicht da/größe.json"),
    ],
    ids=["a home that is no folder", "a file that is not there"],
)
async def test_why_it_does_not_start_is_in_the_log(
    unpacked: Path, tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    home = tmp_path / "home"
    home.write_text("")
    command, env = as_host(unpacked, settings)
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", **env}
    program = [sys.executable, str(unpacked / command[-1])]
    done = await asyncio.create_subprocess_exec(
        *program, cwd=unpacked, env=environ, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_START):
        _, words = await done.communicate()
    assert said in words.decode()
    assert done.returncode == 2


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """So `~` is that of the account, and not the root of the file system."""
    monkeypatch.setenv("HOME", "")
    drop_blank_home()
    assert "HOME" not in os.environ
    monkeypatch.setenv("HOME", "/home/ada")
    drop_blank_home()
    assert os.environ["HOME"] == "/home/ada"


@pytest.mark.slow
async def test_the_settings_of_the_form_are_in_force(unpacked: Path, tmp_path: Path) -> None:
    """A named file, an agent whose policy forbids a tool, and a short list."""
    home = tmp_path / "home"
    named = configured(tmp_path / "my files" / "mine.json", policies="rules")
    rules = named.parent / "rules" / "agents.yaml"
    rules.parent.mkdir()
    rules.write_text("agents:\n  desk:\n    allow: ['box.*']\n    deny: ['box.t0*']\n")
    async with started(unpacked, home, config=named, agent="desk", expose="search") as host:
        await host.begin()
        assert "search_tools" in await host.names()
        told = await host.ask("tools/call", name="search_tools", arguments={"query": "box"})
        assert "box" in json.dumps(told)
    assert not (home / ".config" / "aggregator").exists(), "a named file is enough"
