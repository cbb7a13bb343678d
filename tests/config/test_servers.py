"""One entry: what it becomes, what is said about it, and that it never costs another."""

from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from aggregator.config.server_config import GROUPS, ServerConfig
from aggregator.config.server_parts import AcceptedChanges
from aggregator.pins.decide.values import ACCEPTED

from .conftest import Load

GOOD: dict[str, Any] = {"command": "true"}


def one(load_file: Load, entry: object, key: str = "it", **environ: str) -> tuple[ServerConfig | None, list[str]]:
    """The server an entry becomes beside a good one, and its problems as lines."""
    loaded = load_file({"mcpServers": {key: entry, "good": GOOD}}, environ)
    assert loaded.config.servers[-1].id == "good"
    found = [server for server in loaded.config.servers if server.key == key]
    return (found[0] if found else None), [str(problem) for problem in loaded.problems]


def test_what_is_not_written_has_its_default(load_file: Load) -> None:
    """Proves: A9, B4."""
    server, problems = one(load_file, {"command": "npx", "args": ["-y", 3, True], "env": {"PORT": 8080, "GONE": None}})
    assert not problems
    assert server
    assert (server.id, server.key, server.prefix, server.type, server.description) == ("it", "it", "it", "stdio", "it")
    assert server.args == ("-y", "3", "true")
    assert server.env == {"PORT": "8080"}
    assert (server.timeout, server.limits.max_timeout, server.limits.connect_timeout) == (30, 600, 30)
    assert (server.enabled, server.protocol, server.limits.max_message_bytes) == (True, "auto", 64 * 2**20)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"url": "http://a"}, {"type": "auto"}),
        ({"url": "http://a", "type": "sse"}, {"type": "sse"}),
        ({"target": "my.servers:weather"}, {"type": "local"}),
        ({"command": "x", "url": ""}, {"type": "stdio", "url": None}),
        ({"command": "x", "url": None, "headers": None}, {"type": "stdio"}),
        ({"url": "http://a", "type": "HTTP"}, {"type": "http"}),
        ({"command": "x", "enabled": "false"}, {"enabled": False, "disabled_reason": None}),
        (
            {"command": "x", "timeout": "2m", "limits": {"connect_timeout": 5}},
            {"timeout": 120, "limits.connect_timeout": 5},
        ),
        ({"command": "x", "timeout": "15m"}, {"timeout": 900, "limits.max_timeout": 900}),
        ({"command": "x", "tools": {"timeout": {"big_*": "1h"}}}, {"limits.max_timeout": 3600}),
        ({"command": "x", "limits": {"max_timeout": "5s"}, "timeout": "5s"}, {"limits.max_timeout": 5}),
        ({"command": "x", "prefix": "px"}, {"id": "it", "prefix": "px"}),
        ({"command": "x", "limits": {"max_message_bytes": "8MiB"}}, {"limits.max_message_bytes": 8 * 2**20}),
        ({"command": "x", "_why": "a remark", "//": 1}, {"command": "x"}),
        (
            {"command": "x"},
            {"trust": "first_sight", "on_change": AcceptedChanges(accept=("cosmetic",)), "on_new": "hold"},
        ),
        ({"command": "x", "trust": "ask", "on_change": "hold"}, {"trust": "ask", "on_change": "hold"}),
        ({"command": "x", "on_new": "show"}, {"on_new": "show"}),
        ({"command": "x", "trust": True}, {"trust": "first_sight"}),  # Gemini CLI
        ({"command": "x", "on_change": {"accept": ["new"]}}, {"on_change": AcceptedChanges(accept=("new",))}),
        ({"command": "x", "on_change": {"accept": []}}, {"on_change": AcceptedChanges(accept=())}),
    ],
)
def test_an_entry_without_a_word(load_file: Load, entry: object, expected: dict[str, object]) -> None:
    server, problems = one(load_file, entry)
    assert not problems
    assert server
    assert {name: attrgetter(name)(server) for name in expected} == expected


