"""Credentials that come and go: known from before they are sent until a while after another took their place."""

import json
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest

from aggregator.redaction import known_secrets as module
from aggregator.redaction.known_secrets import GRACE, PassingCredentials
from aggregator.redaction.redactor import Redactor

TOKEN = "opaque/token+of-a.person_0123"
OTHER = "another-token-of-the-same-person"


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def hidden(known: PassingCredentials, text: str) -> bool:
    return any(True for _ in known.spans(f"before {text} after"))


WRITTEN: list[Callable[[str], str]] = [
    str,
    lambda token: f"Bearer {token}",
    lambda token: b64encode(f"x{token}y".encode()).decode(),
    lambda token: quote(token, safe=""),
    lambda token: token.encode().hex(),
    lambda token: json.dumps(json.dumps({"authorization": token})),
]


@pytest.mark.parametrize("written", WRITTEN)
def test_it_is_found_as_configured_secrets_are(written: Callable[[str], str]) -> None:
    redactor = Redactor(patterns=False)
    assert redactor.known(written(TOKEN)) == written(TOKEN)
    redactor.learn_credentials("a", {"access_token": TOKEN})
    for found in (redactor.known(written(TOKEN)), redactor.value(written(TOKEN)), redactor(written(TOKEN))):
        assert "[redacted]" in found
        assert TOKEN not in found


def test_one_that_was_replaced_is_known_for_a_while() -> None:
    clock = Clock()
    known = PassingCredentials(6, clock)
    known.learn("a", {"access_token": TOKEN})
    known.learn("a", {"refresh_token": "the-refresh-token-1"})
    clock.time = 100.0
    known.learn("a", {"access_token": OTHER})
    assert hidden(known, TOKEN)
    assert hidden(known, OTHER)
    clock.time = 100.0 + GRACE
    known.learn("b", {"access_token": "the-token-of-somebody"})
    assert not hidden(known, TOKEN)
    for still in (OTHER, "the-refresh-token-1", "the-token-of-somebody"):
        assert hidden(known, still)


def test_a_value_of_two_sources_is_known_for_both() -> None:
    clock = Clock()
    known = PassingCredentials(6, clock)
    for source in "ab":
        known.learn(source, {"client_secret": TOKEN})
    known.learn("a", {"client_secret": OTHER})
    clock.time = 2 * GRACE
    known.learn("a", {"client_secret": "a-third-secret"})
    assert hidden(known, TOKEN)


def test_one_that_comes_back_is_known_again() -> None:
    clock = Clock()
    known = PassingCredentials(6, clock)
    for token in (TOKEN, OTHER, TOKEN):
        known.learn("a", {"access_token": token})
    clock.time = 2 * GRACE
    known.learn("a", {"refresh_token": "something-else"})
    assert hidden(known, TOKEN)
    assert not hidden(known, OTHER)


def test_many_are_all_known_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 40)
    known = PassingCredentials(6, Clock())
    tokens = [f"token-{number:04d}-{number * 7919:08x}" for number in range(60)]
    for number, token in enumerate(tokens):
        known.learn(str(number), {"access_token": token})
        assert hidden(known, token)
    assert all(hidden(known, token) for token in tokens[20:])
    assert len(known) <= 60


def test_what_is_known_is_learned_once() -> None:
    known = PassingCredentials(6, Clock())
    assert not known.knows("a", {"access_token": TOKEN})
    known.learn("a", {"access_token": TOKEN})
    assert known.knows("a", {"access_token": TOKEN})
    assert not known.knows("b", {"access_token": TOKEN})
    assert not known.knows("a", {"access_token": OTHER})
