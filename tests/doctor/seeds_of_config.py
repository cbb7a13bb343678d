"""Misconfigurations of the configuration file, the policies, the database and the machine."""

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.doctor.place import SECRET, Examined, Json, Place, edit
from tests.doctor.seeds import Make, Mend, Seed

GOOD: Final = {"mcpServers": {"box": {"command": "true"}}}


def _text(text: str | bytes) -> Make:
    def make(place: Place) -> None:
        place.write(place.config, text)

    return make


def _settings(**settings: Any) -> Make:
    def make(place: Place) -> None:
        place.configure(**settings)

    return make


def _good(place: Place, _: Examined) -> None:
    if place.config.is_dir():
        place.config.rmdir()
    elif place.config.is_symlink():
        place.config.unlink()
    place.configure()


def _here(place: Place) -> None:
    place.write(place.here / "aggregator.json", json.dumps(GOOD))


def _policy(text: str) -> Make:
    def make(place: Place) -> None:
        place.configure()
        place.policy(text)

    return make


CHAIN_KEY: Final = f"{SECRET}-that-is-long-enough"
ALLOW: Final = 'agents:\n  local:\n    allow: ["box.*"]\n'


def _good_policy(place: Place, _: Examined) -> None:
    place.policy(ALLOW)


def _variable(place: Place) -> None:
    place.configure({"box": place.server(env={"TOKEN": "${DOCTOR_TOKEN}"})})


def _set_variable(place: Place, _: Examined) -> None:
    place.env["DOCTOR_TOKEN"] = SECRET


def _env_file(place: Place) -> None:
    place.configure({"box": place.server(envFile="missing.env")})


def _make_env_file(place: Place, _: Examined) -> None:
    place.write(place.config.parent / "missing.env", f"A={SECRET}\r\nB=2\r\n")


def _crlf(place: Place) -> None:
    _variable(place)
    place.env["DOCTOR_TOKEN"] = f"{SECRET}\r"


def _secret_in_clear(place: Place) -> None:
    place.configure({"box": place.server(env={"API_TOKEN": SECRET})})
    place.config.chmod(0o644)


def _open_secret_file(place: Place) -> None:
    place.configure({"box": place.server(env={"API_TOKEN": "${file:token}"})})
    place.write(place.config.parent / "token", SECRET)
    (place.config.parent / "token").chmod(0o644)


def _closed_secret_file(place: Place, _: Examined) -> None:
    (place.config.parent / "token").chmod(0o600)


def _wrong_place(place: Place) -> None:
    place.write(place.home / ".config" / "aggregator.json", json.dumps(GOOD))


def _broken_link(place: Place) -> None:
    place.config.parent.mkdir(parents=True)
    place.config.symlink_to(place.home / "dotfiles" / "aggregator.json")


def _mend_link(place: Place, _: Examined) -> None:
    place.write(place.home / "dotfiles" / "aggregator.json", json.dumps(GOOD))


def _own_link(place: Place) -> None:
    place.config.parent.mkdir(parents=True)
    place.config.symlink_to(place.config)


def _both(place: Place) -> None:
    place.configure()
    _here(place)


def _name_it(place: Place, _: Examined) -> None:
    place.args = ["--config", str(place.here / "aggregator.json")]


def _database(place: Place) -> Path:
    return place.home / ".local" / "share" / "aggregator" / "aggregator.db"


async def _with_database(place: Place) -> None:
    place.configure()
    made = await place.aggregator("keys", "new", "local")
    assert made.code == 0, made


async def _open_database(place: Place) -> None:
    await _with_database(place)
    _database(place).chmod(0o644)


def _other_file(place: Place) -> None:
    place.configure()
    servers = {"box": place.server(), "off": place.server("--tools", "1", enabled=False)}
    place.write(place.here / "other.json", json.dumps({"mcpServers": servers}))


async def _lost_chain_key(place: Place) -> None:
    place.configure(audit={"chain_key": CHAIN_KEY})
    made = await place.aggregator("keys", "new", "local")
    assert made.code == 0, made
    place.configure()


def _stamped(stamp: str) -> Callable[[Place], Awaitable[None]]:
    async def seed(place: Place) -> None:
        await _with_database(place)
        with closing(sqlite3.connect(_database(place))) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", (stamp,))

    return seed