@pytest.mark.parametrize(
    ("host", "near"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1:8000", "[::1]", "crm", "crm:80", "crm.localhost")),
        *((host, True) for host in ("10.1.2.3", "192.168.0.9", "[fd00::1]", "crm.internal", "crm.local")),
        *((host, False) for host in ("example.com", "crm.internal.example.com", "internal.de", "8.8.8.8")),
        *((host, False) for host in ("0.0.0.0", "[::]", "[2606:4700::1111]")),  # noqa: S104
    ],
)
def test_a_token_goes_unencrypted_to_no_other_network(load_file: Load, host: str, near: bool) -> None:
    """D9: over http://, `auth` is for this machine and its own network."""
    for scheme, auth, fine in (("http", True, near), ("https", True, True), ("http", False, True)):
        entry = {"url": f"{scheme}://{host}/mcp"} | ({"auth": {"per": "shared"}} if auth else {})
        server, problems = one(load_file, entry)
        assert (server is not None) == fine, (scheme, auth)
        assert ["would go to this address unencrypted" in str(problem) for problem in problems] == [True] * (not fine)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ([], "mcpServers.it: Expected an object in { }, got a list."),
        ({}, "mcpServers.it: The entry has neither `command` nor `url`."),
        ({"command": "x", "url": "http://a"}, "mcpServers.it: The entry has both `command` and `url`"),
        ({"type": "http", "command": "x"}, "mcpServers.it.url: A server of type `http` needs `url`."),
        ({"type": "stdio", "url": "http://a"}, "mcpServers.it.command: A server of type `stdio` needs `command`."),
        ({"transport": "htpp", "url": "http://a"}, 'mcpServers.it.transport: Expected one of "stdio", "sse"'),
        ({"type": "htpp", "url": "http://a"}, 'got "htpp". Did you mean `http`?'),
        ({"type": 3, "url": "http://a"}, "mcpServers.it.type: Expected one of"),
        (
            {"command": "x", "on_change": "hodl"},
            'mcpServers.it.on_change: Expected one of "hold" or "warn", got "hodl". Did you mean `hold`?',
        ),
        ({"command": "x", "on_change": []}, 'mcpServers.it.on_change: Expected one of "hold" or "warn", got a list.'),
        (
            {"command": "x", "on_change": {"accept": ["cosmetics"]}},
            'mcpServers.it.on_change.accept[0]: Expected one of "cosmetic", "narrower"',
        ),
        ({"command": "x", "on_change": {"accept": "new"}}, "mcpServers.it.on_change.accept: Expected a list in [ ]"),
        ({"command": "x", "on_change": {"acept": []}}, "mcpServers.it.on_change.acept: Expected no key of this name"),
        ({"url": "ftp://a"}, "mcpServers.it.url: The address does not begin with http:// or https://."),
        ({"serverUrl": "a.example"}, "mcpServers.it.serverUrl: The address does not begin"),
        ({"url": "http://"}, "mcpServers.it.url: The address has no host."),
        ({"url": "http://a:99999"}, "mcpServers.it.url: The address has a host or a port that cannot be."),
        ({"url": "http://[a"}, "mcpServers.it.url: The address has a host or a port that cannot be."),
        ({"url": "http://a..b/mcp"}, "mcpServers.it.url: The address has a host or a port that cannot be."),
        ({"url": "https://.b/mcp"}, "mcpServers.it.url: The address has a host or a port that cannot be."),
        ({"url": f"https://{'a' * 64}.b/"}, "mcpServers.it.url: The address has a host or a port that cannot be."),
        ({"url": "http://a b"}, "mcpServers.it.url: The address holds a space"),
        ({"url": "http://a", "proxy": "socks5://b"}, "mcpServers.it.proxy: The address does not begin"),
        ({"url": "http://a", "headers": {"a b": "c"}}, 'mcpServers.it.headers["a b"]: This is not the name'),
        ({"url": "http://a", "headers": {"A": "b\nc"}}, "mcpServers.it.headers.A: The value holds a line break"),
        ({"url": "http://a", "headers": {"A": "地"}}, "a character that HTTP cannot carry"),
        ({"url": "https://a", "tls": {"client_key": "k.pem"}}, "mcpServers.it.tls: There is a key for a certificate"),
        ({"url": "https://a", "tls": {"client_key_password": "p"}}, "mcpServers.it.tls: There is a key for a"),
        (
            {"url": "http://a", "launch": {"command": "x", "env": {"A=B": "c"}}},
            'it.launch.env["A=B"]: This is not the name',
        ),
        ({"url": "https://a", "auth": {"per": "shared"}, "headers": {"AUTHORIZATION": "b"}}, "headers.AUTHORIZATION"),
        ({"url": "http://a", "headers": "A: b"}, "mcpServers.it.headers: Expected an object in { }, got a text."),
        ({"url": "http://a", "launch": {}}, "mcpServers.it.launch.command: Expected a value. Add it."),
        ({"url": "http://a", "launch": {"command": "a\0"}}, "mcpServers.it.launch.command: A NUL character"),
        ({"command": "x", "args": "-y"}, "mcpServers.it.args: Expected a list in [ ], got a text."),
        ({"command": "x", "args": [[]]}, "mcpServers.it.args[0]: Expected a text in double quotes, got a list."),
        ({"command": ["x"]}, "mcpServers.it.command: Expected a text in double quotes, got a list."),
        ({"command": "x", "env": {"A=B": "c"}}, 'mcpServers.it.env["A=B"]: This is not the name of a variable.'),
        ({"command": "x", "args": ["a\0b"]}, "mcpServers.it.args: A NUL character"),
        ({"command": "x\ud800"}, "without broken characters"),
        ({"command": "x", "timeout": True}, 'Expected a number of seconds or a text like "30s" or "1m30s", got true.'),
        ({"command": "x", "timeout": -5}, "mcpServers.it.timeout: Expected a length of time above zero, got -5."),
        ({"command": "x", "timeout": "soon"}, 'got "soon".'),
        (
            {"command": "x", "limits": {"max_message_bytes": "big"}},
            'Expected a number of bytes or a text like "4MiB", got "big".',
        ),
        ({"command": "x", "enabled": "perhaps"}, 'mcpServers.it.enabled: Expected true or false, got "perhaps".'),
        ({"command": "x", "disabled": "perhaps"}, 'mcpServers.it.disabled: Expected true or false, got "perhaps".'),
        ({"command": "x", "protocol": "modren"}, 'got "modren". Did you mean `modern`?'),
        ({"command": "x", "tools": 3}, "mcpServers.it.tools: Expected an object in { }, got 3."),
        ({"command": "x", "tools": [3]}, "mcpServers.it.tools[0]: Expected a text in double quotes, got 3."),
        ({"command": "x", "disabledTools": [3]}, "mcpServers.it.disabledTools[0]: Expected a text"),
        ({"command": "x", "tools": {"timeout": {"a": 0}}}, "mcpServers.it.tools.timeout.a: Expected a length"),
        ({"target": "no-colon"}, 'mcpServers.it.target: Expected "package.module:attribute", got "no-colon".'),
        ({"command": "x", "prefix": "。"}, "mcpServers.it.prefix: The prefix has no letter or digit"),
        ({"command": "x", "prefix": 3}, "mcpServers.it.prefix: Expected a text in double quotes, got 3."),
        (
            {"command": "x", "replicas": "one"},
            "mcpServers.it.replicas: This key is not known. Each replica would start the server, which must run once, "
            'so it is not used. Remove "replicas", and give the server an aggregator of its own (docs/scaling.md',
        ),
    ],
)
def test_a_bad_entry_is_left_out_with_the_place_and_the_fix(load_file: Load, entry: object, said: str) -> None:
    """Proves: E9."""
    server, problems = one(load_file, entry)
    assert server is None
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0].startswith("error: ")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            {"command": "x", "timout": 3},
            "mcpServers.it.timout: This key is not known and has no effect. Did you",
        ),
        ({"command": "x", "trigger-keywords": []}, "Did you mean `trigger_keywords`?"),
        (
            {"command": "x", "replicas": "each"},
            "mcpServers.it.replicas: This key is not known and has no effect. Remove it.",
        ),
        ({"command": "x", "zzz": 3}, "mcpServers.it.zzz: This key is not known and has no effect. Remove it."),
        ({"command": "x", "tools": {"exlude": []}}, "mcpServers.it.tools.exlude: This key is not known"),
        ({"url": "http://a", "launch": {"command": "x", "arg": []}}, "mcpServers.it.launch.arg: This key"),
        (
            {"command": "x", "maxTimeout": 5},
            "it.maxTimeout: This key is not known and has no effect. Did you mean `limits.max_timeout`?",
        ),
        (
            {"command": "x", "limits": {"maxPending": 5}},
            "it.limits.maxPending: This key is not known and has no effect. Did you mean `max_pending`?",
        ),
        ({"command": "x", "health": {"isolaton": 5}}, 'Did you mean `isolation`, beside "health"?'),
        ({"command": "x", "limits": {"zzz": 5}}, "it.limits.zzz: This key is not known and has no effect. Remove it."),
        # A word of hosts.
        ({"command": "x", "scopes": ["a"]}, "it.scopes: This option belongs in `auth`, and has no effect here."),
        (
            {"command": "x", "headers": {"A": "b"}},
            "mcpServers.it.headers: `headers` has no effect on a server",
        ),
        ({"url": "http://a", "env": {"A": "b"}}, "put it into `launch`"),
        ({"type": "http", "url": "http://a", "command": "x"}, "mcpServers.it.command: `command` has no effect"),
        (
            {"command": "x", "timeout": 60000},
            'which is 16h40m. Write "16h40m" if that is right, or "1m"',
        ),
        ({"command": "x", "limits": {"max_timeout": 60000}}, "it.limits.max_timeout: The number 60000 means seconds"),
        ({"command": "x", "limits": {"connect_timeout": 60000}}, "limits.connect_timeout: The number 60000 means"),
        ({"command": "x", "timeout": 601}, "it.timeout: The number 601 means seconds"),
        (
            {"command": "x", "limits": {"max_timeout": 5}},
            "mcpServers.it.limits.max_timeout: A time-out of 30s is above the maximum",
        ),
        (
            {"command": "x", "prefix": "my maps"},
            "Tool names cannot hold this prefix; it is `my-maps`",
        ),
    ],
)
def test_an_odd_entry_runs_with_a_warning(load_file: Load, entry: object, said: str) -> None:
    server, problems = one(load_file, entry)
    assert server
    assert server.enabled
    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0].startswith("warning: ")


