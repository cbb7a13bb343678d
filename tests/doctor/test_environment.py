"""What a desktop's environment lacks: twenty faults of four kinds, each named with its mend, and gone after it."""

import os
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from tests import ON_WINDOWS
from tests.doctor.place import Place

DESKTOP: Final = ("--host", "claude-desktop")
INSTALL: Final = "aggregator install claude-desktop --replace"


class Fault(NamedTuple):
    """Something that the shell has and a host that a desktop starts has not.

    `kind` groups the faults of one machine. `variable` is what a server needs. `folder`, in the home and on the shell's
    PATH, has the program of a server.
    """

    kind: str
    name: str
    code: str
    variable: str = "PATH"
    folder: str = ""
    value: str = ""


FAULTS: Final = (
    Fault("programs", "program of Go", "server_command_not_found", folder="go/bin"),
    Fault("programs", "program of n", "server_command_not_found", folder="n/bin"),
    Fault("programs", "program of conda", "server_command_not_found", folder="miniconda3/bin"),
    Fault("programs", "tool of NET", "server_command_not_found", folder=".dotnet/tools"),
    Fault("programs", "program of a virtual environment", "server_command_not_found", folder="work/.venv/bin"),
    Fault("certificates", "certificates for OpenSSL", "server_not_for_host", "SSL_CERT_FILE", value="/etc/ssl/own.pem"),
    Fault("certificates", "folder of certificates", "server_not_for_host", "SSL_CERT_DIR", value="/etc/ssl/own"),
    Fault(
        "certificates", "certificates for Python", "server_not_for_host", "REQUESTS_CA_BUNDLE", value="/etc/ssl/own.pem"
    ),
    Fault("certificates", "certificates for curl", "server_not_for_host", "CURL_CA_BUNDLE", value="/etc/ssl/own.pem"),
    Fault(
        "certificates",
        "certificates for Node.js",
        "server_not_for_host",
        "NODE_EXTRA_CA_CERTS",
        value="/etc/ssl/own.pem",
    ),
    Fault("proxies", "proxy", "server_not_for_host", "HTTP_PROXY", value="http://proxy.example:3128"),
    Fault("proxies", "proxy for TLS", "server_not_for_host", "HTTPS_PROXY", value="http://proxy.example:3128"),
    Fault("proxies", "proxy in small letters", "server_not_for_host", "http_proxy", value="http://proxy.example:3128"),
    Fault(
        "proxies",
        "proxy for TLS in small letters",
        "server_not_for_host",
        "https_proxy",
        value="http://proxy.example:3128",
    ),
    Fault("proxies", "exceptions of the proxy", "server_not_for_host", "NO_PROXY", value="localhost,127.0.0.1"),
    Fault(
        "packages", "index of uv", "server_not_for_host", "UV_DEFAULT_INDEX", value="https://packages.example/simple"
    ),
    Fault("packages", "index of pip", "server_not_for_host", "PIP_INDEX_URL", value="https://packages.example/simple"),
    Fault("packages", "certificates of pip", "server_not_for_host", "PIP_CERT", value="/etc/ssl/own.pem"),
    Fault(
        "packages",
        "registry of npm",
        "server_not_for_host",
        "NPM_CONFIG_REGISTRY",
        value="https://packages.example/npm",
    ),
    Fault("packages", "certificates of npm", "server_not_for_host", "NPM_CONFIG_CAFILE", value="/etc/ssl/own.pem"),
)


# On Windows no program is missing: PATH is the same for a shell and for a host there.
KINDS: Final = tuple(dict.fromkeys(fault.kind for fault in FAULTS))
# Folders that `aggregator stdio` looks in by itself.
USUAL: Final = (".local/bin", ".volta/bin", ".asdf/shims", ".nvm/versions/node/v22.11.0/bin", ".cargo/bin")


def _id(fault: Fault) -> str:
    return fault.name.lower().replace(" ", "-").replace(".", "")


def _seeded(place: Place, faults: Sequence[Fault]) -> None:
    """Make a machine with these faults: a server for each, and a shell in which all of them start."""
    servers, path = {}, []
    for at, fault in enumerate(faults):
        own = place.server("--needs", fault.variable)
        if fault.folder:
            folder, name = place.home / fault.folder, f"runner-{at}"
            folder.mkdir(parents=True, exist_ok=True)
            words = " ".join([str(own["command"]), *own["args"]])
            place.write(folder / name, f"#!/bin/sh\nexec {words}\n").chmod(0o755)
            path.append(str(folder))
            own = {"command": name, "args": []}
        else:
            place.env[fault.variable] = fault.value
        servers[_id(fault)] = own
    place.env["PATH"] = os.pathsep.join([*path, os.environ["PATH"]])
    place.configure(servers, expose="search")
    place.install()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not (ON_WINDOWS and kind == "programs")])
async def test_each_of_twenty_faults_is_named_with_its_mend(place: Place, kind: str) -> None:
    """E9: The variable is named, and one command mends all."""
    faults = [fault for fault in FAULTS if fault.kind == kind]
    assert len(faults) == len(FAULTS) / 4 == 5
    # Names of variables have one case on Windows.
    faults = [fault for fault in faults if not (ON_WINDOWS and fault.variable.islower())]
    _seeded(place, faults)
    examined = await place.examine(*DESKTOP)
    findings = examined.report["findings"]
    for fault in faults:
        here = [one for one in findings if one["code"] == fault.code]
        named = [one for one in here if one["message"].startswith(f"{_id(fault)} ")]
        assert len(named) == 1, (fault, findings)
        if fault.folder:
            assert "on the PATH of your shell and not on that of Claude Desktop" in named[0]["message"]
        else:
            lacking = named[0]["message"].partition("Its last words")[2].partition(". ")[2]
            assert re.search(rf"\b{fault.variable}\b", lacking), named
            assert re.search(rf"\b{fault.variable}\b", named[0]["fix"].partition("writes")[2]), named
        assert f"`{INSTALL}`" in named[0]["fix"]
    place.shell(f"Run `{INSTALL}`")
    after = await place.examine(*DESKTOP)
    left = [one for one in after.report["findings"] if one["code"] in {fault.code for fault in faults}]
    assert left == []


@pytest.mark.skipif(ON_WINDOWS, reason="PATH is the same for a shell and for a host there")
async def test_a_program_in_a_usual_folder_is_no_fault(place: Place) -> None:
    """Since a host's `aggregator stdio` finds it too."""
    _seeded(place, [Fault("", folder, "server_command_not_found", folder=folder) for folder in USUAL])
    examined = await place.examine(*DESKTOP, "--no-connect")
    assert "server_command_not_found" not in examined.codes, examined.report
    place.program("elsewhere", "#!/bin/sh\n")
    place.configure({"box": {"command": "elsewhere", "args": []}})
    assert "server_command_not_found" in (await place.examine(*DESKTOP, "--no-connect")).codes
