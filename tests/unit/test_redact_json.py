"""JSON values without their secrets: by the names of fields, by what texts hold; the value itself is left alone."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.redaction.field_names import NameVerdict, SecretNames
from aggregator.redaction.redactor import REDACTED, Redactor

from .strategies import json_values

SECRET = "fPq0WzR9aZzW5tR77x1"
redact = Redactor([SECRET])

SURE = [
    "password",
    "passwd",
    "PASSWORD",
    "dbPassword",
    "db_password",
    "user-password",
    "passwordConfirmation",
    "new_password",
    "password2",
    "passphrase",
    "passcode",
    "secret",
    "clientSecret",
    "client_secret",
    "SECRET_KEY",
    "secretKey",
    "x-api-key",
    "apiKey",
    "api_key",
    "APIKEY",
    "apikey",
    "accessKey",
    "aws_secret_access_key",
    "privateKey",
    "private_key_pem",
    "access_token",
    "accessToken",
    "refresh_token",
    "id_token",
    "auth_token",
    "botToken",
    "Authorization",
    "proxy-authorization",
    "Cookie",
    "set-cookie",
    "cookies",
    "credential",
    "credentials",
    "jwt",
    "bearer",
    "MYSQL_PWD",
    "connectionString",
    "otp",
    "signing_key",
    "masterKey",
    "Mcp-Session-Id",
    "authorization_code",
    "passwordHash",
    "secret_value",
]
LIKELY = [
    "token",
    "TOKEN",
    "github_token",
    "auth",
    "session",
    "session_id",
    "sessionId",
    "pass",
    "db_pass",
    "sid",
    "pat",
    "pwd",
]
NOTHING = [
    "max_tokens",
    "maxTokens",
    "tokens",
    "token_count",
    "total_tokens",
    "next_page_token",
    "nextPageToken",
    "page_token",
    "syncToken",
    "continuationToken",
    "key",
    "keys",
    "keyboard",
    "primary_key",
    "sort_key",
    "author",
    "authors",
    "authority",
    "password_policy",
    "passwordLength",
    "secret_name",
    "cookie_consent",
    "auth_type",
    "token_type",
    "tokenizer",
    "credential_type",
    "bypass",
    "compass",
    "passenger",
    "path",
    "side",
    "inside",
    "passed",
    "keyword",
    "monkey",
    "donkey",
    "session_count",
    "sessions",
    "description",
    "type",
    "name",
    "id",
]


@pytest.mark.parametrize("name", SURE)
def test_names_that_surely_tell(name: str) -> None:
    """Proves: D9"""
    assert redact.value({"a": [{name: "correct horse"}]}) == {"a": [{name: REDACTED}]}
    assert redact.value({name: 12345678}) == {name: REDACTED}
    assert redact.value({name: ["one", {"two": "three"}]}) == {name: [REDACTED, {"two": REDACTED}]}
    nothings: list[Any] = [None, True, False, "", [], {}, "none", "true"]
    for nothing in nothings:
        value: dict[str, Any] = {name: nothing}
        assert redact.value(value) is value


@pytest.mark.parametrize("name", LIKELY)
def test_names_that_may_tell_are_judged_by_the_value(name: str) -> None:
    """Proves: D9. A token may be a word, a session a number or an object."""
    assert redact.value({name: "a8f5f167f44f"}) == {name: REDACTED}
    assert redact.value({name: ["a8f5f167f44f", "hello"]}) == {name: [REDACTED, "hello"]}
    for plain in ("hello", "a whole sentence of 5 words", 12, "/home/me/project1", {"id": "a8f5f167f44f"}, "${TOKEN1}"):
        value = {name: plain}
        assert redact.value(value) is value


@pytest.mark.parametrize("name", NOTHING)
def test_names_that_tell_nothing(name: str) -> None:
    value = {name: "a8f5f167f44f", "deeper": [{name: 5}]}
    assert redact.value(value) is value


def test_a_schema_says_what_a_password_is_and_holds_none() -> None:
    """Proves: C8"""
    schema = {"type": "object", "properties": {"password": {"type": "string", "description": "At least 8 letters."}}}
    assert redact.value(schema) is schema
    for described in ({"$ref": "#/$defs/word"}, {"anyOf": [{"type": "string"}], "title": "correct horse"}):
        value = {"properties": {"password": described}}
        assert redact.value(value) is value
    assert redact.value({"password": {"type": "mine", "a": "b"}}) == {"password": {"type": REDACTED, "a": REDACTED}}


def test_an_operators_own_names() -> None:
    """Proves: D9. Capitals and what joins the words do not matter; the operator's names are in `patterns`."""
    for patterns in (True, False):
        own = Redactor(fields=["customer_id", "iban"], patterns=patterns)
        value = {"customerId": "17", "CUSTOMER-ID": 18, "IBAN": "DE12", "id": 3, "password": "correct horse"}
        told = {**value, "customerId": REDACTED, "CUSTOMER-ID": REDACTED, "IBAN": REDACTED}
        assert own.value(value) == (told | {"password": REDACTED} if patterns else told)
        assert own("customer_id=a1b2c3d4") == f"customer_id={REDACTED}"