def test_the_groups_are_the_objects_of_the_model() -> None:
    """`on_change` is one as well, but only in one of its forms."""
    found = set[str]()
    for name, field in ServerConfig.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        found |= {name for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)}
        if name in GROUPS:
            assert GROUPS[name] in kinds
    assert found == GROUPS.keys() | {"on_change"}


@pytest.mark.parametrize(
    "option", [(group, name) for group, model in GROUPS.items() if group != "auth" for name in model.model_fields]
)
def test_an_option_elsewhere_is_read_in_its_place(load_file: Load, option: tuple[str, str]) -> None:
    """E9: without what it says the server would run without a bound. A warning names the place, and the right one."""
    group, name = option
    entry: dict[str, Any]
    right: dict[str, Any]
    if name in ServerConfig.model_fields:
        other = next(one for one, model in GROUPS.items() if name not in model.model_fields)
        right, entry, place, fix = {name: 1}, {other: {name: 1}}, f"{other}.{name}", f'Write it beside "{other}".'
        belongs = "the entry itself"
    else:
        right, entry, place = {group: {name: 1}}, {name: 1}, name
        belongs, fix = f"`{group}`", f'Write "{group}": {{"{name}": ...}} in the entry.'
    server, problems = one(load_file, {"url": "https://a", **entry})
    said = f"mcpServers.it.{place}: This option belongs in {belongs}. It is read as if it stood there. {fix}"
    assert [problem for problem in problems if said in problem and problem.startswith("warning: ")]
    expected, others = one(load_file, {"url": "https://a", **right})
    assert server == expected
    assert len(problems) == len(others) + 1


