"""Programs of servers that end for a fault of the machine: each is named in one sentence, with its mend.

The words are those of the programs themselves: npm 10, uv 0.13, Node.js 14 to 20, CPython 3.11, Docker 27.
"""

import json
import os
import sys
from typing import Final, NamedTuple

import pytest

from aggregator.domain.program_causes import program_cause
from tests import ON_WINDOWS
from tests.doctor.place import Json, Place
from tests.end_to_end.server_harness import ROOT


class EndedProgram(NamedTuple):
    """`words` are the last lines of a program on stderr; `sentence` and `mend` are parts of what is said."""

    name: str
    words: str
    code: str
    sentence: str
    mend: str


ENDED: Final = (
    EndedProgram(
        "docker-denied",
        "docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "server_docker",
        "your user may not use Docker",
        "the group `docker`",
    ),
    EndedProgram(
        "docker-windows",
        "docker: failed to connect to the docker API at npipe:////./pipe/dockerDesktopLinuxEngine; check if the path "
        "is correct and if the daemon is running",
        "server_docker",
        "the Docker daemon does not answer",
        "Start Docker",
    ),
    EndedProgram(
        "docker-image",
        "Unable to find image 'mcp/boxx:latest' locally\ndocker: Error response from daemon: pull access denied for "
        "mcp/boxx, repository does not exist or may require 'docker login'",
        "server_docker",
        "no image mcp/boxx",
        "docker login",
    ),
    EndedProgram(
        "node-options",
        "node:internal/modules/cjs/loader:1210\n  throw err;\nError: Cannot find module '/no/such/hook.js'\n"
        "Require stack:\n- internal/preload\n    at Module._load (node:internal/modules/cjs/loader:1051:27)\n"
        "  code: 'MODULE_NOT_FOUND',\n  requireStack: [ 'internal/preload' ]\n}\n\nNode.js v20.20.2",
        "server_environment",
        "NODE_OPTIONS",
        "Correct NODE_OPTIONS",
    ),
    EndedProgram(
        "python-home",
        "Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding\n"
        "ModuleNotFoundError: No module named 'encodings'",
        "server_environment",
        "its own library",
        "PYTHONHOME",
    ),
    EndedProgram(
        "of-mcp-1",
        "Traceback (most recent call last):\n    from mcp.shared.exceptions import McpError\n"
        "ImportError: cannot import name 'McpError' from 'mcp.shared.exceptions' "
        "(/x/lib/python3.11/site-packages/mcp/shared/exceptions.py)",
        "server_environment",
        "written for version 1 of the Python library `mcp`",
        "`--with` and `mcp<2`",
    ),
    EndedProgram(
        "of-mcp-1-decorators",
        "Traceback (most recent call last):\n    @server.list_tools()\n     ^^^^^^^^^^^^^^^^^\n"
        "AttributeError: 'Server' object has no attribute 'list_tools'",
        "server_environment",
        "written for version 1 of the Python library `mcp`",
        "`--with` and `mcp<2`",
    ),
    EndedProgram(
        "of-mcp-1-fastmcp",
        "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x, where FastMCP was renamed to "
        "MCPServer (from mcp.server.mcpserver import MCPServer) and other APIs changed",
        "server_environment",
        "written for version 1 of the Python library `mcp`",
        "`--with` and `mcp<2`",
    ),
    EndedProgram(
        "of-mcp-2",
        "ModuleNotFoundError: No module named 'mcp.server.mcpserver'",
        "server_environment",
        "written for version 2 of the Python library `mcp`",
        "`--with` and `mcp>=2`",
    ),
    EndedProgram(
        "python-path",
        "Traceback (most recent call last):\nAttributeError: module 'json' has no attribute 'loads'",
        "server_environment",
        "another module json",
        "PYTHONPATH",
    ),
    EndedProgram(
        "uv-read-only",
        "error: Failed to initialize cache at `/ro/cache`\n  Caused by: failed to create directory `/ro/cache`: "
        "Read-only file system (os error 30)",
        "server_environment",
        "read-only",
        "UV_CACHE_DIR",
    ),
    EndedProgram(
        "uv-disk-full",
        "error: Failed to inspect Python interpreter from first executable in the search path at `/usr/bin/python`\n"
        "  Caused by: failed to write to file `/c/x.py`: No space left on device (os error 28)",
        "server_environment",
        "is full",
        "Make room",
    ),
    EndedProgram(
        "uv-index",
        "error: Request failed after 3 retries\n  Caused by: Failed to fetch: `http://127.0.0.1:9/simple/x/`\n"
        "  Caused by: tcp connect error\n  Caused by: Connection refused (os error 111)",
        "server_environment",
        "registry",
        "UV_DEFAULT_INDEX",
    ),
    EndedProgram(
        "npm-registry",
        "npm error code ECONNREFUSED\nnpm error network request to http://127.0.0.1:9/x failed",
        "server_environment",
        "registry",
        "NPM_CONFIG_REGISTRY",
    ),
    EndedProgram(
        "npm-cache",
        "npm error code EACCES\nnpm error syscall open\nnpm error errno EACCES\nnpm error Your cache folder contains "
        "root-owned files",
        "server_environment",
        "may not read or write",
        "icacls FILE /reset" if ON_WINDOWS else "sudo chown -R $USER ~/.npm",
    ),
    EndedProgram(
        "npm-cache-read-only",
        "npm error code ENOENT\nnpm error syscall mkdir\nnpm error path /ro/cache\nnpm error Log files were not "
        "written due to an error writing to the directory: /ro/cache/_logs\nnpm error You can rerun the command with "
        "`--loglevel=verbose` to see the logs in your terminal",
        "server_environment",
        "npm cannot write its cache (/ro/cache/_logs)",
        "NPM_CONFIG_CACHE",
    ),
    EndedProgram(
        "certificate",
        "error: Request failed\n  Caused by: invalid peer certificate: UnknownIssuer",
        "server_environment",
        "certificate",
        "SSL_CERT_FILE",
    ),
    EndedProgram(
        "clock",
        "npm error code CERT_NOT_YET_VALID\nnpm error certificate is not yet valid",
        "server_environment",
        "certificate",
        "the date of this machine",
    ),
    EndedProgram(
        "port",
        "Error: listen EADDRINUSE: address already in use 127.0.0.1:3000\n    at Server.setupListenHandle",
        "server_environment",
        "a port of its own is in use",
        "another port",
    ),
    EndedProgram(
        "library",
        "boxrun: error while loading shared libraries: libssl.so.1.1: cannot open shared object file",
        "server_environment",
        "the library libssl.so.1.1 is missing",
        "Install that library",
    ),
    EndedProgram(
        "old-system",
        "boxrun: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by boxrun)",
        "server_environment",
        "GLIBC_2.38",
        "in a container",
    ),
    EndedProgram(
        "old-node",
        "file:///x/index.js:3\nTypeError: Object.hasOwn is not a function\n    at file:///x/index.js:3:8\n\n"
        "Node.js v14.21.3",
        "server_node_version",
        "another version of Node.js",
        "current Node.js",
    ),
    EndedProgram(
        "old-python",
        "ERROR: Package 'mcp-x' requires a different Python: 3.9.2 not in '>=3.10'",
        "server_environment",
        "another version of Python",
        "uvx --python",
    ),
    EndedProgram(
        "script",
        "/usr/bin/python: can't open file '/gone/server.py': [Errno 2] No such file or directory",
        "server_module_missing",
        "/gone/server.py",
        "Correct that path",
    ),
    EndedProgram(
        "node-script",
        "Error: Cannot find module '/gone/server.js'\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\n"
        "Node.js v20.20.2",
        "server_module_missing",
        "/gone/server.js",
        "Correct that path",
    ),
    EndedProgram(
        "variable",
        "Error: BRAVE_API_KEY environment variable is required",
        "server_environment",
        "lacks the variable BRAVE_API_KEY",
        "Write BRAVE_API_KEY under `env`",
    ),
    EndedProgram(
        "python-variable",
        "  File \"<frozen os>\", line 679, in __getitem__\nKeyError: 'SLACK_BOT_TOKEN'",
        "server_environment",
        "lacks the variable SLACK_BOT_TOKEN",
        "Write SLACK_BOT_TOKEN under `env`",
    ),
    EndedProgram(
        "fetch",
        "Fatal error in main(): Error: Failed to initialize component example tool: fetch failed\n"
        "    at Object.ctx (file:///x/dist/stdio.js:364:13)",
        "server_environment",
        "an address that it needs to start does not answer",
        "HTTPS_PROXY",
    ),
    EndedProgram(
        "python-address",
        "httpx.ConnectError: [Errno -3] Temporary failure in name resolution",
        "server_environment",
        "an address that it needs to start does not answer",
        "HTTPS_PROXY",
    ),
)


