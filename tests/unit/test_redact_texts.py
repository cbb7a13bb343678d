"""Secrets that nobody told us of: by the names they are given, in addresses, in headers; and ordinary texts stay."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.redaction.redactor import REDACTED, Redactor

from .strategies import ANY_TEXT

redact = Redactor()
ROOT = Path(__file__).resolve().parents[2]
R = REDACTED

NAMED = {
    'x {"password":"correct horse","n":1}': f'x {{"password":"{R}","n":1}}',
    r'{"t":"{\"password\":\"a\\\"bc\\\\\",\"user\":\"x\"}"}': rf'{{"t":"{{\"password\":\"{R}\",\"user\":\"x\"}}"}}',
    "{'api_key': 'abc', 'b': 2}": f"{{'api_key': '{R}', 'b': 2}}",
    '{"password": 12345678, "port": 8080}': f'{{"password": {R}, "port": 8080}}',
    '{"session": 12345678, "max_token": 40960}': '{"session": 12345678, "max_token": 40960}',
    "password=hunter2x": f"password={R}",
    "login failed (user=bob password=correcthorse)": "login failed (user=bob password=correcthorse)",
    "host=db user=bob password=correcthorse dbname=x": f"host=db user=bob password={R} dbname=x",
    "DB_PASSWORD=correcthorse": f"DB_PASSWORD={R}",
    "Password: hunter2x": f"Password: {R}",
    "client secret = abc123XYZ": f"client secret = {R}",
    "Using API key: a8f5f167f44f": f"Using API key: {R}",
    "api_key%3Da8f5f167f44f": f"api_key%3D{R}",
    "run --api-key a8f5f167f44f --verbose": f"run --api-key {R} --verbose",
    "run --token='a8f5f167 x1'": "run --token='a8f5f167 x1'",
    "AccountName=x;AccountKey=abc/def+123==;EndpointSuffix=y": f"AccountName=x;AccountKey={R};EndpointSuffix=y",
    "Authorization: Bearer abc.def12": f"Authorization: Bearer {R}",
    "> authorization: token abcdefgh": f"> authorization: token {R}",
    "{'Authorization': 'Basic abc'}": f"{{'Authorization': '{R}'}}",
    "(b'authorization', b'Bearer foo12345')": f"(b'authorization', b'Bearer {R}')",
    "Proxy-Authorization: Bearer abcdefgh": f"Proxy-Authorization: Bearer {R}",
    "Proxy-Authorization: Digest abcdefgh ijk\nnext: line": f"Proxy-Authorization: Digest {R}\nnext: line",
    "HTTP_AUTHORIZATION: Basic abcdefgh": f"HTTP_AUTHORIZATION: Basic {R}",
    "Cookie: a=b; c=d\nnext: line": f"Cookie: {R}\nnext: line",
    "Set-Cookie: sid=abc; Path=/": f"Set-Cookie: {R}",
    "Mcp-Session-Id: 17ab17ab17ab": f"Mcp-Session-Id: {R}",
    "said 'Bearer a8f5f167f44f'": f"said 'Bearer {R}'",
    "Basic dXNlcjpzZWNyZXQ= is a login": f"Basic {R} is a login",
    "headers=<CIMultiDictProxy('X-A': 'v', 'B': 'x')>, x": f"headers=<CIMultiDictProxy({R})>, x",
    "Headers({'host': 'a', 'x': 'b'})": f"Headers({R}}})",
}

# Schemes whose credentials are a list of parameters, as they stand in a header.
PARAMETERS = (
    'Digest username="u", nonce="n1", response="abc"',
    'Digest username="u",nonce="n1",uri="/a?b=c,d",qop=auth,nc=00000001,response="abc",opaque=""',
    'Digest username="a \\"b\\" c", response = "abc", userhash=false',
    "Digest username*=UTF-8''J%C3%A4s, response=abc",
    'Digest username="u",\r\n response="abc",\n\tcnonce="d"',
    'OAuth realm="x", oauth_consumer_key="k", oauth_signature="abc"',
    'Hawk id="d", ts="13", nonce="j", mac="6R4rV5iE="',
    "AWS4-HMAC-SHA256 Credential=AKID/2013/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=fe5f",
    'Signature keyId="k",algorithm="hs2019",headers="(created) host",signature="abc=="',
    'Token token="abc", nonce="def"',
    "vapid t=eyJ.a.b, k=BDd3",
    "SCRAM-SHA-256 sid=AAAA,data=biwsbj1",
    "Unheard-Of a=b",
)

ADDRESSED = {
    "cannot reach https://u:pa@e.com/sse?key=abc%2Fdef#frag.": f"cannot reach https://{R}@e.com/sse?{R}.",
    "url='http://e.com:80/p?key=abc', x": f"url='http://e.com:80/p?{R}', x",
    "URL('http://e.com/#access_token=abc')": f"URL('http://e.com/#{R}')",
    "GET /mcp?key=abc HTTP/1.1": f"GET /mcp?{R} HTTP/1.1",
    r'{"u":"https:\/\/e.com\/p?key=abc"}': rf'{{"u":"https:\/\/e.com\/p?{R}"}}',
    r'{"u":"https:\/\/u:pa@e.com\/x"}': rf'{{"u":"https:\/\/{R}@e.com\/x"}}',
    "see (https://e.com/p?x=1), ok?": f"see (https://e.com/p?{R}), ok?",
    "postgresql+asyncpg://u:p@ss/w#rd@db:5432/x?sslmode=y": f"postgresql+asyncpg://{R}@db:5432/x?{R}",
    "redis://:p4ss@h:6379/0": f"redis://{R}@h:6379/0",
    "https://e.com/@scope/pkg and http://[::1]:80/#top": "https://e.com/@scope/pkg and http://[::1]:80/#top",
    "did it work?x=1 or why?": f"did it work?{R} or why?",
    "file:///home/me/x.py": "file:///home/me/x.py",
}


@pytest.mark.parametrize("header", ["Authorization", "proxy-authorization", "HTTP_PROXY_AUTHORIZATION"])
@pytest.mark.parametrize("value", PARAMETERS)
def test_credentials_of_parameters_are_hidden_to_the_last(header: str, value: str) -> None:
    """Proves: D9. Whatever the scheme, and however the header is written; what follows it stays."""
    scheme = value.partition(" ")[0]
    assert redact(f"> {header}: {value}\nnext: line") == f"> {header}: {scheme} {R}\nnext: line"
    assert redact(f"curl -H '{header}: {value}' x") == f"curl -H '{header}: {scheme} {R}' x" or "'" in value
    as_json = json.dumps({header: value, "other": "stays"})
    assert redact(as_json) == f'{{"{header}": "{R}", "other": "stays"}}'
    again = json.dumps({"log": f"{header}: {value}", "other": "stays"})
    assert redact(again) == f'{{"log": "{header}: {scheme} {R}", "other": "stays"}}' or "\n" in value
    quoted = json.dumps(value)
    assert redact(f"{header}={quoted} x=1") == f'{header}="{scheme} {R}" x=1'


@pytest.mark.parametrize("text", NAMED)
def test_names_tell_of_the_values_behind_them(text: str) -> None:
    """Proves: D9"""
    assert redact(text) == redact.value(text) == NAMED[text]


@pytest.mark.parametrize("text", ADDRESSED)
def test_addresses_are_told_without_what_they_carry(text: str) -> None:
    """Proves: D9, E8"""
    assert redact(text) == ADDRESSED[text]


def test_an_address_that_is_kept_loses_its_secrets_alone() -> None:
    """Proves: D9. What an agent asked for is worth knowing; passwords and keys are not."""
    text = "https://bob:hunter2@e.com/p?q=cats&api_key=abc&key=a8f5f167f44f&key=17&X-Amz-Signature=a8f5f167f44f#top"
    kept = f"https://bob:{R}@e.com/p?q=cats&api_key={R}&key={R}&key=17&X-Amz-Signature={R}#top"
    assert redact.value(text) == kept
    token = "a8f5f167f44f"
    assert redact.value(f"https://{token}@github.com/a/b") == f"https://{R}@github.com/a/b"
    assert redact.value("https://me@e.com/") == "https://me@e.com/"


@pytest.mark.parametrize(
    "text",
    [
        "the bearer token required by RFC 6750, and basic authentication",
        "password: must have at least 8 characters",
        "Authorization: required for all methods",
        "token=get_token1() and password=password, api_key=settings.api_key_2[0]",
        "max_tokens=4096 token_count=12 next_page_token=abc123 tokens: 17",
        "PWD=/home/me/project1; OLDPWD=/tmp/x1",
        "password=${DB_PASSWORD} token=<your-token-1> secret={{ secret1 }}",
        "keyboard=qwerty1 author=me2 monkey: banana3",
        "skipped task-12345678901234567890abc and disk-usage-of-volume-17",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b, sha512-" + "A" * 86 + "==",
        "a_very_long_identifier_that_nobody_took_for_a_key_2",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
        "12:00:01 INFO server github is ready in 0.31 s: 26 tools at http://127.0.0.1:8642/mcp",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    assert redact(text) is text
    assert redact.value(text) is text


def test_our_own_prose_and_code_stay() -> None:
    """Thousands of lines about passwords, tokens and keys, with none of them inside but the examples of the docs."""
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("aggregator/**/*.py")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 10_000
    hidden = [line for line in lines if redact.value(line) != line]
    examples: tuple[str, ...] = (
        "agk_",
        "$AUTH",
        "USER:PASSWORD@",
        "DATABASE_PASSWORD",
        "${file:/run/secrets",
        "LoadCredential=",
    )
    # Names of files, which nothing tells from keys.
    examples += ('"client_key": "',)
    assert [line for line in hidden if not any(example in line for example in examples)] == []


@given(st.lists(st.sampled_from([*NAMED, *ADDRESSED, "\n", "'", '"', "\\", "\0"]) | ANY_TEXT, max_size=8))
def test_twice_is_no_different_from_once(parts: list[str]) -> None:
    told = redact(" ".join(parts))
    assert redact(told) == told


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "password=",
            '"password":"',
            "token: '",
            "?",
            "?a=",
            "://",
            "://u:p@",
            ":\\/\\/",
            "Headers({",
            "Cookie: ",
            "--key ",
        ),
        *("Bearer ", "bearer+", "basic+", "-----BEGIN PRIVATE KEY-----", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "sk-", "xsk-"),
        *("a.", "A" * 63 + "\n", "\\", '\\"', "%3D", "pat", "agk_", "MNO", "1//0", "hv", "dp.pt.", "('key', '", "@:"),
    ],
)
def test_nobody_makes_the_search_slow(piece: str) -> None:
    """It ends: what took a step for each pair of characters would not."""
    text = piece * (60_000 // len(piece))
    assert len(redact(text)) <= len(text) + len(R)
    assert len(redact.value([text])[0]) <= len(text) + len(R)
