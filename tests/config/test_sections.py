"""The settings outside `mcpServers`."""

from pathlib import Path

import pytest

from aggregator.config.errors import ConfigError
from aggregator.config.load import must_start
from aggregator.config.model import Config

from .conftest import Load

SERVERS = {"mcpServers": {"a": {"command": "x"}}}


def test_defaults(load_file: Load) -> None:
    loaded = load_file(SERVERS)
    config = loaded.config
    assert not loaded.problems
    assert config.model_copy(update={"servers": ()}) == Config()
    assert (config.http.names, config.sse.names, config.stdio.names) == (None, None, "compatible")
    assert (config.http.host, config.http.port, config.http.path) == ("127.0.0.1", 8642, "/mcp")
    assert (config.startup_wait, config.name_limit, config.log.level, config.log.json) == (10, 47, "info", False)


def test_what_is_written_counts(load_file: Load) -> None:
    sections = {
        "http": {
            "port": "${PORT}",
            "allowed_hosts": ["a"],
            "max_body_bytes": "1MiB",
            "session_idle_timeout": "1h",
            "_": 1,
        },
        "sse": {"enabled": False, "_why": 1},
        "stdio": {"enabled": True},
        "log": {"level": "debug", "json": True},
        "startup_wait": "3s",
        "name_limit": 64,
    }
    loaded = load_file(SERVERS | sections, {"PORT": "9000"})
    config = loaded.config
    assert not loaded.problems
    assert (config.http.port, config.http.allowed_hosts, config.http.max_body_bytes) == (9000, ("a",), 2**20)
    assert (config.http.session_idle_timeout, config.sse.enabled, config.stdio.names) == (3600, False, "compatible")
    assert (config.log.level, config.log.json, config.startup_wait, config.name_limit) == ("debug", True, 3, 64)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"http": []}, "http: Expected an object in { }, got a list. The default is used."),
        ({"http": "${PORT}"}, "http: The environment variable PORT is not set. The default is used."),
        ({"http": {"port": True}}, "http.port: Expected a whole number, got true."),
        ({"http": {"port": 99999}}, "http.port: Expected a number up to 65535, got 99999."),
        ({"http": {"port": "${PORT}"}}, "http.port: The environment variable PORT is not set. The default is used."),
        ({"http": {"path": "mcp"}}, 'http.path: Expected a path such as "/mcp", got "mcp".'),
        ({"http": {"names": "canonicl"}}, "Did you mean `canonical`?"),
        ({"http": {"allowed_hosts": [1]}}, "http.allowed_hosts[0]: Expected a text in double quotes, got 1."),
        (
            {"http": {"trusted_proxies": ["10.1.2.3/8"]}},
            "http.trusted_proxies[0]: Expected a whole network, such as 10.0",
        ),
        ({"http": {"trusted_proxies": ["proxy"]}}, "http.trusted_proxies[0]: Expected an IP address or a network"),
        ({"http": {"public_url": "tools.example.com"}}, "http.public_url: Expected an address such as https://"),
        ({"http": {"public_url": "https://a:b@x"}}, "http.public_url: Expected an address such as https://"),
        ({"http": {"public_url": "https://x:99999"}}, "http.public_url: Expected an address such as https://"),
        ({"http": {"public_url": "https://x//y"}}, "http.public_url: Expected an address such as https://"),
        ({"http": {"public_url": "https://x/a/../b"}}, "http.public_url: Expected an address such as https://"),
        ({"http": {"max_body_bytes": 0}}, "http.max_body_bytes: Expected a size of at least one byte, got 0."),
        ({"log": {"level": "loud"}}, 'log.level: Expected one of "debug", "info", "warning" or "error", got "loud".'),
        ({"startup_wait": True}, "startup_wait: Expected a number of seconds"),
        ({"startup_wait": "${NONE}"}, "startup_wait: The environment variable NONE is not set."),
        ({"name_limit": 5}, "name_limit: Expected a number from 24 up, got 5."),
    ],
)
def test_what_is_wrong_takes_its_default(load_file: Load, section: dict[str, object], said: str) -> None:
    loaded = load_file(SERVERS | section)
    assert loaded.config.model_copy(update={"servers": ()}) == Config()
    assert [problem.severity for problem in loaded.problems] == ["error"]
    assert said in str(loaded.problems[0])


def test_one_bad_field_does_not_cost_the_others(load_file: Load) -> None:
    loaded = load_file(SERVERS | {"http": {"port": 9000, "host": 3, "enabled": []}})
    assert (loaded.config.http.port, loaded.config.http.host, loaded.config.http.enabled) == (9000, "127.0.0.1", True)
    assert [problem.where for problem in loaded.problems] == ["http.enabled", "http.host"]


@pytest.mark.parametrize(
    ("content", "where", "said"),
    [
        ({"github": {"command": "x"}}, "github", 'put it inside "mcpServers"'),
        ({"schema": "https://example.com"}, "schema", "Did you mean `$schema`?"),
        ({"zzzz": 1}, "zzzz", "Remove it."),
        ({"port": 8701}, "port", "Write it inside `http`."),
        ({"schemas": "as-is"}, "schemas", "Write it inside `http` or `sse` or `stdio`."),
        ({"http": {"prot": 1}}, "http.prot", "Did you mean `port`?"),
    ],
)
def test_keys_that_are_not_known(load_file: Load, content: dict[str, object], where: str, said: str) -> None:
    loaded = load_file(SERVERS | content)
    assert [(problem.where, problem.severity) for problem in loaded.problems] == [(where, "warning")]
    assert said in loaded.problems[0].fix


