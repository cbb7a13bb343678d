"""Which configured values are secret, and what is told of one server."""

from base64 import b64encode
from typing import Any

import pytest

from aggregator.config.server_parts import LaunchConfig
from aggregator.config.servers.secrets import secrets_in, secrets_in_address
from aggregator.redaction.redactor import REDACTED, Redactor
from aggregator.upstream.redaction import server_redaction

from .strategies import server

LOGIN = b64encode(b"me:correct horse").decode()


@pytest.mark.parametrize(
    ("fields", "secrets"),
    [
        ({"headers": {"X-Any": "value", "Authorization": "Bearer abc"}}, {"value", "Bearer abc", "abc"}),
        (
            {"headers": {"Proxy-Authorization": f"Basic {LOGIN}"}},
            {f"Basic {LOGIN}", LOGIN, "me:correct horse", "correct horse"},
        ),
        (
            {"headers": {"authorization": f"basic {LOGIN}", "cookie": "a=one"}},
            {f"basic {LOGIN}", LOGIN, "me:correct horse", "correct horse", "a=one", "one"},
        ),
        ({"headers": {"Authorization": "pass4 word"}}, {"pass4 word"}),
        ({"headers": {"Cookie": "a=one; b=two"}}, {"a=one; b=two", "one", "two"}),
        ({"env": {"API_KEY": "k", "GH_PAT": "p", "DEBUG": "verbose", "PATIENCE": "x"}}, {"k", "p"}),
        ({"env": {"DATABASE_URL": "postgres://me:p%40ss@db/x?sslmode=y"}}, {"p%40ss", "p@ss"}),
        ({"launch": {"env": {"TOKEN": "t"}, "args": ["--secret", "s"]}}, {"t", "s"}),
        (
            {"args": ["--api-key", "one", "--verbose", "--token=two", "DB_PASSWORD=three", "-y", "four"]},
            {"one", "two", "three"},
        ),
        ({"args": ["--key", "-x9Kd83hfKQ_pL", "--secret", "--read-only", "--token", "-v"]}, {"-x9Kd83hfKQ_pL"}),
        ({"args": ["--header", "Authorization: Bearer abc", "-H", "X-Any: b"]}, {"Bearer abc", "abc"}),
        (
            {"args": ["--env=KEY=one", "--env=MODE=b", "-eTOKEN=two", "--token=a=b", "a=TOKEN=c"]},
            {"one", "two", "a=b"},
        ),
        ({"args": ["--header=Authorization: Bearer abc", "--header=X-Any: b"]}, {"Bearer abc", "abc"}),
        ({"args": ["--url=https://e.com/?token=t&q=cats", "--db=redis://:pw@h/0"]}, {"t", "pw"}),
        ({"args": ["--auth", "--db=redis://:pw@h/0", "https://e.com/?token=t&q=cats"]}, {"pw", "t"}),
        (
            {"url": "https://me:pw@e.com/x?api_key=a%2Fb&q=cats", "proxy": "http://p:q%20q@h:1"},
            {"pw", "a/b", "q%20q", "q q"},
        ),
        ({"url": "https://e.com/s/8f14e45fceea167a5a36dedd4bea2543/mcp"}, {"8f14e45fceea167a5a36dedd4bea2543"}),
        ({"url": "https://a8f5f167f44f@e.com/?x=8f14e45fceea167a5a36"}, {"a8f5f167f44f", "8f14e45fceea167a5a36"}),
        (
            {"url": "https://me@e.com/a-path-that-is-long-enough/2026-07-28?q=cats", "args": ["x"], "headers": None},
            set(),
        ),
        ({"url": "https://[broken/?key=x", "proxy": 5, "args": "--token t", "env": ["a"], "launch": "x"}, set()),
    ],
)
def test_what_an_entry_holds_that_is_secret(fields: dict[str, Any], secrets: set[str]) -> None:
    """Proves: D1, E8"""
    assert set(secrets_in(fields)) == secrets


def test_what_an_address_holds_that_is_secret() -> None:
    """Proves: D1. The address of the database, say."""
    assert set(secrets_in_address("postgresql+asyncpg://me:pw@db/x?password=other")) == {"pw", "other"}
    assert set(secrets_in_address("sqlite+aiosqlite:////var/lib/a.db")) == set()
    assert set(secrets_in_address("no address")) == set()


def test_what_is_told_of_a_server_holds_nothing_it_was_given() -> None:
    """Proves: D1, D9. Values that no name calls secret too, if they are hard to guess."""
    told = server_redaction(
        server(
            env={"REGION": "eu-west", "WHO": "correct horse 7", "HOME_DIR": "/srv/data7", "TOKEN": "abcd"},
            args=("-y", "@scope/server@1.2", "9f86d081884c7d65", "plain-words-of-an-argument"),
            launch=LaunchConfig(
                command="x", args=("--key", "xyz9"), env={"BASE": "https://e.com/v1", "ID": "12345678"}
            ),
        )
    )
    stays = "eu-west /srv/data7 @scope/server@1.2 plain-words-of-an-argument https://e.com/v1"
    assert told(stays) == stays
    for given in ("correct horse 7", "abcd", "9f86d081884c7d65", "xyz9", "12345678"):
        assert told(f"it said {given}!") == f"it said {REDACTED}!"


def test_short_values_are_secrets_of_one_server_only() -> None:
    """Proves: D1. In the log of all they would take half of every line with them."""
    assert Redactor(["abcd"])("abcde") == "abcde"
    assert Redactor(["abcd"], 4)("abcde") == f"{REDACTED}e"
    assert Redactor(["a", "ab"], 0)("abc") == "abc"
