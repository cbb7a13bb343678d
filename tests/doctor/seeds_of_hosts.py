"""Misconfigurations of the files of hosts, and of the lists that hosts get."""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

from tests.doctor.place import SERVER, Examined, Json, Place, edit
from tests.doctor.seeds import Make, Mend, Seed

DESKTOP: Final = ("--host", "claude-desktop")
CURSOR: Final = ("--host", "cursor")
PASSWORD: Final = "canary-0123456789-abcdef"


def _entries(make: Callable[[Place], Json], host: str = "claude-desktop", **settings: Any) -> Make:
    """Return the seed of a host file with these entries."""

    def seed(place: Place) -> None:
        place.configure(**settings)
        place.install(make(place), host)

    return seed


def _install(host: str = "claude-desktop") -> Mend:
    """Return the mend that writes our entry, as `aggregator install` does."""

    def mend(place: Place, _: Examined) -> None:
        place.install(host=host)

    return mend


def _one(**fields: Any) -> Callable[[Place], Json]:
    return lambda place: {"aggregator": {**place.entry(), **fields}}


def _words(*words: str) -> Callable[[Place], Json]:
    return lambda place: {"aggregator": {"command": sys.executable, "args": ["-m", "aggregator", *words]}}


def _on_shell_path(place: Place) -> Json:
    place.program("aggregator", "#!/bin/sh\n")
    return {"aggregator": {"command": "aggregator", "args": ["stdio", "--config", str(place.config)]}}


def _pretender(*words: str) -> Callable[[Place], Json]:
    """Return an entry for a program called aggregator that is another one."""

    def make(place: Place) -> Json:
        text = f'#!/bin/sh\nexec {sys.executable} {SERVER} {" ".join(words)} "$@"\n'
        command = str(place.program("aggregator", text))
        return {"aggregator": {"command": command, "args": ["stdio"], "env": {"API_TOKEN": PASSWORD}}}

    return make


def _broken_file(place: Place) -> None:
    place.configure()
    place.write(place.host_file("cursor"), '{"mcpServers": {"a": ')


def _both(place: Place) -> Json:
    return {"aggregator": place.entry(), "direct": place.server()}


def _remove(name: str, host: str = "claude-desktop") -> Mend:
    def mend(place: Place, _: Examined) -> None:
        edit(place.host_file(host), lambda root: root["mcpServers"].pop(name))

    return mend


def _many(host: str, *words: str, **settings: Any) -> Make:
    """Return the seed of a host with a server of many or long tools."""

    def seed(place: Place) -> None:
        place.configure({"box": place.server(*words)}, **settings)
        place.install(host=host)

    return seed


def _setting(change: Callable[[Json], Any]) -> Mend:
    def mend(place: Place, _: Examined) -> None:
        edit(place.config, change)

    return mend


def _full_path(place: Place, examined: Examined) -> None:
    path = json.loads(examined.of("server_command_not_found")["fix"].partition('"command": ')[2].rstrip("."))
    edit(place.config, lambda root: root["mcpServers"]["box"].update(command=path))


def _npx(place: Place) -> None:
    place.program("npx-of-mine", "#!/bin/sh\n")
    place.configure({"box": {"command": "npx-of-mine", "args": ["-y", "some-server"]}})
    place.install()


def _shell_variable(place: Place) -> None:
    place.configure({"box": place.server(env={"TOKEN": "${DOCTOR_TOKEN}"})})
    place.env["DOCTOR_TOKEN"] = PASSWORD
    place.install()


def _needs(name: str, reference: str | None = None, **settings: Any) -> Make:
    """Return the seed of a server that ends at once where a variable of this shell is not set."""

    def seed(place: Place) -> None:
        fields = {"env": {name: f"${{{reference}:-}}"}} if reference is not None else {}
        place.configure({"box": place.server("--needs", name, **fields)}, **settings)
        place.env[reference or name] = "/etc/ssl/own-ca.pem"
        place.install()

    return seed


def _wants_sampling(place: Place) -> None:
    place.configure({"box": place.server("--wants", "sampling")})
    place.install()


def _old_node(place: Place) -> None:
    place.program("node", "#!/bin/sh\necho v14.21.3\n")
    place.configure({"box": {"command": "npx", "args": ["-y", "some-server"]}})


def _new_node(place: Place, _: Examined) -> None:
    place.program("node", "#!/bin/sh\necho v22.11.0\n")


def _denied(place: Place) -> None:
    place.configure()
    place.policy('agents:\n  local:\n    allow: ["*"]\n    deny: ["box.*"]\n')
    place.install()


def _allowed(place: Place, _: Examined) -> None:
    place.policy('agents:\n  local:\n    allow: ["*"]\n')


def _other_config(place: Place) -> None:
    other = place.write(place.here / "other.json", "{}")
    place.configure()
    place.install(_words("stdio", "--config", str(other))(place))