@pytest.mark.parametrize(
    ("entry", "said", "read"),
    [
        ({"tools": {"max_pending": 5}}, "it.tools.max_pending: This option belongs in `limits`.", {"max_pending": 5}),
        ({"enabled": False, "grace": 5}, "it.grace: This option belongs in `limits`.", {"grace": 5}),
        ({"max_pending": 5, "limits": {"grace": 7}}, "it.max_pending: This", {"max_pending": 5, "grace": 7}),
        ({"tools": {"max_pending": 5}, "max_pending": None}, "it.tools.max_pending: This", {"max_pending": 5}),
    ],
)
def test_an_option_in_another_group_is_read_in_its_own(
    load_file: Load, entry: dict[str, Any], said: str, read: dict[str, Any]
) -> None:
    server, problems = one(load_file, {"command": "x", **entry})
    assert server is not None
    assert server.limits.model_dump(include=set(read)) == read
    assert len(problems) == 1
    assert problems[0].startswith("warning: ")
    assert said in problems[0]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"max_pending": 5, "limits": {"max_pending": 7}}, "it.max_pending: This option belongs in `limits`, and has"),
        ({"tools": {"grace": 5}, "limits": {"grace": 7}}, "it.tools.grace: This option belongs in `limits`, and has"),
        ({"timeout": 5, "limits": {"timeout": 7}}, "it.limits.timeout: This option belongs in the entry itself, and"),
    ],
)
def test_an_option_in_two_places_is_an_error(load_file: Load, entry: dict[str, Any], said: str) -> None:
    """E9: one of the two is wrong, and which one cannot be known."""
    server, problems = one(load_file, {"command": "x", **entry})
    assert server is None
    assert len(problems) == 1
    assert problems[0].startswith("error: ")
    assert said in problems[0]