def _other_database(place: Place, _: Examined) -> None:
    edit(place.config, lambda root: root.update(storage="sqlite:///other.db"))


async def _damaged(place: Place) -> None:
    await _with_database(place)
    _database(place).write_bytes(b"no database at all, but of some length" * 40)


async def _locked(place: Place) -> None:
    place.configure(storage="sqlite:///own.db")
    connection = sqlite3.connect(place.write(place.config.parent / "own.db", b""), isolation_level=None)
    place.stack.callback(connection.close)
    connection.execute("CREATE TABLE x (y)")
    connection.execute("BEGIN EXCLUSIVE")


def _file_for_a_folder(place: Place) -> None:
    place.write(place.home / "data", b"")
    place.configure(storage=f"sqlite:///{place.home}/data/sub/own.db")


def _make_the_folder(place: Place, _: Examined) -> None:
    (place.home / "data").unlink()
    (place.home / "data" / "sub").mkdir(parents=True)


def mounted(place: Place, options: str) -> Path:
    """Mount a small file system of our own; skip the test where that is not allowed."""
    folder = place.home / "mounted"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=20)
    except OSError:
        pytest.skip("there is no mount here")
    if ended.returncode != 0:
        pytest.skip("mounting is not allowed here")
    place.stack.callback(subprocess.run, ["umount", str(folder)], capture_output=True, timeout=20)
    return folder


def _read_only(place: Place) -> None:
    if os.geteuid() == 0:
        place.configure(storage=f"sqlite:///{mounted(place, 'ro,size=1m')}/own.db")
        return
    folder = place.home / "locked"
    folder.mkdir(mode=0o500)
    place.stack.callback(folder.chmod, 0o700)
    place.configure(storage=f"sqlite:///{folder}/own.db")


def _full(place: Place) -> None:
    place.configure(storage=f"sqlite:///{mounted(place, 'size=1m')}/own.db")


def _writable(place: Place, examined: Examined) -> None:
    if os.geteuid() == 0:
        subprocess.run(["mount", "-o", "remount,rw", str(place.home / "mounted")], check=True, timeout=20)
    else:
        place.shell(examined.of("database_read_only")["fix"])


async def _ending_key(place: Place) -> None:
    place.configure()
    await place.aggregator("keys", "new", "local", "--expires", "3d")


async def _ended_key(place: Place) -> None:
    await _ending_key(place)
    now = time.time()
    with closing(sqlite3.connect(_database(place))) as connection, connection:
        connection.execute("UPDATE api_keys SET expires = ?, last_used = ?", (now - 60.0, now - 90.0))
    connection.close()


async def _strange_key(place: Place) -> None:
    place.configure()
    place.policy(ALLOW)
    await place.aggregator("keys", "new", "shop")


async def _renamed_away(place: Place) -> None:
    await _with_database(place)
    _database(place).with_name("aggregator.db.damaged-20260101T000000Z-1").write_bytes(b"x")


def _future(place: Place) -> None:
    place.configure()
    at = time.time() + 10 * 86_400
    os.utime(place.config, (at, at))


def _local_url(place: Place) -> None:
    place.configure({"near": {"type": "http", "url": "http://localhost:9/mcp"}})
    place.env |= {"HTTP_PROXY": "http://proxy.example.com:3128", "NO_PROXY": "", "no_proxy": ""}


def _open_policies(place: Place) -> None:
    place.configure()
    place.policy(ALLOW).chmod(0o666)


async def _fix(place: Place, _: Examined) -> None:
    mended = await place.examine("--no-connect", "--fix")
    assert mended.report["mended"], mended.report


def _edit(change: Callable[[Json], object]) -> Mend:
    def mend(place: Place, _: Examined) -> None:
        edit(place.config, change)

    return mend


def _drop(key: str) -> Mend:
    return _edit(lambda root: root.pop(key))


def _as_the_known(place: Place, _: Examined) -> None:
    place.args = ["--agent", "local"]


