"""`aggregator add` as it is typed: what is shown, tried and written, and what is not."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from aggregator.app.build import build_app
from aggregator.app.catalog_sync import fingerprint
from aggregator.cli.servers.adding.hints import hint
from aggregator.config.load import load
from aggregator.domain.principal import LOCAL
from aggregator.domain.shell import shell_line, shell_word
from aggregator.domain.versions import LATEST_LEGACY
from aggregator.gateway.host import Host
from aggregator.pins.decide.upgrade import ADDS_TOOLS, SHOW_NEW
from aggregator.storage.database import open_database
from tests.adding.bundles import bundle, files_in, manifest, node_bundle
from tests.adding.descriptions import NPM, server
from tests.adding.registry import FakeRegistry, fake_registry
from tests.doctor.place import SERVER
from tests.end_to_end.programs import ProgramResult, run
from tests.end_to_end.server_harness import ROOT
from tests.peers.back_channel import FakeBackChannel
from tests.peers.sdk import build
from tests.peers.serving import serving
from tests.polling import until

CANARY = "sk-canary-8f3a9c1d2e7b"
# A server that fails, and says why.
DYING = ("--", sys.executable, "-c", "import sys; sys.exit('no licence found')")
BOX_PROGRAM = f"cd {ROOT} && exec {sys.executable} -m tests.peers.raw"
BOX = ("--cwd", str(ROOT), "--", sys.executable, "-m", "tests.peers.raw")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration as people write it."""
    path = tmp_path / "aggregator.json"
    path.write_text(
        '{\n  // mine\n  "mcpServers": {\n    "off": {"command": "x", "enabled": false}, // later\n  },\n}\n'
    )
    return path


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with fake_registry() as made:
        yield made