@pytest.mark.parametrize(
    ("key", "server_id"),
    [("awslabs.aws-docs", "awslabs-aws-docs"), ("My Server", "My-Server"), ("@scope/name", "scope-name")],
)
def test_a_key_that_tool_names_cannot_hold(load_file: Load, key: str, server_id: str) -> None:
    server, problems = one(load_file, GOOD, key)
    assert server
    assert server.id == server.prefix == server_id
    assert len(problems) == 1
    assert f"called `{server_id}` here" in problems[0]
    server, problems = one(load_file, GOOD | {"prefix": "p"}, key)
    assert server
    assert (server.id, server.prefix) == (server_id, "p")
    assert not problems


def test_a_key_without_a_usable_character_needs_a_prefix(load_file: Load) -> None:
    server, problems = one(load_file, GOOD, "高德")
    assert server is None
    assert "has no letter or digit" in problems[0]
    server, problems = one(load_file, GOOD | {"prefix": "amap"}, "高德")
    assert server
    assert (server.id, server.prefix, server.description) == ("amap", "amap", "高德")
    assert not problems


def test_of_two_with_one_name_the_first_stays(load_file: Load) -> None:
    loaded = load_file({"mcpServers": {"a b": GOOD, "a-b": GOOD, "c": GOOD | {"prefix": "a-b"}, "d": GOOD}})
    assert [server.key for server in loaded.config.servers] == ["a b", "d"]
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    assert [(problem.where, problem.server) for problem in errors] == [
        ("mcpServers.a-b", "a-b"),
        ("mcpServers.c.prefix", "c"),
    ]


def test_a_server_that_is_there_twice(load_file: Load) -> None:
    loaded = load_file(
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y", "cwd": "b", "cwd": "c", '
        '"limits": {"grace": 1, "grace": 2}}}}'
    )
    assert [(server.command, server.limits.grace) for server in loaded.config.servers] == [("y", 2)]
    where = ["mcpServers.a", "mcpServers.a.cwd", "mcpServers.a.limits.grace"]
    assert [problem.where for problem in loaded.problems] == where