SEEDS: Final = (
    Seed("no configuration", "config_missing", lambda place: None, None, "aggregator init"),
    Seed("configuration in a wrong place", "config_wrong_place", _wrong_place, None, "mv "),
    Seed(
        "a comma is missing",
        "config_not_json",
        _text('{"mcpServers": {"a": {"command": "x"} "b": {}}}'),
        _good,
        "comma",
    ),
    Seed("text after the end", "config_not_json", _text('{"mcpServers": {}}\nand more'), _good, "remove what follows"),
    Seed("empty file", "config_not_json", _text(""), _good, "mcpServers"),
    Seed("mcpServer", "config_key_unknown", _text('{"mcpServer": {"a": {"command": "x"}}}'), _good, "`mcpServers`?"),
    Seed(
        "a bound outside of limits",
        "config_key_misplaced",
        _text('{"mcpServers": {"a": {"command": "x", "max_timeout": "1h"}}}'),
        _good,
        'Write "limits": {"max_timeout": ...}',
    ),
    Seed(
        "one name for two servers",
        "config_key_repeated",
        _text('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}'),
        _good,
        "Rename or remove it",
    ),
    Seed("folder that is not trusted", "config_not_trusted", _here, None, "aggregator trust"),
    Seed("two configurations", "config_shadowed", _both, _name_it, "--config"),
    Seed(
        "a folder for a file",
        "config_unreadable",
        lambda place: place.config.mkdir(parents=True),
        _good,
        "Name the file",
    ),
    Seed("Latin-1", "config_encoding", _text('{"mcpServers": {"caf\xe9": {}}}'.encode("latin-1")), _good, "UTF-8"),
    Seed("UTF-16", "config_utf16", _text(json.dumps(GOOD).encode("utf-16")), None, "iconv"),
    Seed("no servers", "no_servers", _text('{"mcpServers": {}}'), _good, "mcpServers"),
    Seed("variable that is not set", "server_variable_missing", _variable, _set_variable, "Set DOCTOR_TOKEN"),
    Seed("env file that is missing", "value_file_unreadable", _env_file, _make_env_file, "Create it"),
    Seed("variable from a CRLF file", "variable_with_line_end", _crlf, _set_variable, "Set DOCTOR_TOKEN"),
    Seed(
        "milliseconds",
        "timeout_milliseconds",
        lambda place: place.configure({"box": place.server(timeout=30_000)}),
        _edit(lambda root: root["mcpServers"]["box"].update(timeout="30s")),
        '"30s"',
    ),
    Seed(
        "one prefix for two",
        "server_name_taken",
        lambda place: place.configure({"a": place.server(prefix="x"), "b": place.server("-q", prefix="x")}),
        _edit(lambda root: root["mcpServers"]["b"].update(prefix="y")),
        '"prefix"',
    ),
    Seed(
        "the same server twice",
        "server_twice",
        lambda place: place.configure({"a": place.server(), "b": place.server()}),
        None,
        "aggregator remove b",
    ),
    Seed(
        "a field of the wrong type",
        "config_problem",
        lambda place: place.configure({"box": {"command": 7}}),
        _good,
    ),
    Seed("secrets that others can read", "config_open", _secret_in_clear, None, "chmod 600"),
    Seed(
        "file of a secret that others can read", "value_file_open", _open_secret_file, _closed_secret_file, "chmod 600"
    ),
    Seed("policies that others can write", "policy_open", _open_policies, _fix, "chmod go-w"),
    Seed(
        "policy for a server that does not exist",
        "policy_warning",
        _policy('agents:\n  local:\n    allow: ["boxx.*"]\n'),
        _good_policy,
        '"box.*"',
    ),
    Seed("broken policy file", "policy_broken", _policy("agents: [\n"), _good_policy),
    Seed(
        "folder of policies that is missing", "policy_folder_missing", _settings(policies="rules"), None, "policy init"
    ),
    Seed(
        "agent of --agent that is not known",
        "policy_agent_unknown",
        _policy(ALLOW),
        _as_the_known,
        "--agent local",
        ("--agent", "locla"),
    ),
    Seed(
        "no policy for the agent of a host",
        "policy_agent_unknown",
        _policy('agents:\n  shop:\n    allow: ["box.*"]\n'),
        _good_policy,
        "`agents:`",
    ),
    Seed("key that ends soon", "key_expires_soon", _ending_key, None, "keys expire"),
    Seed("key that has ended", "key_expired", _ended_key, None, "keys expire"),
    Seed("key for an unknown agent", "key_agent_unknown", _strange_key, None, "keys revoke"),
    Seed("newer schema", "database_too_new", _stamped("9999"), _other_database, '"storage"'),
    Seed("schema from before the first release", "database_too_old", _stamped("0015"), _other_database, "mv "),
    Seed("damaged database", "database_damaged", _damaged, None, "mv "),
    Seed("damaged database set aside", "database_set_aside", _renamed_away, None, "rm "),
    Seed("locked database", "database_locked", _locked, _other_database, "End the program"),
    Seed("folder of the database", "database_folder", _file_for_a_folder, _make_the_folder, "mkdir"),
    Seed("read-only database", "database_read_only", _read_only, _writable, "chmod"),
    Seed("full disk", "disk_full", _full, _other_database, "another disk"),
    Seed(
        "address of no database", "database_url", _settings(storage="sqlite:///:memory:"), _drop("storage"), "`storage`"
    ),
    Seed(
        "no HOME",
        "home_missing",
        lambda place: place.configure() and place.env.update(HOME=""),
        lambda place, _: place.env.update(HOME=str(place.home)),
        "Set HOME",
    ),
    Seed(
        "HOME that is not there",
        "home_missing",
        lambda place: place.configure() and place.env.update(HOME=str(place.home / "gone")),
        lambda place, _: place.env.update(HOME=str(place.home)),
        "Set HOME",
    ),
    Seed(
        "TMPDIR that is not there",
        "temp_missing",
        lambda place: place.configure() and place.env.update(TMPDIR=str(place.home / "gone")),
        None,
        "mkdir -p",
    ),
    Seed("link to a file that was moved", "config_missing", _broken_link, _mend_link, "Put that file back"),
    Seed("link to itself", "config_missing", _own_link, _good, "Remove the link"),
    Seed(
        "proxy for this machine",
        "proxy_for_loopback",
        _local_url,
        lambda place, _: place.env.update(NO_PROXY="localhost,127.0.0.1,::1"),
        "NO_PROXY",
    ),
    Seed("clock", "clock_wrong", _future, lambda place, _: os.utime(place.config), "Set it"),
    Seed(
        "server switched off",
        "server_off",
        lambda place: place.configure({"box": place.server(enabled=False)}),
        None,
        "aggregator enable box",
    ),
    Seed(
        "commands for another file",
        "server_off",
        _other_file,
        None,
        "--config",
        ("--config", "other.json"),
    ),
    Seed("database that others can read", "database_open", _open_database, None, "chmod 600"),
    Seed(
        "key of the audit that is gone",
        "audit_chain_key",
        _lost_chain_key,
        _edit(lambda root: root.update(audit={"chain_key": CHAIN_KEY})),
        '"chain_key"',
    ),
    Seed("audit switched off", "audit_off", _settings(audit={"enabled": False}), _drop("audit"), '"audit"'),
    Seed(
        "every frontend disabled",
        "gateway_nothing_served",
        _settings(http={"enabled": False}, sse={"enabled": False}, v1={"enabled": False}, stdio={"enabled": False}),
        _drop("stdio"),
        '"stdio"',
    ),
    Seed("public without a key", "gateway_not_open", _settings(http={"host": "192.0.2.1"}), _drop("http"), '"host"'),
    Seed(
        "certificate that is not there",
        "gateway_tls",
        _settings(http={"tls": {"certificate": "tls.crt", "key": "tls.key"}}),
        _drop("http"),
        "certificate",
    ),
    Seed(
        "proxy that is not trusted",
        "gateway_proxy",
        _settings(http={"public_url": "https://tools.example.com"}),
        _edit(lambda root: root["http"].update(trusted_proxies=["127.0.0.1"])),
        "trusted_proxies",
    ),
    Seed(
        "name that is refused",
        "gateway_host_refused",
        _settings(),
        _edit(lambda root: root["http"].update(allowed_hosts=["tools.example.com"])),
        "allowed_hosts",
        ("--url", "http://tools.example.com:9"),
    ),
)