def test_an_operators_own_expressions() -> None:
    """Proves: D9. A group says what goes; without one, all of it."""
    own = Redactor(also=[r"\bEMP-\d+\b", r"card (\d+)-(\d+)", "^whole$"], patterns=False)
    assert own("EMP-17 has card 4111-1111") == f"{REDACTED} has card {REDACTED}-{REDACTED}"
    assert own.value(["whole", "a whole"]) == [REDACTED, "a whole"]


def test_texts_names_and_json_in_texts() -> None:
    """Proves: D9"""
    text = json.dumps({"user": "me", "api_key": "abc", "note": f"it is {SECRET}"})
    value = {
        "content": [{"type": "text", "text": text}],
        SECRET: {"x": f"https://e.com/?q=1&token=a8f5f167&b={SECRET}"},
    }
    told = json.dumps({"user": "me", "api_key": REDACTED, "note": f"it is {REDACTED}"})
    kept = {
        "content": [{"type": "text", "text": told}],
        REDACTED: {"x": f"https://e.com/?q=1&token={REDACTED}&b={REDACTED}"},
    }
    assert redact.value(value) == kept
    assert redact.value(text) == told


@given(json_values(st.sampled_from(["password", "token", "a", SECRET, f"x {SECRET}", "a8f5f167f44f", "key"])))
def test_a_value_is_never_changed(value: Any) -> None:
    """Proves: D9. What has a secret in it comes back as another; twice is no different from once."""
    before = copy.deepcopy(value)
    told = redact.value(value)
    assert value == before
    assert SECRET not in json.dumps(told)
    assert redact.value(told) == told
    assert (told is value) == (told == value)


def wrapped(kind: str, value: Any) -> Any:
    return {"list": [value], "object": {"a": value}, "named": {"password": [value]}}[kind]


@pytest.mark.parametrize("kind", ["list", "object", "named"])
@pytest.mark.parametrize("depth", [101, 2_000, 20_000])
def test_no_depth_breaks_it(kind: str, depth: int) -> None:
    """Proves: D9. What is deeper than anything serious goes with the secret in it."""
    clean: Any = "nothing"
    secret: Any = SECRET
    for _ in range(depth):
        clean, secret = wrapped(kind, clean), wrapped(kind, secret)
    if kind != "named":
        assert redact.value(clean) is clean
    told = redact.value(secret)
    for _ in range(200):
        if isinstance(told, dict | list):
            told = next(iter(told.values() if isinstance(told, dict) else told))
    assert told == REDACTED


def test_names_are_remembered_and_not_for_ever() -> None:
    names = SecretNames()
    for number in range(10_000):
        assert names.verdict(f"password{number}") is NameVerdict.SURELY
    assert len(names._known) < 5000