def test_the_longest_time_out_of_a_tool_counts_for_the_maximum(load_file: Load) -> None:
    """It is raised if the file does not set it, and cuts the time-out of the server if the file does."""
    for entry, timeout, longest, said in (
        ({"timeout": 600}, 600, 600, False),
        ({"tools": {"timeout": {"slow": "2h"}}}, 30, 7200, False),
        ({"tools": {"timeout": {"slow": "2h"}}, "limits": {"max_timeout": "1h"}}, 30, 3600, True),
        ({"timeout": "2h", "limits": {"max_timeout": "1h"}}, 3600, 3600, True),
        ({"timeout": "1h", "limits": {"max_timeout": "1h"}}, 3600, 3600, False),
    ):
        server, problems = one(load_file, {"command": "x", **entry})
        assert server
        assert (server.timeout, server.limits.max_timeout) == (timeout, longest)
        assert ["above the maximum" in problem for problem in problems] == [True] * said, entry


@pytest.mark.parametrize("blank", ["cwd", "description"])
def test_an_empty_text_is_as_if_it_were_not_there(load_file: Load, blank: str) -> None:
    server, problems = one(load_file, {"command": "x", blank: "", "limits": {"grace": None}})
    assert not problems
    assert server
    plain, _ = one(load_file, {"command": "x"})
    assert server == plain


def test_the_login_of_an_address_is_known_as_it_is_written_and_as_it_is_meant(load_file: Load) -> None:
    """Proves: D1. A name that anyone could guess is no secret: half of the log would be hidden."""
    for url, hidden, shown in (
        ("http://ada:p%40ss-w@a/", {"p%40ss-w", "p@ss-w"}, {"ada"}),
        ("http://a1b2c3d4%3De5@a/", {"a1b2c3d4%3De5", "a1b2c3d4=e5"}, set()),
        ("http://ada@a/", set(), {"ada"}),
    ):
        secrets = load_file({"mcpServers": {"it": {"url": url}}}).secrets
        assert hidden <= secrets
        assert not shown & secrets, url


def test_folders_are_relative_to_the_file(load_file: Load, tmp_path: Path) -> None:
    server, _ = one(load_file, {"command": "x", "cwd": "sub"})
    assert server
    assert server.cwd == str(tmp_path / "sub")
    server, _ = one(load_file, {"url": "http://a", "launch": {"command": "x", "cwd": "~"}})
    assert server
    assert server.launch
    assert server.launch.cwd == str(Path.home())


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"url": "https://${NONE}/mcp"}, "url"),
        ({"url": "${NONE}"}, "url"),
        ({"url": "http://a", "headers": {"A": "${NONE}"}}, "headers.A"),
        ({"command": "${NONE}", "args": ["a"]}, "command"),
        ({"command": "x", "args": ["a", "${NONE}"]}, "args[1]"),
        ({"command": "x", "timeout": "${NONE}"}, "timeout"),
        ({"command": "x", "type": "${NONE}"}, "type"),
        ({"command": "x", "prefix": "${NONE}"}, "prefix"),
        ({"command": "x", "tools": {"timeout": {"a": "${NONE}"}}}, "tools.timeout.a"),
        ({"command": "x", "enabled": "${NONE}"}, "enabled"),
        ({"command": "x", "disabled": "${NONE}"}, "disabled"),
    ],
)
def test_a_missing_variable_switches_the_server_off(load_file: Load, entry: object, place: str) -> None:
    """Proves: E9."""
    server, problems = one(load_file, entry)
    assert server
    assert not server.enabled
    assert server.disabled_reason == "The environment variable NONE is not set."
    assert len(problems) == 1
    assert problems[0].startswith("warning: ")
    assert f"mcpServers.it.{place}: The environment variable NONE is not set." in problems[0]


def test_one_that_is_switched_off_already_is_not_told_of_variables(load_file: Load) -> None:
    server, problems = one(load_file, {"url": "http://a?key=${NONE}", "enabled": False})
    assert server
    assert not server.enabled
    assert not problems


def test_variables_are_filled_in(load_file: Load) -> None:
    """Proves: D1, E7."""
    entry = {
        "url": "http://a/?key=${K}",
        "headers": {"A": "Bearer ${K}"},
        "timeout": "${T:-5s}",
        "enabled": "${E:-true}",
    }
    server, problems = one(load_file, entry, K="k-123")
    assert server
    assert not problems
    assert (server.url, server.headers, server.timeout) == ("http://a/?key=k-123", {"A": "Bearer k-123"}, 5)


