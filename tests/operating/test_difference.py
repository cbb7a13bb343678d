"""What another configuration means, decided over plain values."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from aggregator.accounts.config import ServerAuthConfig
from aggregator.config.client_tls import ServerTlsConfig
from aggregator.config.difference import AT_ONCE, IN_PLACE, difference, emptied, forbidding
from aggregator.config.model import Config
from aggregator.config.server_config import GROUPS, ServerConfig
from aggregator.config.server_parts import AcceptedChanges, LaunchConfig
from aggregator.domain.problems import Problem

SECRET = "canary-value-of-nobody"

# Two values of every field that a file can set, so that any of them can change.
VARIANTS: dict[str, tuple[Any, Any]] = {
    "prefix": ("a", "b"),
    "type": ("stdio", "http"),
    "command": ("x", "y"),
    "args": ((), (SECRET,)),
    "env": ({}, {"TOKEN": SECRET}),
    "cwd": (None, "/"),
    "url": (None, f"https://{SECRET}.example"),
    "headers": ({}, {"Authorization": SECRET}),
    "proxy": (None, "http://p.example"),
    "target": (None, "a.b:c"),
    "launch": (None, LaunchConfig(command="x")),
    "key": ("one", "two"),
    "description": ("", "words"),
    "trigger_keywords": ((), ("map",)),
    "enabled": (True, False),
    "tools.exclude": ((), ("x*",)),
    "on_change": ("hold", "warn"),
    "on_change.accept": ((), ("new",)),
    "trust": ("first_sight", "ask"),
    "invisible_characters": ("remove", "keep"),
    "auth.per": ("user", "agent"),
    "tls.ca": (None, "a.pem"),
    "protocol": ("auto", "legacy"),
    "isolation": ("shared", "per_agent"),
    "trusted": (False, True),
    "coerce": (True, False),
    "instructions": (True, False),
    "attribution": ("meta", "visible"),
    "output_validation": ("warn", "off"),
    "timeout": (1.0, 2.0),
    "limits.max_timeout": (10.0, 20.0),
    "limits.connect_timeout": (1.0, 2.0),
    "limits.timeout_resets_on_progress": (False, True),
    "limits.max_message_bytes": (10, 20),
    "limits.max_message_values": (1_000, 2_000),
    "limits.max_pending": (1, 2),
    "limits.memory_limit": (None, 2**30),
    "start": ("eager", "lazy"),
    "limits.idle_timeout": (None, 1.0),
    "limits.grace": (1.0, 2.0),
    "limits.reconnect_wait": (1.0, 2.0),
    "health.timeout": (10.0, 1.5),
    "fallbacks": ((), ("two",)),
}


def server(name: str, **fields: Any) -> ServerConfig:
    return ServerConfig(**{"id": name, "key": name, "prefix": name, "type": "stdio", "command": "x", **fields})


def changed(field: str) -> tuple[ServerConfig, ServerConfig]:
    def having(value: object) -> ServerConfig:
        group, dot, option = field.rpartition(".")
        if not dot:
            return base.model_copy(update={field: value})
        return base.model_copy(update={group: parts[group].model_copy(update={option: value})})

    base = server("one")
    parts: dict[str, BaseModel] = {
        "auth": ServerAuthConfig(per="user"),
        "tls": ServerTlsConfig(),
        "limits": base.limits,
        "health": base.health,
        "tools": base.tools,
        "on_change": AcceptedChanges(),
    }
    first, second = VARIANTS[field]
    return having(first), having(second)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Few servers with few differences, so that some are the same in two of them."""
    ids = draw(st.lists(st.sampled_from("abcd"), unique=True))
    fields = st.fixed_dictionaries(
        {},
        optional={name: st.sampled_from(VARIANTS[name]) for name in ("env", "timeout", "trusted", "cwd")},
    )
    servers = tuple(server(one, **draw(fields)) for one in ids)
    return Config(
        servers=servers,
        expose=draw(st.sampled_from(["all", "search"])),
        read_tool=draw(st.booleans()),
        http={
            "port": draw(st.sampled_from([1, 2])),
            "path": draw(st.sampled_from(["/mcp", "/other"])),
            "expose": draw(st.sampled_from(["all", None])),
        },
        log={"level": draw(st.sampled_from(["info", "debug"])), "json": draw(st.booleans())},
    )


