"""Who is behind a request: every trick with headers, addresses and endpoints."""

from hashlib import blake2b
from typing import Any

import pytest

from aggregator.domain.errors import OperatorError
from aggregator.identity import keys
from aggregator.identity.identify import Claim, FrontendName, Mode, Refused, RequestFacts, SentToken, identify
from aggregator.identity.keyring import Keyring
from aggregator.identity.keys import new_key
from aggregator.identity.launch import launch_agent
from aggregator.identity.source import source_of
from aggregator.identity.throttle import FREE, Throttle

NOW = 1_000_000.0
BOT = new_key("bot", now=0.0)
OTHER = new_key("other", now=0.0)
STRANGER = new_key("bot", now=0.0)
EXPIRED = new_key("bot", now=0.0, expires=1.0)
KEY = BOT.text
# The id of a key that is there, with the secret of another.
_BODY = KEY[:15] + STRANGER.text[15:-6]
WRONG_SECRET = _BODY + keys._checksum(_BODY)
CLAIM = Claim("bot", BOT.record.key_id)


def ring() -> Keyring:
    keyring = Keyring()
    keyring.use_policy_keys([BOT.record, OTHER.record, EXPIRED.record])
    return keyring


def known(
    peer: str | None = "10.0.0.1",
    host: str = "localhost",
    mark: bytes = b"accept",
    frontend: FrontendName = "http",
    **more: Any,
) -> RequestFacts:
    """What a frontend knows of a request; `mark` is a header that it has."""
    return RequestFacts(frontend, source=source_of(peer, host, "1.1", [(mark, b"x")]), **more)


def ask(mode: Mode = "keys", throttle: Throttle | None = None, now: float = NOW, **facts: Any) -> Claim | Refused:
    found = identify(known(**facts), ring(), throttle or Throttle(), mode, now)
    assert not isinstance(found, SentToken)
    return found


def status(answer: Claim | Refused) -> int | Claim:
    return answer.status if isinstance(answer, Refused) else answer


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"authorization": (f"Bearer {KEY}",)}, CLAIM),
        ({"authorization": (f"bEARER   {KEY} ",)}, CLAIM),
        ({"api_key": (KEY,)}, CLAIM),
        ({"api_key": (f" {KEY}\t",)}, CLAIM),
        ({"authorization": (f"Bearer {KEY}",), "api_key": (KEY,)}, CLAIM),
        ({"authorization": (f"Bearer {KEY}",), "api_key": (OTHER.text,)}, 400),
        ({"authorization": (f"Bearer {KEY}",), "api_key": ("",)}, 400),
        ({"authorization": (f"Bearer {KEY}", f"Bearer {KEY}")}, 400),
        ({"authorization": (f"Bearer {KEY}", "")}, 400),
        ({"api_key": (KEY, KEY)}, 400),
        ({"api_key": (KEY, OTHER.text)}, 400),
        ({}, 401),
        ({"authorization": ("",)}, 401),
        ({"api_key": ("",)}, 401),
        ({"authorization": (KEY,)}, 401),
        ({"authorization": (f"Bearer{KEY}",)}, 401),
        ({"authorization": (f"Bearer\t{KEY}",)}, 401),
        ({"authorization": (f"Bearer {KEY}, Bearer {KEY}",)}, 401),
        ({"authorization": (f"Bearer {KEY},{OTHER.text}",)}, 401),
        ({"authorization": (f"Bearer {KEY} {OTHER.text}",)}, 401),
        ({"authorization": (f"Bearer Bearer {KEY}",)}, 401),
        ({"authorization": (f"Basic {KEY}",)}, 401),
        ({"authorization": ("Basic dXNlcjpwdw==",), "api_key": (KEY,)}, 401),
        ({"authorization": (f"Bearer {KEY}\r\nX-Evil: 1",)}, 401),
        ({"authorization": (f"Bearer {KEY}\x00",)}, 401),
        ({"authorization": (f"\xa0Bearer {KEY}",)}, 401),
        ({"api_key": (f"Bearer {KEY}",)}, 401),
        ({"api_key": (f"{KEY},{KEY}",)}, 401),
        ({"api_key": (KEY.upper(),)}, 401),
        ({"api_key": (KEY + "\u200b",)}, 401),
        ({"api_key": ("a" * 1_000_000,)}, 401),
        ({"api_key": (STRANGER.text,)}, 401),
        ({"api_key": (EXPIRED.text,)}, 401),
        ({"api_key": (KEY,), "endpoint_agent": "bot"}, CLAIM),
        ({"api_key": (KEY,), "endpoint_agent": "other"}, 403),
        ({"api_key": (KEY,), "endpoint_agent": "BOT"}, 403),
        ({"api_key": (KEY,), "endpoint_agent": ""}, 403),
        ({"endpoint_agent": "bot"}, 401),
        ({"launch_agent": "bot"}, 401),
        ({"peer": "127.0.0.1"}, 401),
        ({"query": f"key={KEY}"}, 400),
        ({"query": f"a=1&x={KEY}", "api_key": (KEY,)}, 400),
        ({"query": KEY.replace("_", "%5F")}, 400),
        ({"query": "api_key=whatever"}, 400),
        ({"query": "Access-Token=x"}, 400),
        *[
            ({"query": f"{name}=whatever"}, 400)
            for name in ("apikey", "X-API-Key", "key", "access_token", "TOKEN", "authorization", "auth", "bearer")
        ],
        ({"query": "x=1&monkey=2&keyword=3", "api_key": (KEY,)}, CLAIM),
    ],
)
def test_with_keys(facts: dict[str, Any], expected: int | Claim) -> None:
    answer = ask(**facts)
    assert status(answer) == expected
    for text in (KEY, OTHER.text, STRANGER.text):
        assert text[15:] not in repr(answer) + repr(known(**facts))