def test_secrets_are_known_and_in_no_repr_or_message(load_file: Load) -> None:
    """Proves: D1."""
    secrets = {"tok-1", "hdr-2", "pw-3", "query-4", "proxy-5", "env-6", "arg-7"}
    entries = {
        "a": {
            "url": "http://u:pw-3@a/?api_key=query-4&q=plain",
            "headers": {"Authorization": "Bearer hdr-2", "X": "${TOK}"},
            "proxy": "http://p:proxy-5@b",
            "launch": {"command": "x", "env": {"API_KEY": "env-6"}, "args": ["arg-7"]},
        },
        "b": {"command": "x", "args": [{"a": "arg-7"}], "env": {"API_KEY": ["env-6"]}},
        "c": {"url": ["http://u:pw-3@a"], "proxy": 5, "headers": ["hdr-2"]},
        "d": {"url": "ftp://u:pw-3@a/?k=${TOK}", "proxy": "proxy-5", "headers": {"a b": "hdr-2", "A": "hdr-2\n"}},
        "e": {"url": "http://a", "timeout": "${TOK}"},
    }
    loaded = load_file({"mcpServers": entries}, {"TOK": "tok-1"})
    assert {"tok-1", "hdr-2", "Bearer hdr-2", "pw-3", "query-4", "proxy-5", "env-6"} <= loaded.secrets
    assert "plain" not in loaded.secrets
    shown = repr(loaded) + "".join(str(problem) for problem in loaded.problems)
    assert len(loaded.config.servers) == 1
    assert not [secret for secret in secrets if secret in shown]


def test_one_server_can_do_without_a_prefix(load_file: Load) -> None:
    """The first that is switched on; one that is not stands in nobody's way."""
    entry = {**GOOD, "prefix": ""}
    loaded = load_file({"mcpServers": {"off": {**entry, "enabled": False}, "one": entry, "b": GOOD, "two": entry}})
    assert [(s.id, s.prefix) for s in loaded.config.servers] == [("off", ""), ("one", ""), ("b", "b")]
    (problem,) = loaded.problems
    assert problem.severity == "error"
    assert 'mcpServers.two.prefix: Only one server can do without a prefix, and "one" does.' in str(problem)


def test_a_key_that_names_nothing_needs_a_prefix(load_file: Load) -> None:
    server, problems = one(load_file, {**GOOD, "prefix": ""}, key="\u5730\u56fe")
    assert server is None
    assert "has no letter or digit" in problems[0]


@pytest.mark.parametrize(
    "settings",
    [{"trust": "never"}, {"trust": 3}, {"on_change": "ask"}, {"on_change": {"accept": ["better"]}}, {"on_change": []}],
    ids=str,
)
def test_settings_of_pins_that_are_none_are_named(load_file: Load, settings: dict[str, Any]) -> None:
    """A server whose settings are not understood is not connected under others."""
    server, problems = one(load_file, {"command": "x", **settings})
    assert server is None or server.disabled_reason or not server.enabled
    assert any(f"it.{name}" in problem or name in problem for name in settings for problem in problems)


def test_the_default_of_accepted_classes_is_that_of_pins() -> None:
    assert frozenset(AcceptedChanges().accept) == ACCEPTED


@pytest.mark.parametrize(
    "written",
    [
        {"url": "http://a/${PART}"},
        {"url": "http://a", "headers": {"Authorization": "Bearer ${PART}"}},
        {"url": "http://a", "headers": {"X-Part": "${env:PART}"}},
        {"url": "http://a", "headers": {"X-Part": "${PART:-none}"}},
    ],
)
def test_the_own_variables_of_a_url_have_an_effect(load_file: Load, written: dict[str, Any]) -> None:
    """Without them its references would be those of the process: no warning tells to remove them."""
    server, problems = one(load_file, {**written, "env": {"PART": "x"}})
    assert server is not None
    assert "x" in f"{server.url} {server.headers}".replace("X-Part", "")
    assert problems == []
