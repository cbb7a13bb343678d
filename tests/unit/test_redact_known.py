"""Known secrets go out of texts however they are written, and nothing else does."""

import base64
import json
import string
import textwrap
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.redaction.redactor import REDACTED, Redactor
from tests.peers.canary import AWKWARD, TAME, TEXT_ENCODERS, sightings

from .strategies import ANY_TEXT, json_values

KEY = "fPq0WzR9aZzW5tR77x1"
LOGIN = f"fPq0{AWKWARD}9aZzW5tR{TAME}x1"
PEM = "\n".join(["-----BEGIN TEST KEY-----", *textwrap.wrap("QWxhZGRpbjpvcGVuIHNlc2FtZQ7" * 12, 64), "-----END-----"])

# What a secret may look like: a key, a pass phrase, anything; always something that is no word of the texts around it.
SECRETS = (
    st.one_of(
        st.text(string.ascii_letters + string.digits, min_size=8, max_size=40),
        st.text(string.ascii_letters + string.digits + "-_.~+/=", min_size=8, max_size=60),
        st.text(string.printable, min_size=8, max_size=30),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20),
    )
    .map(str.strip)
    .filter(lambda text: len(text) > 7 and text not in REDACTED)
)
BYTES = st.binary(max_size=5)


@pytest.mark.parametrize("how", TEXT_ENCODERS)
@pytest.mark.parametrize("secret", [KEY, LOGIN])
def test_a_secret_goes_in_every_spelling(how: str, secret: str) -> None:
    """Proves: D9, E8"""
    written = TEXT_ENCODERS[how](secret)
    told = Redactor([secret], patterns=False)(f"it was {written}, they say")
    assert told == f"it was {REDACTED}, they say"


@given(SECRETS, st.sampled_from(sorted(TEXT_ENCODERS)), st.sampled_from(sorted(TEXT_ENCODERS)), ANY_TEXT)
@example("\\\\\\\\'\"'\"", "JSON", "repr", "")
@example("00000000", "XML", "JSON", "0")
@example("%25%25%2525", "percent", "percent twice", "%")
def test_a_secret_goes_in_spellings_of_spellings(secret: str, inner: str, outer: str, around: str) -> None:
    """Proves: D9. Escaped twice in different ways, in texts that were escaped with it."""
    text = TEXT_ENCODERS[outer](f"{{{TEXT_ENCODERS[inner](secret)}}}")
    told = Redactor([secret], patterns=False)(around + text + around)
    if inner in ("plain", "JSON") or outer in ("plain", "JSON", "JSON in JSON"):
        assert REDACTED in told
        assert sightings(told.encode("utf-8", "replace"), secret) == []


@given(SECRETS, BYTES, BYTES, st.sampled_from([base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes]))
@example("xxxxxxxx", b"\0", b"\0", base64.b64encode)
def test_a_secret_goes_inside_longer_base64(secret: str, before: bytes, after: bytes, encode: Any) -> None:
    """Proves: D9. `user:secret` of a login, at any of the three alignments, in lines too."""
    text = encode(before * 7 + secret.encode() + after * 20).decode()
    for written in (text, json.dumps(text)):
        told = Redactor([secret], patterns=False)(f"Basic {written}")
        assert REDACTED in told
        assert sightings(told.encode(), secret) == []


@given(SECRETS, BYTES, st.booleans())
def test_a_secret_goes_in_hexadecimal(secret: str, around: bytes, large: bool) -> None:
    """Proves: D9"""
    text = (around + secret.encode() + around).hex()
    told = Redactor([secret], patterns=False)(text.upper() if large else text)
    assert REDACTED in told
    assert sightings(told.encode(), secret) == []


@given(st.lists(SECRETS, min_size=1, max_size=8), st.data())
def test_many_secrets_go_together(secrets: list[str], data: st.DataObject) -> None:
    """Proves: D9. Whichever is part of which, and where one ends in the next."""
    said = data.draw(st.lists(st.sampled_from(secrets), min_size=1, max_size=10))
    told = Redactor(secrets, patterns=False)("".join(said))
    assert not [secret for secret in secrets if secret in told]