SEEDS: Final = (
    Seed(
        "host without us",
        "host_without_entry",
        lambda place: place.configure(),
        None,
        "aggregator install claude-desktop",
        DESKTOP,
    ),
    Seed("broken file of a host", "host_file_unreadable", _broken_file, _install("cursor"), "Correct it", CURSOR),
    Seed(
        "entry that is switched off",
        "host_entry_disabled",
        _entries(_one(disabled=True), "cline"),
        None,
        "Switch it on",
        ("--host", "cline"),
    ),
    Seed(
        "us twice",
        "host_entry_twice",
        _entries(lambda place: {"aggregator": place.entry(), "gateway": place.entry("--names", "canonical")}),
        _remove("gateway"),
        "Remove `gateway`",
        DESKTOP,
    ),
    Seed(
        "a server directly too",
        "host_direct_server",
        _entries(_both, "cursor"),
        None,
        "--take-over",
        CURSOR,
    ),
    Seed(
        "virtual environment that was deleted",
        "host_program_missing",
        _entries(_one(command="/gone/venv/bin/aggregator", args=["stdio"])),
        None,
        "aggregator install",
        DESKTOP,
    ),
    Seed(
        "program on the PATH of the shell alone",
        "host_program_not_found",
        _entries(_on_shell_path),
        None,
        "write its full path",
        DESKTOP,
    ),
    Seed(
        "relative path of the configuration",
        "host_config_relative",
        _entries(_words("stdio", "--config", "aggregator.json")),
        None,
        "full path",
        DESKTOP,
    ),
    Seed(
        "configuration that was deleted",
        "host_config_missing",
        _entries(_words("stdio", "--config", "/gone/aggregator.json")),
        None,
        "aggregator install",
        DESKTOP,
    ),
    Seed(
        "another configuration",
        "host_other_config",
        _other_config,
        None,
        "--config",
        (*DESKTOP, "--config", "../home/.config/aggregator/aggregator.json"),
    ),
    Seed(
        "another agent",
        "host_agent_differs",
        _entries(lambda place: {"aggregator": place.entry("--agent", "shop")}),
        None,
        "--agent desk",
        (*DESKTOP, "--agent", "desk"),
    ),
    Seed(
        "a word of the command is mistyped",
        "host_start_fails",
        _entries(_words("stdoi")),
        None,
        "aggregator install",
        DESKTOP,
        connects=True,
    ),
    Seed(
        "program that does not answer",
        "host_start_hangs",
        _entries(_pretender("--silent")),
        _install(),
        "in a terminal",
        (*DESKTOP, "--timeout", "5"),
        connects=True,
        # A program that answers may take as long to start as the doctor waits without that option.
        args_after=DESKTOP,
    ),
    Seed(
        "older version",
        "host_other_version",
        _entries(_pretender("--version", "0.0.1")),
        None,
        "update the other",
        DESKTOP,
        connects=True,
    ),
    Seed(
        "dots for Claude Desktop",
        "host_refuses_names",
        _many("claude-desktop", stdio={"names": "canonical"}),
        _setting(lambda root: root["stdio"].update(names="compatible")),
        '"compatible"',
        DESKTOP,
        connects=True,
    ),
    Seed(
        "names that are too long for Cursor",
        "host_refuses_names",
        _many("cursor", "--length", "55", name_limit=64),
        _setting(lambda root: root.update(name_limit=50)),
        '"name_limit": 50',
        CURSOR,
        connects=True,
    ),
    Seed(
        "200 tools for Cursor",
        "host_tool_limit",
        _many("cursor", "--tools", "200"),
        _setting(lambda root: root.update(expose="search")),
        '"expose": "search"',
        CURSOR,
        connects=True,
    ),
    Seed(
        "alternatives at the top for Claude Desktop",
        "host_schemas_mended",
        _many("claude-desktop", "--choice"),
        _setting(lambda root: root.update(stdio={"schemas": "original"})),
        '"schemas": "original"',
        DESKTOP,
        connects=True,
    ),
    Seed(
        "a schema that no dialect of Cursor takes",
        "host_tool_left_out",
        _many("cursor", "--huge"),
        _setting(lambda root: root.update(stdio={"schemas": "original"})),
        '"schemas": "original"',
        CURSOR,
        connects=True,
    ),
    Seed(
        "long list",
        "list_costly",
        _many("claude-code", "--tools", "500"),
        _setting(lambda root: root.update(expose="search")),
        '"expose": "search"',
        connects=True,
    ),
    Seed(
        "long names",
        "tools_renamed",
        _many("claude-code", "--length", "45"),
        _setting(lambda root: root.update(name_limit=64)),
        '"name_limit"',
        connects=True,
    ),
    Seed("old Node.js for npx", "node_old", _old_node, _new_node, "current Node.js"),
    Seed("npx that a desktop host does not find", "server_command_not_found", _npx, _full_path, "full path", DESKTOP),
    Seed("uvx that a host does not find", "server_command_not_found", _npx, None, "aggregator install", DESKTOP),
    Seed(
        "variable of the shell alone",
        "host_variable_missing",
        _shell_variable,
        lambda place, _: place.install({"aggregator": place.entry(env={"DOCTOR_TOKEN": PASSWORD})}),
        'under "env" of our entry',
        DESKTOP,
    ),
    Seed(
        "certificates of the shell alone",
        "server_not_for_host",
        _needs("SSL_CERT_FILE"),
        None,
        "SSL_CERT_FILE",
        DESKTOP,
        connects=True,
    ),
    Seed(
        "package registry of the shell alone, with a quiet log",
        "server_not_for_host",
        _needs("UV_DEFAULT_INDEX", log={"level": "error", "json": True}),
        None,
        "UV_DEFAULT_INDEX",
        DESKTOP,
        connects=True,
    ),
    Seed(
        "variable with a default",
        "server_not_for_host",
        _needs("BOX_TOKEN", "DOCTOR_TOKEN"),
        lambda place, _: place.install({"aggregator": place.entry(env={"DOCTOR_TOKEN": PASSWORD})}),
        "Put DOCTOR_TOKEN",
        DESKTOP,
        connects=True,
    ),
    Seed(
        "capability that the doctor does not offer",
        "server_wants_capability",
        _wants_sampling,
        lambda place, _: place.configure({"box": place.server()}),
        "Claude Desktop is not known to offer sampling",
        DESKTOP,
        connects=True,
    ),
    Seed("nothing allowed", "model_sees_nothing", _denied, _allowed, "policy explain", DESKTOP, connects=True),
    Seed("denied by a rule", "tools_denied", _denied, _allowed, "policy explain local box.", DESKTOP, connects=True),
)
