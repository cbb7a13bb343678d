"""The entries of `notify`: one that cannot be used costs itself, and no message repeats a secret."""

from typing import Any, Final

import pytest

from aggregator.notify.receivers import MOST
from tests.config.conftest import Load

SERVERS: Final[dict[str, Any]] = {"mcpServers": {"a": {"command": "x"}}}
GOOD: Final = {"name": "good", "url": "https://hooks.example.com/T0123/B0123/Zm9vYmFyYmF6cXV4MTIz?token=abcdefgh"}


@pytest.mark.parametrize(
    ("entry", "where", "said"),
    [
        (5, "notify[0]", "Expected an object in { }, got a number"),
        ({"url": "http://a"}, "notify[0].name", "Expected a value"),
        ({"name": "x"}, "notify[0]", "Expected either `url` or `command`"),
        ({"name": "x", "url": "http://a", "command": "b"}, "notify[0]", "Expected either `url` or `command`"),
        ({"name": "x", "url": "ftp://s3cr3t"}, "notify[0].url", "Expected an address such as https://"),
        ({"name": "x", "url": "http://a:b@[s3cr3t"}, "notify[0].url", "Expected an address such as https://"),
        ({"name": "x", "url": "http://a", "secret": "whsec_s3cr3t"}, "notify[0].secret", "24 to 64 bytes in base64"),
        ({"name": "x", "url": "http://a", "secret": "A" * 40}, "notify[0].secret", "`openssl rand -base64 32`"),
        ({"name": "x", "url": "${NO_SUCH}"}, "notify[0].url", "NO_SUCH"),
        ({"name": "x", "url": "http://a", "events": ["server"]}, "notify[0].events[0]", '"server.down"'),
        ({"name": "x", "url": "http://a", "headers": {"a b": "s3cr3t"}}, "notify[0].headers", "names of letters"),
        ({"name": "x", "command": "a\0b"}, "notify[0]", "texts without NUL"),
        ({"name": "good", "url": "http://a"}, "notify[1].name", "another receiver 'good'"),
    ],
)
def test_a_bad_entry_costs_itself(load_file: Load, entry: Any, where: str, said: str) -> None:
    """E9: the others are used, and the message names the place."""
    entries = [GOOD, entry] if where.startswith("notify[1]") else [entry, GOOD]
    loaded = load_file({**SERVERS, "notify": entries})
    (problem,) = loaded.problems
    assert (problem.where, problem.severity) == (where, "error")
    assert said in problem.message
    assert "s3cr3t" not in str(problem)
    assert [one.url for one in loaded.config.notify] == [GOOD["url"]]


@pytest.mark.parametrize("notify", [{}, {"url": "http://a"}, "http://a", 5])
def test_what_is_no_list_is_said_to_be_none(load_file: Load, notify: Any) -> None:
    loaded = load_file({**SERVERS, "notify": notify})
    assert [problem.where for problem in loaded.problems] == ["notify"]
    assert loaded.config.notify == ()


def test_misspelt_keys_comments_and_too_many(load_file: Load) -> None:
    entries = [{"name": f"n{number}", "url": "http://a", "//": "mine", "formt": "slack"} for number in range(MOST + 1)]
    loaded = load_file({**SERVERS, "notify": entries})
    assert len(loaded.config.notify) == MOST
    assert "Did you mean `format`?" in loaded.problems[0].fix
    assert [problem.where for problem in loaded.problems if problem.severity == "error"] == [f"notify[{MOST}]"]


def test_addresses_and_secrets_are_taken_out_of_texts(load_file: Load) -> None:
    """C7: the address of a chat service's webhook is a key to its channel; its host is a word."""
    secret = "whsec_" + "Qm" * 20
    entry = {**GOOD, "secret": secret, "headers": {"Authorization": "Bearer hunter2hunter2"}}
    loaded = load_file({**SERVERS, "notify": [entry]})
    text = f"{GOOD['url']} {secret} hunter2hunter2 Zm9vYmFyYmF6cXV4MTIz hooks.example.com"
    shown = loaded.redactor(text)
    for hidden in (secret, "hunter2", "Zm9v", "abcdefgh"):
        assert hidden not in shown
    assert "hooks.example.com" in shown
    assert loaded.config.notify[0].shown == "https://hooks.example.com/…"