LOCAL = Claim("local")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"peer": "127.0.0.1"}, LOCAL),
        ({"peer": "::1"}, LOCAL),
        ({"peer": "::ffff:127.0.0.1"}, LOCAL),
        ({"peer": "10.0.0.1"}, 403),
        ({"peer": None}, 403),
        ({"peer": "localhost.evil.example"}, 403),
        ({"peer": "127.0.0.1", "authorization": ("Basic abc", "Bearer x")}, LOCAL),
        ({"peer": "127.0.0.1", "query": "token=theirs"}, LOCAL),
        ({"peer": "127.0.0.1", "query": f"token={KEY}"}, 400),
        ({"peer": "127.0.0.1", "mark": b"x-forwarded-for"}, 403),
        ({"peer": "127.0.0.1", "host": "tools.example.com"}, 403),
        ({"peer": "127.0.0.1", "endpoint_agent": "bot"}, 401),
        ({"peer": "127.0.0.1", "launch_agent": "bot"}, LOCAL),
        ({"peer": "127.0.0.1", "api_key": (KEY,)}, CLAIM),
        ({"peer": "127.0.0.1", "api_key": (STRANGER.text,)}, 401),
        ({"peer": "127.0.0.1", "api_key": (STRANGER.text.upper(),)}, 401),
    ],
)
def test_open(facts: dict[str, Any], expected: int | Claim) -> None:
    assert status(ask("open", **facts)) == expected


@pytest.mark.parametrize("mode", ["open", "keys"])
def test_a_process_that_was_started(mode: Mode) -> None:
    assert ask(mode, frontend="stdio", peer=None) == LOCAL
    assert ask(mode, frontend="stdio", peer=None, launch_agent="bot") == Claim("bot")


def test_what_is_told_of_a_wrong_key() -> None:
    answers = {ask(api_key=(text,)) for text in (STRANGER.text, new_key("bot", now=0.0).text)}
    assert len(answers) == 1
    assert {ask(api_key=(WRONG_SECRET,))} == answers
    expired = ask(api_key=(EXPIRED.text,))
    assert isinstance(expired, Refused)
    assert "expired" in expired.reason


def test_guessing_is_slowed_for_the_guesser_alone() -> None:
    throttle = Throttle()
    guesses = [ask(throttle=throttle, api_key=(STRANGER.text,)) for _ in range(FREE + 2)]
    assert [status(guess) for guess in guesses] == [401] * FREE + [429, 429]
    last = guesses[-1]
    assert isinstance(last, Refused)
    assert last.retry_after == 2
    assert "wrong" in last.reason
    assert status(ask(throttle=throttle, api_key=(STRANGER.text,), peer="10.0.0.2")) == 401
    assert status(ask(throttle=throttle, api_key=("agk_",))) == 429


@pytest.mark.parametrize(
    "guess", [STRANGER.text, WRONG_SECRET, "agk_", "x" * 60_000], ids=["id", "secret", "beginning", "long"]
)
def test_a_valid_key_works_whatever_else_comes(guess: str) -> None:
    """Proves: D4. From the guesser's own address, at once, and with the very id that is guessed at."""
    throttle = Throttle()
    for number in range(200):
        assert isinstance(ask(throttle=throttle, api_key=(guess,), peer=f"10.0.0.{number % 7}"), Refused)
        assert ask(throttle=throttle, api_key=(KEY,), peer=f"10.0.0.{number % 7}") == CLAIM


def test_a_guess_costs_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D4. Known id or not, slowed or not; what cannot be a key costs none."""
    made: list[object] = []

    def counted(*given: Any, **more: Any) -> Any:
        made.append(given)
        return blake2b(*given, **more)

    monkeypatch.setattr(keys, "blake2b", counted)
    throttle = Throttle()
    for _ in range(FREE + 5):
        for guess, costs in ((STRANGER.text, 1), (WRONG_SECRET, 1), (KEY[:-1], 0), ("x" * 60_000, 0)):
            made.clear()
            assert isinstance(ask(throttle=throttle, api_key=(guess,)), Refused)
            assert len(made) == costs


def test_a_query_without_end_is_refused() -> None:
    assert status(ask(query="a=1&" * 300, api_key=(KEY,))) == 400
    assert status(ask(query="a=1&" * 200 + "to%6ben=x", api_key=(KEY,))) == 400
    assert ask(query="a=1&" * 200, api_key=(KEY,)) == CLAIM
    assert ask(query="&".join(["a=1"] * 256), api_key=(KEY,)) == CLAIM
    assert status(ask(query="&".join(["a=1"] * 257), api_key=(KEY,))) == 400


def test_asking_without_a_key_or_with_an_old_one_is_no_guessing() -> None:
    throttle = Throttle()
    for _ in range(50):
        assert status(ask(throttle=throttle)) == 401
        assert status(ask(throttle=throttle, api_key=(EXPIRED.text,))) == 401
    assert ask(throttle=throttle, api_key=(KEY,)) == CLAIM


def test_the_agent_a_process_is_started_for() -> None:
    assert launch_agent(None, {}) is None
    assert launch_agent(None, {"AGGREGATOR_AGENT": ""}) is None
    assert launch_agent(None, {"AGGREGATOR_AGENT": "env"}) == "env"
    assert launch_agent("flag", {"AGGREGATOR_AGENT": "env"}) == "flag"
    with pytest.raises(OperatorError, match="--agent: The name"):
        launch_agent("a b", {})
    with pytest.raises(OperatorError, match="AGGREGATOR_AGENT: The name"):
        launch_agent(None, {"AGGREGATOR_AGENT": "a/b"})