@pytest.mark.parametrize(
    "words",
    [
        "TypeError: x.foo is not a function\n    at file:///x/index.js:3:8\n\nNode.js v22.11.0",
        "panic: no database",
        "Error: 401 Unauthorized: the ERR_INVALID_TOKEN is set",
        "",
    ],
)
def test_other_ends_have_no_cause(words: str) -> None:
    assert program_cause(words.split("\n")) is None


def test_a_name_that_a_program_tells_is_cut_and_safe_for_a_terminal() -> None:
    cause = program_cause([f"can't open file '\x1b[31m{'x' * 5_000}'"])
    assert cause is not None
    assert cause.sentence.isprintable()
    assert len(cause.sentence) < 300


@pytest.mark.slow
async def test_each_is_named_by_doctor_and_check(place: Place) -> None:
    """E9: One examination of all of them; every finding has the cause and its mend, and so has the line of `check`."""
    named: dict[str, Json] = {one.name: place.server("--die", one.words) for one in ENDED}
    named["killed"] = {"command": "sh", "args": ["-c", "kill -9 $$"]}
    named["for-windows"] = {"command": "npx-of-mine.cmd", "args": []}
    named["not-a-program"] = {"command": str(place.program("wrong", b"\x7fELF\x02\x01\x01" + bytes(80)))}
    named["moved"] = {"command": str(place.program("moved", "#!/no/such/venv/bin/python\n"))}
    place.configure(named)
    report = (await place.examine("--timeout", "60")).report
    of_servers = [one for one in report["findings"] if one["code"].startswith("server_")]
    killed = EndedProgram("killed", "", "server_crashes", "want of memory", "limits.memory")
    theirs = "Install it" if ON_WINDOWS else "This entry is for Windows"
    windows = EndedProgram("for-windows", "", "server_command_missing", "npx-of-mine.cmd", theirs)
    wrong = EndedProgram("not-a-program", "", "server_command_missing", "is not a program", "processor")
    moved = EndedProgram("moved", "", "server_command_missing", "interpreter", "virtual environment")
    for one in (*ENDED, killed, windows, wrong, moved):
        (finding,) = [found for found in of_servers if found["message"].startswith(f"{one.name}: ")]
        assert (finding["code"], finding["severity"]) == (one.code, "error"), finding
        assert one.sentence in finding["message"].partition("Its last words")[0], finding
        assert one.mend in finding["fix"], finding
    checked = json.loads((await place.aggregator("check", "--json")).out)
    mends = {row["server"]: row["mend"] for row in checked["servers"]}
    for one in ENDED:
        assert one.sentence in mends[one.name]
        assert one.mend in mends[one.name]
    assert mends["killed"] is None