async def add(config: Path, *args: str, stdin: bytes = b"", **more: str) -> ProgramResult:
    folder = config.parent
    homes = {name: str(folder / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    bin_folder = folder / "bin"
    if not bin_folder.exists():
        put_program(bin_folder / "npm", """echo '{"name": "it"}'""")
    more.setdefault("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    at = args.index("--") if "--" in args else len(args)
    options = ("--config", str(config))
    return await run("add", *args[:at], *options, *args[at:], cwd=folder, stdin=stdin, **homes, **more)


def entries(config: Path) -> dict[str, Any]:
    """The servers in a file, read as JSON with its comments taken out."""
    text = "\n".join(line.partition(" //")[0].rstrip() for line in config.read_text().splitlines())
    plain = text.replace(",\n  }", "\n  }").replace(",\n}", "\n}").replace("  // mine\n", "")
    found: dict[str, Any] = json.loads(plain)["mcpServers"]
    return found


def put_program(path: Path, script: str) -> None:
    """Put a program of these lines of shell somewhere."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def text(path: Path) -> str:
    return path.read_text()


def put(path: Path, content: str) -> None:
    path.write_text(content)


def growing(when: str) -> tuple[str, ...]:
    """The words of a server that adds a tool while it runs."""
    return ("--", sys.executable, str(SERVER), "--grows", when)


async def test_a_server_that_adds_tools_is_proposed_on_new(config: Path) -> None:
    """2 of issue 32's first part: seen in the trial, or kept of the same entry; not if new tools are shown anyway."""
    proposed = f"box {ADDS_TOOLS}: {SHOW_NEW}."
    assert '`"on_new": "show"`' in SHOW_NEW
    assert proposed in (await add(config, "box", *growing("list"))).out.splitlines()
    first = await add(config, "box", "--replace", *growing("call"))
    assert (first.code, proposed in first.out) == (0, False)
    storage = f"sqlite:///{config.parent / 'home' / 'aggregator' / 'aggregator.db'}"
    loaded = load(config, {})
    app = build_app(loaded.config, loaded.policies, storage, keeps_records=True)
    host = Host("cli", "canonical", LOCAL, version=LATEST_LEGACY)
    async with app.running():
        await app.gateway.answer(host, "tools/call", {"name": "box.tool_0", "arguments": {}}, FakeBackChannel())
        async with open_database(storage) as database:
            of = [fingerprint(app.upstreams["box"].config)]
            await until(lambda: database.catalogs.habits(of), "it is kept")
    again = await add(config, "box", "--replace", "--json", *growing("call"))
    assert json.loads(again.out)["trial"]["adds_tools"] is True
    other = await add(config, "bix", *growing("call"))
    assert (other.code, ADDS_TOOLS in other.out) == (0, False)


async def test_a_command_is_tried_and_written_into_the_file_as_it_was(config: Path) -> None:
    before = text(config)
    ended = await add(config, "box", "--env", "COLOUR=red", *BOX)
    assert ended.code == 0, ended
    said = ended.out.splitlines()
    assert said[0] == f"box: starts: {sys.executable} -m tests.peers.raw"
    assert any(line.startswith("box connected in") for line in said)
    assert any(line.startswith("box.echo ") and line.split()[1].isdigit() for line in said)
    assert 'tokens in every list; with "expose": "search" all servers together cost about' in ended.out
    assert entries(config)["box"] == {
        "command": sys.executable,
        "args": ["-m", "tests.peers.raw"],
        "env": {"COLOUR": "red"},
        "cwd": str(ROOT),
    }
    assert "// mine" in text(config)
    assert "// later" in text(config)
    assert text(config.parent / "aggregator.json.bak") == before


async def test_the_costs_are_those_of_the_list(config: Path) -> None:
    """What is told is the estimate that `expose: auto` decides by."""
    ended = await add(config, "box", "--json", *BOX)
    trial = json.loads(ended.out)["trial"]
    assert trial["tokens"] == sum(tool["tokens"] for tool in trial["tools"]) > 0
    assert {"box.echo"} <= {tool["name"] for tool in trial["tools"]}
    assert 100 < trial["search_tokens"] < 1_000
    assert trial["problem"] is None


@pytest.fixture(params=["search", "code"])
def expose(request: pytest.FixtureRequest, config: Path) -> str:
    config.write_text(json.dumps({"expose": request.param, "mcpServers": {}}))
    return str(request.param)


async def test_the_costs_are_none_where_the_list_holds_no_tools(config: Path, expose: str) -> None:
    said = (await add(config, "box", *BOX)).out
    assert f"in every list that shows them all; with `expose: {expose}`, as here, they add nothing to a list." in said


async def test_the_users_own_file_is_made(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    ended = await run("add", "box", *BOX, cwd=tmp_path, HOME=home, XDG_CONFIG_HOME=home, XDG_DATA_HOME=home)
    assert ended.code == 0, ended
    made = tmp_path / "home" / "aggregator" / "aggregator.json"
    assert list(json.loads(made.read_text())["mcpServers"]) == ["box"]


async def test_what_does_not_connect_is_not_written(config: Path) -> None:
    before = text(config)
    ended = await add(config, "bad", *DYING)
    assert ended.code == 1
    assert "bad did not connect" in ended.out
    assert "its stderr: no licence found" in ended.out
    assert "Nothing was written" in ended.out
    assert text(config) == before
    ended = await add(config, "bad", "--anyway", *DYING)
    assert ended.code == 0
    assert "bad" in entries(config)


async def test_a_known_cause_is_told_with_its_mend(config: Path) -> None:
    """7 of issue 32: a server of version 1 of the Python SDK, which a new environment gives version 2."""
    words = "AttributeError: 'Server' object has no attribute 'list_tools'"
    old = ("--", sys.executable, "-c", f"import sys; sys.exit({words!r})")
    ended = await add(config, "old", *old)
    assert "old: it was written for version 1 of the Python library `mcp`, and gets version 2. " in ended.out
    shown = json.loads((await add(config, "old", "--json", *old)).out)
    assert "`--with` and `mcp<2`" in shown["trial"]["mend"]
    assert json.loads((await add(config, "bad", "--json", *DYING)).out)["trial"]["mend"] is None


async def test_a_program_that_says_nothing_has_a_time_limit(config: Path) -> None:
    silent = ("--", sys.executable, "-c", "import sys; print('booting', file=sys.stderr, flush=True); sys.stdin.read()")
    ended = await add(config, "slow", "--timeout", "1s", *silent)
    assert ended.code == 1
    assert "did not answer within 1 s" in ended.out
    assert "its stderr: booting" in ended.out


async def test_nothing_is_started_without_a_trial(config: Path) -> None:
    marker = config.parent / "started"
    program = ("--", sys.executable, "-c", f"open({str(marker)!r}, 'w')")
    ended = await add(config, "quiet", "--no-connect", "--disabled", *program)
    assert ended.code == 0
    assert not marker.exists()
    assert entries(config)["quiet"]["enabled"] is False


async def test_a_switched_off_server_is_tried_all_the_same(config: Path) -> None:
    ended = await add(config, "box", "--disabled", *BOX)
    assert ended.code == 0
    assert "box connected" in ended.out
    assert entries(config)["box"]["enabled"] is False


async def test_an_existing_name(config: Path) -> None:
    ended = await add(config, "off", *BOX)
    assert ended.code == 2
    assert "has a server 'off' already" in ended.err
    ended = await add(config, "off", "--replace", "--no-connect", *BOX)
    assert ended.code == 0
    assert entries(config)["off"]["command"] == sys.executable
    put(config, '{"mcpServers": {"of f": {"command": "x"}}}')
    ended = await add(config, "of-f", "--no-connect", *BOX)
    assert ended.code == 2
    assert "The name `of-f` is already that of" in ended.err


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((), "Write `aggregator add NAME"),
        (("x",), "The command or the address of x is missing. Write `aggregator add NAME"),
        (("x", "https://a.example.com", "more"), "takes no arguments"),
        (
            ("https://mcp.acme.example/mcp?token=hidden",),
            "A name for the server is missing. Write `aggregator add acme URL`",
        ),
        (("https://a.example.com", "x"), "Write `aggregator add a URL`"),
        (("http://127.0.0.1:8000/mcp", "x"), "Write `aggregator add NAME URL`"),
        (("https://[::1", "x"), "Write `aggregator add NAME URL`"),
        (("https://github.com/acme/server",), "not the address of a server"),
        (("https://www.npmjs.com/package/@acme/mcp-tin",), "Write `aggregator add --from npm:@acme/mcp-tin`"),
        (("https://pypi.org/project/tin/",), "Write `aggregator add --from pypi:tin`"),
        (("https://hub.docker.com/r/mcp/tin",), "Write `aggregator add --from oci:mcp/tin`"),
        (("https://pypi.org/search/?q=tin",), "Write `aggregator add pypi URL`"),
        (("@acme/tin",), "Write `aggregator add --from npm:@acme/tin`"),
        (("npm:@acme/tin",), "Write `aggregator add --from npm:@acme/tin`"),
        (("io.github.acme/tin",), "Write `aggregator add --from io.github.acme/tin`"),
        (("tin.mcpb",), "Write `aggregator add --from tin.mcpb`"),
        (("npx", "-y", "@acme/mcp-server-tin"), "Write `aggregator add tin -- npx -y @acme/mcp-server-tin`"),
        (("npx", "--", "-y", "@acme/tin@1.2", "hidden"), "Write `aggregator add tin -- npx -y @acme/tin@1.2 ...`"),
        (("docker", "--", "run", "-i", "mcp/tin"), "Write `aggregator add tin -- docker run -i --rm mcp/tin`"),
        (("node", "tin/index.js"), "Write `aggregator add NAME -- node tin/index.js`"),
        (("uvx", "token=hidden"), "Write `aggregator add NAME -- uvx ...`"),
        (("tin", "uvx", "tin", "--deep"), "Options of a server's program stand after `--`"),
        (("tin", "--deep", "--", "uvx", "tin"), "No such option: --deep (Possible options"),
        (("//x", "--", "y"), "cannot be a server's name: use letters, digits, `_` and `-`."),
        (("!?", "--", "y"), "'!?' cannot be a server's name: use letters, digits, `_` and `-`."),
        (("_box", "--", "y"), "'_box' cannot be a server's name: use letters, digits, `_` and `-`."),
        (("my box", "--", "y"), "names of tools cannot hold it. Write my-box."),
        (("x", "--header", "A: b", "--", "y"), "--header has no effect on a program"),
        (("x", "--set", "A=b", "--", "y"), "--set has no effect"),
        (("x", "https://a.example.com", "--env", "A=b"), "--env has no effect on a server at an address"),
        (("x", "https://a.example.com", "--type", "tin-can"), "--type 'tin-can' is not known"),
        (("x", "--timeout", "soon", "--", "y"), "--timeout is not a duration"),
        (("x", "--env", "=b", "--", "y"), "has no name that can be used"),
        (("x", "http://exa mple.com/"), "space"),
        (("--from", "what"), "nothing that --from knows"),
        (("--from", "npm:--evil"), "not the name of a npm package"),
        (("--from", "npm:x", "--set", "a=b"), "does not ask for 'a'"),
        (("--from", "none.mcpb"), "No such file"),
        (("--from", "none.json"), "There is no file"),
        (("--from", "npm:x", "--use", "tin"), "Add --yes"),
    ],
)
async def test_requests_that_cannot_be_used(config: Path, args: tuple[str, ...], why: str) -> None:
    before = text(config)
    ended = await add(config, *args)
    assert ended.code in (1, 2)
    assert why in ended.err + ended.out
    assert "Traceback" not in ended.err
    assert "hidden" not in ended.err
    assert text(config) == before


async def test_a_package_is_not_started_before_a_yes(config: Path) -> None:
    before = text(config)
    put_program(config.parent / "bin" / "npx", f"echo started > {config.parent}/started; exit 1")
    put_program(config.parent / "bin" / "npm", """echo '{"name": "@example/evil"}'""")
    ended = await add(config, "--from", "npm:@example/evil", "--", "first")
    # `--` without a name before it: the first word is the name.
    assert ended.out.startswith(f"first: starts: npx -y {shell_word('@example/evil')}\n")
    assert ended.code == 1
    assert "Nothing was started and nothing was written. Add --yes to go on." in ended.out
    assert not (config.parent / "started").exists()
    assert text(config) == before
    ended = await add(config, "it", "--from", "npm:@example/evil", "--yes", "--", "; touch x")
    assert f"starts: {shell_line(['npx', '-y', '@example/evil', '; touch x'])}" in ended.out
    assert (config.parent / "started").exists()
    assert not (config.parent / "x").exists()


async def test_an_address_with_headers(config: Path) -> None:
    async with serving(build().streamable_http_app()) as address:
        ended = await add(
            config, "web", f"{address}/mcp", "--header", f"Authorization: Bearer {CANARY}", "--type", "http"
        )
    assert ended.code == 0, ended
    assert "web connected" in ended.out
    assert CANARY not in ended.out + ended.err
    assert {stat.S_IMODE(file.stat().st_mode) for file in config.parent.glob("aggregator.json*")} == {0o600}
    assert "header Authorization looks like a secret and stands in" in ended.out
    assert entries(config)["web"] == {
        "type": "http",
        "url": f"{address}/mcp",
        "headers": {"Authorization": f"Bearer {CANARY}"},
    }


@pytest.mark.parametrize(
    "args",
    [
        ("--env", f"API_TOKEN={CANARY}", *DYING),
        ("--env", f"PLAIN={CANARY}", *DYING),
        ("--", sys.executable, "-c", "raise SystemExit(1)", "--api-key", CANARY),
        ("--", sys.executable, "-c", "raise SystemExit(1)", f"--token={CANARY}"),
        (
            "--env",
            f"API_TOKEN={CANARY}",
            "--",
            sys.executable,
            "-c",
            "import os; raise SystemExit(os.environ['API_TOKEN'])",
        ),
        (f"http://127.0.0.1:9/mcp?api_key={CANARY}",),
        (f"http://me:{CANARY}@127.0.0.1:9/mcp",),
        ("http://127.0.0.1:9/mcp", "--header", f"X-Api-Key={CANARY}"),
        ("https://exa mple.com/", "--header", f"X-Api-Key={CANARY}"),
    ],
    ids=["env", "plain-env", "flag", "assigned", "echoed", "query", "login", "header", "faulty"],
)
@pytest.mark.parametrize("form", [(), ("--json",), ("--anyway",)], ids=["text", "json", "anyway"])
async def test_no_secret_is_printed(config: Path, args: tuple[str, ...], form: tuple[str, ...]) -> None:
    ended = await add(config, "it", *form, *args)
    assert CANARY not in ended.out + ended.err


async def test_references_stay_references(config: Path) -> None:
    ended = await add(config, "box", "--env", "TOKEN", "--env", "OTHER=${WHERE:-there}", *BOX, TOKEN=CANARY)
    assert ended.code == 0
    assert entries(config)["box"]["env"] == {"TOKEN": "${TOKEN}", "OTHER": "${WHERE:-there}"}
    assert CANARY not in ended.out + ended.err
    assert "in the clear" not in ended.out


async def test_a_variable_that_is_not_set_is_named(config: Path) -> None:
    ended = await add(config, "web", "https://mcp.example.com/mcp", "--header", "Authorization: Bearer ${NOT_SET_HERE}")
    assert ended.code == 0
    assert "Set NOT_SET_HERE before the gateway starts" in ended.out
    assert entries(config)["web"]["headers"] == {"Authorization": "Bearer ${NOT_SET_HERE}"}


async def test_policies_are_told(config: Path) -> None:
    folder = config.parent / "policies"
    folder.mkdir()
    policy = {
        "agents": {
            "reader": {"allow": ["box.echo"]},
            "owner": {"allow": ["box.*"]},
            "guest": {"allow": ["other.*"]},
        },
    }
    (folder / "all.yaml").write_text(json.dumps(policy))
    ended = await add(config, "box", *BOX)
    lines = {line for line in ended.out.splitlines() if line.startswith("policies, ")}
    assert "policies, owner: all allowed" in lines
    assert "policies, guest: none" in lines
    assert any(line.startswith("policies, reader: 1 allowed of ") for line in lines)
    (folder / "all.yaml").write_text("agents: [")
    ended = await add(config, "again", *BOX)
    assert ended.code == 0
    assert "the policy files have errors" in ended.out


async def test_a_server_of_a_registry(config: Path, registry: FakeRegistry) -> None:
    """The whole of it: looked up, shown, answered, tried, written."""
    package = {
        "registryType": "pypi",
        "identifier": "box-server",
        "version": "1.0",
        "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "BOX_KEY", "isRequired": True, "isSecret": True, "description": "Its key"}],
    }
    registry.add(server(package, name="io.github.example/box-mcp"))
    put(config, json.dumps({"mcpServers": {}, "registry": registry.address}))
    put_program(config.parent / "bin" / "uvx", BOX_PROGRAM)
    ended = await add(config, "--from", "io.github.example/box-mcp")
    assert ended.code == 1
    assert ended.out.startswith("box: starts: uvx box-server@1.0\n")
    assert "needs the variable BOX_KEY: Its key. Set BOX_KEY, or give --set BOX_KEY=VALUE." in ended.out
    ended = await add(config, "--from", "io.github.example/box-mcp", "--yes", BOX_KEY=CANARY)
    assert ended.code == 0, ended
    assert "It gets BOX_KEY, which is set here" in ended.out
    assert "box connected" in ended.out
    assert CANARY not in ended.out + ended.err
    assert json.loads(text(config))["mcpServers"]["box"] == {
        "command": "uvx",
        "args": ["box-server@1.0"],
        "env": {"BOX_KEY": "${BOX_KEY}"},
        "description": "Weather of all places",
    }
    said = ("--set", f"BOX_KEY={CANARY}", "--no-connect", "--yes")
    ended = await add(config, "two", "--from", "io.github.example/box-mcp", *said)
    assert CANARY not in ended.out + ended.err
    assert "BOX_KEY looks like a secret" in ended.out


async def test_a_package_that_names_its_description(config: Path, registry: FakeRegistry) -> None:
    """What npm says of a package leads to its description, if that names the package in turn."""
    key = {"name": "BOX_KEY", "isRequired": True, "isSecret": True}
    registry.add(server({**NPM, "identifier": "@example/box", "environmentVariables": [key]}))
    put(config, json.dumps({"mcpServers": {}, "registry": registry.address}))
    put_program(config.parent / "bin" / "npx", BOX_PROGRAM)
    carried = {"name": "@example/box", "version": "1.2.3", "mcpName": "io.github.example/weather"}
    put_program(config.parent / "bin" / "npm", f"echo '{json.dumps(carried)}'")
    ended = await add(config, "box", "--from", "npm:@example/box", "--yes", BOX_KEY="there")
    assert ended.code == 0, ended
    assert "What it needs is told by io.github.example/weather" in ended.out
    assert entries(config)["box"]["env"] == {"BOX_KEY": "${BOX_KEY}"}
    assert entries(config)["box"]["args"] == ["-y", "@example/box@1.2.3"]
    for source in ("npm:@example/box@1.0.0", "npm:@example/other"):
        ended = await add(config, "plain", "--replace", "--from", source, "--yes", "--no-connect")
        assert "env" not in entries(config)["plain"]
    registry.servers.clear()
    ended = await add(config, "plain", "--replace", "--from", "npm:@example/box", "--yes", "--no-connect")
    assert "whose description was not used: The registry" in ended.out


async def test_a_package_that_npm_does_not_know(config: Path) -> None:
    put_program(config.parent / "bin" / "npm", """echo '{"error": {"code": "E404"}}'; exit 1""")
    ended = await add(config, "--from", "npm:@example/none", "--yes")
    assert ended.code == 2
    assert "npm has no package @example/none. Is its name right?" in ended.err


async def test_a_registry_that_has_it_not(config: Path, registry: FakeRegistry) -> None:
    registry.add(server(remotes=[{"type": "sse", "url": "https://a.example.com"}]))
    put(config, json.dumps({"mcpServers": {}, "registry": registry.address}))
    ended = await add(config, "--from", "io.github.none/weather")
    assert ended.code == 2
    assert "has no io.github.none/weather. It has io.github.example/weather." in ended.err


@pytest.mark.parametrize("address", ["ftp://registry.example.com", 3, "${NOT_SET_HERE}", "https://a.example.com?x"])
async def test_a_registry_that_is_no_address_is_not_replaced_by_the_default(config: Path, address: object) -> None:
    put(config, json.dumps({"mcpServers": {}, "registry": address}))
    ended = await add(config, "--from", "io.github.example/weather")
    assert ended.code == 2
    assert "registry: " in ended.err
    assert "asking" not in ended.err
    assert "The default is used" not in ended.err


async def test_a_pipe_is_not_read(config: Path) -> None:
    os.mkfifo(config.parent / "server.json")
    ended = await add(config, "--from", "server.json")
    assert ended.code == 2
    assert "There is no file server.json" in ended.err


async def test_a_file_with_several_choices(config: Path) -> None:
    detail = server(
        {"registryType": "oci", "identifier": "a/weather", "transport": {"type": "stdio"}},
        remotes=[{"type": "sse", "url": "https://weather.example.com/sse"}],
    )
    file = config.parent / "server.json"
    file.write_text(json.dumps(detail))
    ended = await add(config, "--from", str(file), "--use", "remote", "--no-connect", "--yes")
    assert ended.code == 0, ended
    assert entries(config)["weather"]["url"] == "https://weather.example.com/sse"
    assert "Used is remote" in ended.out
    ended = await add(config, "--from", str(file), "--use", "npm")
    assert ended.code == 2
    assert "has nothing of the kind npm; it has oci, remote" in ended.err


async def test_each_kind_can_be_chosen(config: Path) -> None:
    """`--use` of every kind that a description can have; one that it has not is named as that, not as unknown."""
    names = {"npm": "@a/weather", "pypi": "weather", "oci": "a/weather", "nuget": "A.Weather"}
    stdio = {"transport": {"type": "stdio"}, "version": "1.0.0"}
    packages = [{"registryType": kind, "identifier": name, **stdio} for kind, name in names.items()]
    address = "https://weather.example.com/sse"
    file = config.parent / "server.json"
    file.write_text(json.dumps(server(*packages, remotes=[{"type": "sse", "url": address}])))
    for kind, name in {**names, "remote": address}.items():
        ended = await add(config, f"by-{kind}", "--from", str(file), "--use", kind, "--no-connect", "--yes")
        assert ended.code == 0, ended
        entry = entries(config)[f"by-{kind}"]
        assert name in str([entry.get("url"), *entry.get("args", [])])
    ended = await add(config, "--from", str(file), "--use", "mcpb")
    assert ended.code == 2
    assert "has nothing of the kind mcpb; it has npm, pypi, oci, nuget, remote" in ended.err


async def test_a_bundle_with_answers(config: Path) -> None:
    file = config.parent / "say.mcpb"
    file.write_bytes(bundle())
    bundles = config.parent / "home" / "aggregator" / "bundles"
    ended = await add(config, "--from", str(file), "--set", "folders=/a", "--set", "folders=/b")
    assert ended.code == 1
    assert not bundles.exists()
    answers = ("--set", "folders=/a", "--set", "folders=/b", "--set", "key=${SAY_KEY}", "--yes")
    ended = await add(config, "--from", str(file), *answers, SAY_KEY=CANARY)
    assert ended.code == 0, ended
    assert "The bundle is not signed." in ended.out
    assert "note: It is started without --word: word has no value." in ended.out
    assert "say-it.say" in ended.out
    folder = bundles / "say-it-1.0.0"
    assert "server/main.py" in files_in(folder)
    entry = entries(config)["say-it"]
    assert entry["args"] == [f"{folder}/server/main.py", "/a", "/b"]
    assert entry["env"] == {"BUNDLE_WORD": "${SAY_KEY}"}
    called = await run("call", "say-it.say", "--config", str(config), SAY_KEY="said")
    assert json.loads(called.out) == {"args": ["/a", "/b"], "env": "said", "cwd": str(folder)}


async def test_a_bundle_that_does_not_connect_leaves_nothing(config: Path) -> None:
    server_ = {"type": "python", "entry_point": "bad.py"}
    file = config.parent / "bad.mcpb"
    file.write_bytes(bundle(("bad.py", b"raise SystemExit('broken')"), server=server_))
    ended = await add(config, "--from", str(file), "--yes")
    assert ended.code == 1
    assert "its stderr: broken" in ended.out
    assert not files_in(config.parent / "home" / "aggregator" / "bundles")


async def test_two_bundles_of_one_name_and_version(config: Path) -> None:
    for name, more in (("one", b"1"), ("two", b"2")):
        file = config.parent / f"{name}.mcpb"
        file.write_bytes(bundle(("x", more)))
        options = ("--set", "folders=/a", "--yes", "--no-connect")
        assert (await add(config, name, "--from", str(file), *options)).code == 0
    one, two = (Path(entries(config)[name]["cwd"]) for name in ("one", "two"))
    assert (one / "x").read_bytes() + (two / "x").read_bytes() == b"12"
    home = str(config.parent / "home")
    ended = await run("remove", "one", "--config", str(config), HOME=home, XDG_DATA_HOME=home)
    assert f"Its bundle is still in {one}: delete that folder" in ended.out
    assert one.exists()


async def test_an_old_bundle_with_node(config: Path) -> None:
    file = config.parent / "say.dxt"
    file.write_bytes(node_bundle())
    ended = await add(config, "--from", str(file), "--yes")
    assert ended.code == 0, ended
    assert "node-say.say" in ended.out


async def test_a_bundle_that_a_description_names(config: Path, registry: FakeRegistry) -> None:
    content = bundle()
    registry.files["/say.mcpb"] = content
    package = {
        "registryType": "mcpb",
        "identifier": f"{registry.address}/say.mcpb",
        "fileSha256": sha256(content).hexdigest(),
        "transport": {"type": "stdio"},
    }
    file = config.parent / "server.json"
    file.write_text(json.dumps(server(package)))
    ended = await add(config, "--from", str(file), "--set", "folders=/a", "--yes")
    assert ended.code == 0, ended
    assert list(entries(config)) == ["off", "say-it"]
    registry.files["/say.mcpb"] = bundle(("x", b"another"))
    ended = await add(config, "again", "--from", str(file), "--set", "folders=/a", "--yes")
    assert ended.code == 2
    assert "its SHA-256 digest is another one" in ended.err


async def test_required_answers_of_a_bundle_become_variables(config: Path) -> None:
    file = config.parent / "say.mcpb"
    file.write_bytes(bundle(user_config=manifest()["user_config"]))
    ended = await add(config, "--from", str(file), "--yes", "--json")
    found = json.loads(ended.out)
    assert found["asked"] == [{"name": "folders", "variable": "FOLDERS"}]
    assert found["not_set"] == ["FOLDERS"]
    assert found["written"] is True
    assert found["trial"] is None
    assert entries(config)["say-it"]["args"][1:] == ["${FOLDERS}"]


async def test_a_running_gateway_takes_it_over(config: Path) -> None:
    """What `add` writes is a file that a reload reads without a problem."""
    assert (await add(config, "box", *BOX)).code == 0
    ended = await run("check", "--json", "--config", str(config))
    states = {row["server"]: row["state"] for row in json.loads(ended.out)["servers"]}
    assert states == {"off": "disabled", "box": "ready"}


async def test_the_edits_that_others_make_during_the_trial_stay(config: Path) -> None:
    other = '{"mcpServers": {"theirs": {"command": "x"}}}'
    script = f"open({str(config)!r}, 'w').write({other!r}); raise SystemExit(1)"
    ended = await add(config, "it", "--anyway", "--", sys.executable, "-c", script)
    assert ended.code == 0
    assert set(json.loads(text(config))["mcpServers"]) == {"theirs", "it"}


async def test_a_file_that_is_damaged_during_the_trial_is_left_alone(config: Path) -> None:
    script = f"open({str(config)!r}, 'w').write('{{'); raise SystemExit(1)"
    ended = await add(config, "it", "--anyway", "--", sys.executable, "-c", script)
    assert ended.code == 2
    assert text(config) == "{"


async def test_several_at_the_same_time_lose_no_entry(config: Path) -> None:
    names = [f"s{number}" for number in range(4)]
    ended = await asyncio.gather(*(add(config, name, "--no-connect", "--", "echo", name) for name in names))
    assert [one.code for one in ended] == [0] * 4, ended
    assert set(entries(config)) == {"off", *names}


async def test_of_two_with_one_name_the_second_is_refused(config: Path) -> None:
    ended = await asyncio.gather(*(add(config, "a", "--no-connect", "--", "echo", str(at)) for at in range(2)))
    assert sorted(one.code for one in ended) == [0, 2], ended
    refused = next(one for one in ended if one.code == 2)
    assert "has a server 'a' already" in refused.err


def test_a_server_may_have_the_name_of_a_program() -> None:
    """A hint is for a program in place of the name alone: what follows there is no address and no program."""
    assert hint(("docker", "https://a.example.com/mcp")) is None
    assert hint(("docker", sys.executable, "run")) is None
    assert hint(("docker", "run")) is not None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("docker -- -e A=canary mcp/time", "NAME -- docker run -i --rm ..."),
        ("docker -- run -i --rm mcp/time", "time -- docker run -i --rm mcp/time"),
        ("docker run --network host -e A mcp/time", "NAME -- docker run -i --rm ..."),
        ("npx -- -y server-time", "time -- npx -y server-time"),
        ("npx -y", "NAME -- npx -y ..."),
        ("uvx --with mcp<2 mcp-server-time", "NAME -- uvx ..."),
        ("python -m mcp_server_time", "time -- python -m mcp_server_time"),
        ("node --inspect x.js", "NAME -- node ..."),
        ("uv run server.py --fast", "NAME -- uv run server.py ..."),
        ("java -jar box.jar", "NAME -- java -jar box.jar"),
    ],
)
def test_a_program_in_place_of_the_name_is_shown_with_a_line_of_use(words: str, line: str) -> None:
    """An option is neither the name of a server nor the end of a command."""
    said = hint(tuple(words.split()))
    assert said is not None
    assert f"Write `aggregator add {line}`." in said
    assert "canary" not in said