@given(configs(), configs())
def test_every_server_has_one_fate(old: Config, new: Config) -> None:
    """Proves: D11. Nothing is touched that is the same in both."""
    found = difference(old, new)
    before, after = ({one.id: one for one in config.servers} for config in (old, new))
    assert set(found.removed) == before.keys() - after.keys()
    assert set(found.added) == after.keys() - before.keys()
    touched = found.replaced.keys() | found.amended.keys()
    assert touched == {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert not found.replaced.keys() & found.amended.keys()
    assert all(IN_PLACE.issuperset(fields) for fields in found.amended.values())
    assert all(not IN_PLACE.issuperset(fields) for fields in found.replaced.values())


@given(configs(), configs())
def test_what_is_in_force_is_the_new_but_for_what_waits(old: Config, new: Config) -> None:
    """Every setting has the new value where it may change, and the old one where it may not; nothing else is made."""
    found = difference(old, new)
    for name, mine, its, ours in _settings(old, new, found.config):
        assert ours == (its if name in AT_ONCE else mine), name
    assert found.config.servers == new.servers
    assert bool(found) == (found.config != old)
    assert not difference(found.config, found.config)
    # Reading the same file once more finds nothing new, and the same that waits.
    again = difference(found.config, new)
    assert (bool(again), again.kept_back) == (False, found.kept_back)


@given(configs(), configs())
def test_no_value_is_told(old: Config, new: Config) -> None:
    """Names of fields and servers only, since any value may be a secret."""
    found = difference(old, new)
    assert SECRET not in repr((list(found.lines()), found.details()))


@pytest.mark.parametrize("field", VARIANTS)
def test_each_field_has_its_price(field: str) -> None:
    """Proves: D11. A new connection, or none."""
    old, new = changed(field)
    found = difference(Config(servers=(old,)), Config(servers=(new,)))
    assert (dict(found.amended), dict(found.replaced)) == (
        ({"one": (field,)}, {}) if field in IN_PLACE else ({}, {"one": (field,)})
    )


def test_the_lists_name_fields_that_there_are() -> None:
    options = {f"{group}.{name}" for group, model in GROUPS.items() for name in model.model_fields}
    assert ServerConfig.model_fields.keys() | options | {"on_change.accept"} >= IN_PLACE
    settings = {name for name, *_ in _settings(Config(), Config(), Config())}
    assert settings >= AT_ONCE


# What the server is told or sent when it is connected, and what it is measured by from its first byte on.
ANEW = {
    *("type", "command", "args", "env", "cwd", "url", "headers", "proxy", "target", "launch", "auth", "tls"),
    *("enabled", "protocol", "isolation", "start", "invisible_characters"),
    *("limits.max_message_bytes", "limits.max_message_values", "limits.memory_limit"),
}
# Of the sections of which a part takes effect at once, what waits for the next start.
WAITING = {
    "audit": {"enabled", "chain_key", "durability", "flush_interval", "keep_bytes", "keep_for"},
    "auth": {"client_id_url", "private_hosts", "vault_key"},
    "log": {"json"},
    "redact": set[str](),
    "results": {"output_schemas"},
    "search": set[str](),
    "secrets": set[str](),
}


def test_what_needs_a_new_connection_or_a_new_start() -> None:
    """D11: all other options of a server, and all other settings of these sections, take effect without either."""
    derived = {"id", "entry", "disabled_reason", "references"}
    options = {f"{group}.{name}" for group in ("tools", "limits", "health") for name in GROUPS[group].model_fields}
    fields = ServerConfig.model_fields.keys() - derived - {"tools", "limits", "health"}
    assert (fields | options) - IN_PLACE == ANEW
    for section, waiting in WAITING.items():
        names = type(getattr(Config(), section)).model_fields
        assert {name for name in names if f"{section}.{name}" not in AT_ONCE} == waiting, section


def test_a_file_with_an_error_less_or_the_same_is_no_worse() -> None:
    """Proves: E9. What was wrong when the file was read before holds up nothing else."""
    known, fresh = (Problem("f", where, "Wrong.", "Mend it.", "error") for where in ("old", "new"))
    warning = Problem("f", "w", "Odd.", "Look.", "warning")
    config = Config()
    assert forbidding(config, config, [known], [known, warning], "f") == ()
    assert forbidding(config, config, [known], [warning], "f") == ()
    assert forbidding(config, config, [known], [known, fresh], "f") == (fresh,)
    assert forbidding(config, config, [replace(fresh, severity="warning")], [fresh], "f") == (fresh,)


@pytest.mark.parametrize("in_use", [True, False])
def test_a_server_in_use_is_not_lost_for_want_of_a_variable(in_use: bool) -> None:
    """Proves: C4. One that was not in use, or is new, is switched off as at the start."""
    old = Config(servers=(server("one", enabled=in_use),))
    off = server("one", enabled=False, disabled_reason="The environment variable TOKEN is not set.")
    found = forbidding(old, Config(servers=(off, off.model_copy(update={"id": "two"}))), (), (), "f")
    assert [problem.server for problem in found] == (["one"] if in_use else [])
    assert all("TOKEN is not set" in str(problem) for problem in found)
    by_hand = Config(servers=(server("one", enabled=False),))
    assert forbidding(old, by_hand, (), (), "f") == ()


@pytest.mark.parametrize(("before", "now", "in_use"), [(1, 0, True), (0, 0, True), (1, 1, True), (1, 0, False)])
def test_a_file_that_lost_all_its_servers_is_not_believed(before: int, now: int, in_use: bool) -> None:
    """E9: unless none was in use, or there never was one in it."""
    old = Config(servers=(server("one", enabled=in_use), server("two", enabled=False)))
    assert (emptied(old, before, now, "f") is not None) == ((before, now, in_use) == (1, 0, True))


def _settings(*configs: Config) -> list[tuple[Any, ...]]:
    """The name of every setting, and its value in each of the configurations."""
    rows: list[tuple[Any, ...]] = []
    for name in Config.model_fields:
        values = [getattr(config, name) for config in configs]
        if isinstance(values[0], BaseModel):
            fields = type(values[0]).model_fields
            rows += [(f"{name}.{field}", *(getattr(value, field) for value in values)) for field in fields]
        elif name != "servers":
            rows.append((name, *values))
    return rows