@pytest.mark.slow
async def test_a_program_that_fetches_in_silence_is_told_of_its_registry(place: Place) -> None:
    """npm tries again for a minute before it says a word."""
    words = " ".join([sys.executable, *place.server("--silent")["args"]])
    place.program("npx", f"#!/bin/sh\nexec {words}\n")
    place.configure({"box": {"command": "npx", "args": ["-y", "box"], "limits": {"connect_timeout": 1}}})
    finding = (await place.examine("--timeout", "8")).of("server_hangs")
    assert finding["fix"].endswith(
        "look at the network, the proxy (HTTPS_PROXY) and the address of the registry (NPM_CONFIG_REGISTRY)."
    )


@pytest.mark.slow
@pytest.mark.skipif(ON_WINDOWS, reason="PATH is the same for a shell and for a host there")
async def test_a_program_in_a_usual_folder_is_named_with_its_path(place: Place) -> None:
    """A shell without the lines of nvm, which `aggregator stdio` makes up for."""
    words = " ".join([sys.executable, *place.server()["args"]])
    path = place.write(place.home / ".nvm/versions/node/v22.1.0/bin/npx-of-mine", f"#!/bin/sh\nexec {words}\n")
    path.chmod(0o755)
    place.configure({"box": {"command": "npx-of-mine"}})
    finding = (await place.examine()).of("server_command_missing")
    assert f'"command": "{path}"' in finding["fix"]
    place.configure({"box": {"command": str(path)}})
    assert "server_command_missing" not in (await place.examine()).codes


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
async def test_a_proxy_that_only_programs_use_is_offered(place: Place, variable: str) -> None:
    place.env |= {variable: "http://127.0.0.1:9"}
    place.configure({"far": {"type": "http", "url": "https://mcp.invalid/mcp"}})
    finding = (await place.examine()).of("server_unreachable")
    assert f'"proxy": "${{{variable}}}"' in finding["fix"]
    entry = {"type": "http", "url": "https://mcp.invalid/mcp", "proxy": f"${{{variable}}}"}
    place.configure({"far": entry})
    finding = (await place.examine()).of("server_unreachable")
    assert "into its entry" not in finding["fix"]


@pytest.mark.skipif(os.name != "posix", reason="a folder in use cannot be removed on Windows")
async def test_a_working_folder_that_was_removed_is_told(place: Place) -> None:
    place.configure()
    gone = place.home / "gone"
    gone.mkdir()
    words = f'rmdir "{gone}" && exec "{sys.executable}" -m aggregator doctor --no-connect'
    process = await place.start("sh", "-c", f'cd "{gone}" && {words}')
    assert process.stderr is not None
    assert (await process.stderr.read()).startswith(b"aggregator: The working folder does not exist any more. Go to")


async def test_a_module_of_pythonpath_that_hides_one_of_ours_is_told(place: Place) -> None:
    place.configure()
    folder = place.write(place.home / "lib" / "typing.py", "x = 1\n").parent
    place.env["PYTHONPATH"] = os.pathsep.join((str(folder), str(ROOT)))
    process = await place.start(sys.executable, "-m", "aggregator", "doctor", "--no-connect")
    assert process.stderr is not None
    said = (await process.stderr.read()).decode()
    assert said.startswith("aggregator: ")
    assert f"PYTHONPATH has {folder}" in said
    assert "Traceback" not in said