@pytest.mark.parametrize("root", ["mcpServers", "servers"])
def test_a_server_beside_others_is_a_warning_at_either_root(load_file: Load, root: str) -> None:
    """E9: the others are there, so the program starts; alone it was all that the file had to say."""
    other: dict[str, object] = {root: {"a": {"command": "x"}}, "github": {"command": "x"}}
    loaded = load_file(other)
    assert [(problem.where, problem.severity) for problem in loaded.problems] == [("github", "warning")]
    must_start(loaded)
    with pytest.raises(ConfigError):
        must_start(load_file(other | {root: {}}))


@pytest.mark.parametrize(
    ("content", "where", "said"),
    [
        (SERVERS | {"htpp": {}}, "htpp", "Did you mean `http`?"),
        (SERVERS | {"mcpservers": {}}, "mcpservers", "Did you mean `mcpServers`?"),
        (SERVERS | {"polices": "rules"}, "polices", "Did you mean `policies`?"),
        ({"mcpServer": {"a": {"command": "x"}}}, "mcpServer", "Did you mean `mcpServers`?"),
        ({"github": {"command": "x"}}, "github", 'put it inside "mcpServers"'),
        ({"github": {"url": "http://x"}, "mcpServers": {}}, "github", 'put it inside "mcpServers"'),
        ({"github": {"serverUrl": "http://x"}}, "github", 'put it inside "mcpServers"'),
        ({"github": {"httpUrl": "http://x"}}, "github", 'put it inside "mcpServers"'),
    ],
)
def test_what_a_misspelt_key_at_the_root_should_have_said_is_not_done_without(
    load_file: Load, content: dict[str, object], where: str, said: str
) -> None:
    """Proves: E9. No program starts."""
    loaded = load_file(content)
    assert [(problem.where, problem.severity) for problem in loaded.problems] == [(where, "error")]
    assert said in loaded.problems[0].fix
    with pytest.raises(ConfigError, match=f"error: .*{where}"):
        must_start(loaded)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ({"storage": "${NO_SUCH_VARIABLE}"}, "storage"),
        ({"storage": 5}, "storage"),
        ({"policies": "${NO_SUCH_VARIABLE}/rules"}, "policies"),
        ({"policies": ["rules"]}, "policies"),
        ({"policies": "ru\0les"}, "policies"),
        ({"audit": "strict"}, "audit"),
        ({"audit": {"chain_key": "short"}}, "audit.chain_key"),
        ({"audit": {"chain_key": "${NO_SUCH_VARIABLE}"}}, "audit.chain_key"),
    ],
)
def test_who_comes_in_and_what_is_proven_is_not_left_to_a_default(
    load_file: Load, content: dict[str, object], where: str
) -> None:
    """E9: Another database has no keys, another folder no policies; a command would change what nobody uses."""
    loaded = load_file(SERVERS | content)
    assert [problem.where for problem in loaded.problems] == [where]
    with pytest.raises(ConfigError, match=f"error: .*: {where}: ") as refused:
        must_start(loaded)
    assert "default is used" not in str(refused.value)


@pytest.mark.parametrize(
    ("section", "field"), [("replicas", "key"), ("audit", "chain_key")], ids=["replicas.key", "audit.chain_key"]
)
def test_a_short_key_is_not_shown(load_file: Load, section: str, field: str) -> None:
    (problem,) = load_file(SERVERS | {section: {field: "hunter2"}}).problems
    assert "Expected a text of 32 characters or more" in str(problem)
    assert "hunter2" not in str(problem)


def test_the_secrets_of_settings_are_known(load_file: Load, tmp_path: Path) -> None:
    """Proves: D1. Each of them alone: no other place gives it away."""
    chain, group, tls, hook = "chain-" * 6, "group-" * 6, "tls-word", "whsec_" + "Qm" * 20
    receiver = {"name": "x", "url": "http://a", "secret": hook}
    files = {"certificate": "a.pem", "key": "b.pem", "client_ca": "c.pem", "key_password": tls}
    sections: list[tuple[dict[str, object], str]] = [
        ({"audit": {"chain_key": chain}}, chain),
        ({"replicas": {"key": group}}, group),
        ({"http": {"tls": files}}, tls),
        ({"notify": [receiver]}, hook),
        ({"storage": "postgresql://me:db-word@host/db"}, "db-word"),
    ]
    for section, secret in sections:
        loaded = load_file(SERVERS | section)
        assert not loaded.problems
        assert secret in loaded.secrets, section
    loaded = load_file(SERVERS | {"http": {"tls": files}})
    assert loaded.tls is not None
    names = ("certificate", "key", "client_ca")
    assert [getattr(loaded.tls, name) for name in names] == [str(tmp_path / files[name]) for name in names]


def test_a_comment_is_no_server_and_a_server_may_have_a_name_like_one(load_file: Load) -> None:
    loaded = load_file({"mcpServers": {"_note": "mine", "//": "ours", "_own": {"command": "x"}}})
    assert [(server.key, server.command) for server in loaded.config.servers] == [("_own", "x")]


def test_doubled_keys(load_file: Load) -> None:
    loaded = load_file('{"mcpServers": {}, "mcpServers": {"a": {"command": "x"}}, "http": {"port": 1, "port": 2}}')
    assert [problem.where for problem in loaded.problems] == ["mcpServers", "http.port"]
    assert loaded.config.http.port == 2


def test_an_expression_that_is_none_is_told_by_its_place(load_file: Load) -> None:
    loaded = load_file({**SERVERS, "redact": {"also": ["EMP-[0-9]+", "(open"]}})
    (problem,) = loaded.problems
    assert "redact.also[1]: Expected a regular expression (missing ), unterminated subpattern" in str(problem)
    assert str(problem).count("(open") == 1
    assert loaded.config.redact.also == ()