@given(json_values(), st.lists(SECRETS, max_size=3))
def test_what_holds_no_secret_stays_itself(value: Any, secrets: list[str]) -> None:
    """The same object, so that nothing is copied for nothing."""
    if not any(secret in json.dumps(value, ensure_ascii=False) for secret in secrets):
        assert Redactor([KEY], patterns=False).value(value) is value


def test_the_words_of_a_key_file_are_secrets_too() -> None:
    """Proves: D9. A server prints a file line by line, or its JSON with line breaks escaped."""
    redact = Redactor([PEM, json.dumps({"type": "account", "private_key": f"{KEY}\n{KEY[::-1]}\n"})], patterns=False)
    for line in PEM.splitlines()[1:-2]:
        assert redact(f"> {line}") == f"> {REDACTED}"
    assert redact(KEY) == redact(KEY[::-1]) == REDACTED
    assert redact("type account private_key") == "type account private_key"


def test_a_long_secret_is_known_by_its_pieces() -> None:
    """Proves: D9. Half of it is still a secret."""
    secret = "".join(f"{number:x}-" for number in range(5000, 9000))
    told = Redactor([secret], patterns=False)(f"a {secret[:3000]} b")
    assert told.startswith(f"a {REDACTED}")
    assert len(told) < 300


@pytest.mark.parametrize("length", [401, 512, 513, 700, 767])
def test_the_end_of_a_long_secret_is_known_too(length: int) -> None:
    """Proves: D9. Also if it is shorter than a piece; spaces keep its words from being known for themselves."""
    secret = "".join(f"{number:x}" + " " * (number % 3 == 0) for number in range(5000, 5300))[:length].strip()
    redact = Redactor([secret], patterns=False)
    assert redact(f"a {secret} b") == f"a {REDACTED} b"
    assert redact(secret[-256:]) == REDACTED


def test_secrets_that_overlap_go_together() -> None:
    """Proves: D9. What one begins with may stand in the middle of another."""
    assert Redactor(["QabZde", "ZdefgH"], patterns=False)("a QabZdefgH b") == f"a {REDACTED} b"


@pytest.mark.parametrize("before", [0, 1, 20, len(KEY) - 1, len(KEY)])
def test_a_secret_goes_wherever_it_stands_in_a_long_text(before: int) -> None:
    """Proves: D9. A long text is searched block by block."""
    filler = "." * (64 * 1024 - before)
    redact = Redactor([KEY], patterns=False)
    assert redact(f"{filler}{KEY}{filler}{KEY}") == f"{filler}{REDACTED}{filler}{REDACTED}"


def test_white_space_around_a_secret_is_none_of_it() -> None:
    redact = Redactor([f"  {KEY}\n", " " * 9, "\n\n a b \n\n"])
    assert redact(f"x{KEY}x") == f"x{REDACTED}x"
    assert redact(" " * 20) == " " * 20
    assert redact("a b") == "a b"


def test_secrets_that_come_later_are_learnt() -> None:
    redact = Redactor([KEY])
    assert redact(f"{KEY} {LOGIN}") == f"{REDACTED} {LOGIN}"
    redact.add([LOGIN])
    assert redact(f"{KEY} {LOGIN}") == f"{REDACTED} {REDACTED}"


def test_what_is_passed_on_loses_known_secrets_alone() -> None:
    """Proves: D9. An upstream's own error, say: nothing in it is guessed at."""
    error = {"code": 401, "data": {"password": "x", "url": f"https://e.com/?key={KEY}&a=1"}, KEY: None}
    told = {"code": 401, "data": {"password": "x", "url": f"https://e.com/?key={REDACTED}&a=1"}, REDACTED: None}
    assert Redactor([KEY]).known(error) == told
    assert Redactor([KEY]).known(f"no {KEY}") == f"no {REDACTED}"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("aaaaaa", "a" * 60_000),
        ("abcabcabcabd", "abc" * 20_000),
        ("\\\\\\\\x\\\\\\\\y", "\\" * 60_000),
        ("%%%%%%%%", "%25" * 20_000),
        ("x" * 40, base64.b64encode(b"x" * 30).decode() + "\\n" * 20_000),
        ("''''''''", "'\\''" * 15_000),
    ],
)
def test_nobody_makes_the_search_slow(secret: str, text: str) -> None:
    """It ends: what took a step for each pair of characters would not."""
    told = Redactor([secret], patterns=False)(f"{text} {KEY}")
    assert told.endswith(KEY)
