"""Tokens that must let no one in, one fault each, and those that must, at the gateway over HTTP.

A case makes a token from the issuers `one`, `two` and `strict`; all are accepted by the gateway, for `OURS`.
"""

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Final

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import utils
from joserfc import jwe
from joserfc.jwk import ECKey, RSAKey

from tests.authorization.authorization_server import AuthorizationServer
from tests.authorization.resource_harness import OTHERS, OURS, Issuers, ResourceHarness, ask, good
from tests.authorization.signing_keys import make_key, sign
from tests.peers.toolbox import Json

Case = Callable[[Issuers], str]


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def one(**claims: Any) -> Case:
    """A good token of `one`, but for these claims."""
    return lambda issuers: good(issuers["one"], **claims)


def facts(server: AuthorizationServer, **changes: Any) -> Json:
    """The claims of a good token, with changes; None takes one out."""
    now = int(time.time())
    whole = {"iss": server.issuer, "sub": "alice", "aud": OURS, "client_id": "host", "iat": now, "exp": now + 600}
    return {name: value for name, value in {**whole, **changes}.items() if value is not None}


def headed(kid: str | None = None, payload: bytes | None = None, says: Json | None = None, **header: Any) -> Case:
    """A token of `one` that is good but for the header, or for the payload; `kid` signs, `says` replaces the header."""

    def made(issuers: Issuers) -> str:
        server = issuers["one"]
        claims: Json | bytes = facts(server) if payload is None else payload
        algorithm, key = server.keys.keys[kid or server.keys.current]
        whole = {"alg": algorithm, "kid": kid or server.keys.current, "typ": "at+jwt", **header, **(says or {})}
        return sign(claims, key, {name: value for name, value in whole.items() if value is not None})

    return made


def raw(text: str) -> Case:
    """A token of `one` whose payload is this text; ISS and EXP are filled in."""

    def made(issuers: Issuers) -> str:
        server = issuers["one"]
        filled = text.replace("ISS", json.dumps(server.issuer)).replace("EXP", str(int(time.time()) + 600))
        return server.keys.sign(filled.encode("utf-8", "surrogatepass"), typ="at+jwt")

    return made


def unsigned(algorithm: object, signature: str = "") -> Case:
    """A token that claims an algorithm and carries a signature as given."""

    def made(issuers: Issuers) -> str:
        server = issuers["one"]
        header = {"alg": algorithm, "kid": server.keys.current, "typ": "at+jwt"}
        return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(facts(server)).encode())}.{signature}"

    return made


def mixed_up(issuers: Issuers) -> str:
    """Names `one`, signed with the key of `two`."""
    return issuers["two"].token("alice", audience=OURS, iss=issuers["one"].issuer)


def same_kid(issuers: Issuers) -> str:
    """Names `one` and one of its keys, signed by `two` with another key of that name."""
    key = issuers["two"].keys.keys[issuers["two"].keys.current][1]
    kid = issuers["one"].keys.current
    return sign(facts(issuers["one"]), key, {"alg": "ES256", "kid": kid, "typ": "at+jwt"})


def trailing_slash(issuers: Issuers) -> str:
    return good(issuers["one"], iss=f"{issuers['one'].issuer}/")


def foreign_key(algorithm: str, **header: Any) -> Case:
    """Signed with a key that no issuer has."""

    def made(issuers: Issuers) -> str:
        key = make_key(algorithm, 7)
        kid = header.get("kid", issuers["one"].keys.current)
        return sign(facts(issuers["one"]), key, {"alg": algorithm, "typ": "at+jwt", **header, "kid": kid})

    return made


def public_as_secret(form: str) -> Case:
    """HS256, with the public RSA key in one of its forms as the secret (RFC 8725, 2.1)."""

    def made(issuers: Issuers) -> str:
        key = issuers["one"].keys.keys["rsa"][1]
        assert isinstance(key, RSAKey)
        public = key.as_dict(private=False)
        secrets = {
            "pem": key.as_pem(private=False),
            "pem without the last line break": key.as_pem(private=False).rstrip(),
            "der": key.as_der(private=False),
            "jwk": json.dumps(public).encode(),
            "modulus": str(public["n"]).encode(),
        }
        return sign(facts(issuers["one"]), secrets[form], {"alg": "HS256", "kid": "rsa", "typ": "at+jwt"})

    return made


def with_key(kid: str, algorithm: str) -> Case:
    """Signed with a published key, under another algorithm than it is published for."""

    def made(issuers: Issuers) -> str:
        key = issuers["one"].keys.keys[kid][1]
        return sign(facts(issuers["one"]), key, {"alg": algorithm, "kid": kid, "typ": "at+jwt"})

    return made


def relabelled(kid: str, algorithm: str, says: str) -> Case:
    """Signed with a published key under `algorithm`, whose header is changed to say another one."""

    def made(issuers: Issuers) -> str:
        _, payload, signature = with_key(kid, algorithm)(issuers).split(".")
        header = {"alg": says, "kid": kid, "typ": "at+jwt"}
        return f"{b64(json.dumps(header).encode())}.{payload}.{signature}"

    return made


def der_signature(issuers: Issuers) -> str:
    """The right signature in the form of X.509 instead of that of JWS (RFC 7518, 3.4)."""
    key = issuers["one"].keys.keys[issuers["one"].keys.current][1]
    assert isinstance(key, ECKey)
    first, second, signature = good(issuers["one"]).split(".")
    whole = base64.urlsafe_b64decode(signature + "==")
    both = utils.encode_dss_signature(int.from_bytes(whole[:32], "big"), int.from_bytes(whole[32:], "big"))
    return f"{first}.{second}.{b64(both)}"


def changed(change: Callable[[str], str]) -> Case:
    """A good token, changed as a text."""
    return lambda issuers: change(good(issuers["one"]))


def other_claims(text: str) -> str:
    """The same signature over other claims."""
    header, payload, signature = text.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{b64(json.dumps({**claims, 'sub': 'bob'}).encode())}.{signature}"


def with_embedded_key(name: str) -> Case:
    """Signed with a key that comes with the token, which no one vouches for (RFC 7515, 4.1.3)."""

    def made(issuers: Issuers) -> str:
        mine = make_key("ES256")
        assert isinstance(mine, ECKey)
        der = base64.b64encode(mine.as_der(private=False)).decode()
        value = {"jwk": mine.as_dict(private=False), "x5c": [der]}[name]
        header = {"alg": "ES256", "typ": "at+jwt", name: value, "kid": issuers["one"].keys.current}
        return sign(facts(issuers["one"]), mine, header)

    return made


def key_at(name: str) -> Case:
    """Signed by `two`, and names the address of the keys of `two`."""

    def made(issuers: Issuers) -> str:
        server = issuers["two"]
        return server.keys.sign(facts(issuers["one"]), typ="at+jwt", **{name: f"{server.issuer}/jwks"})

    return made


def nested(issuers: Issuers) -> str:
    """A JWT in a JWT (RFC 7519, 5.2)."""
    return issuers["one"].keys.sign(good(issuers["one"]).encode(), typ="at+jwt", cty="JWT")


def encrypted(issuers: Issuers) -> str:
    """A good token, encrypted with a published key."""
    key = issuers["one"].keys.keys["rsa"][1]
    header = {"alg": "RSA-OAEP-256", "enc": "A256GCM", "kid": "rsa", "cty": "JWT"}
    return jwe.encrypt_compact(header, good(issuers["one"]).encode(), key, algorithms=["RSA-OAEP-256", "A256GCM"])


def in_json(issuers: Issuers) -> str:
    """The JSON form of a signature (RFC 7515, 7.2.2)."""
    header, payload, signature = good(issuers["one"]).split(".")
    return json.dumps({"protected": header, "payload": payload, "signature": signature})


def id_token(issuers: Issuers) -> str:
    """An ID token whose audience is ours, at an issuer whose access tokens say what they are."""
    return good(issuers["strict"], typ="JWT", nonce="n", auth_time=1)


IN = 'ISS, "sub": "alice", "aud": "' + OURS + '"'

REFUSED: Final[dict[str, Case]] = {
    # The audience (RFC 8707, RFC 9068, 4).
    "another audience": one(audience=OTHERS),
    "no audience": one(audience=None),
    "an empty audience": one(audience=""),
    "an empty list of audiences": one(audience=[]),
    "several audiences, none ours": one(audience=[OTHERS, "https://gateway.example.com"]),
    "a number as audience": one(audience=7),
    "true as audience": one(audience=True),
    "an object as audience": one(audience={OURS: True}),
    "an audience in a list in a list": one(audience=[[OURS]]),
    "the beginning of our audience": one(audience=OURS[:-1]),
    "our audience and a slash": one(audience=f"{OURS}/"),
    "our audience and more path": one(audience=f"{OURS}/clerk"),
    "our audience in capitals": one(audience=OURS.upper()),
    "our audience with its port": one(audience=OURS.replace(".com", ".com:443")),
    "our audiences in one text": one(audience=f"{OURS} aggregator"),
    "the client as audience": one(audience="host"),
    # The issuer.
    "an issuer named, another signed": mixed_up,
    "an issuer and its key named, another signed": same_kid,
    "an issuer with a slash more": trailing_slash,
    "an issuer of another port": one(iss="http://127.0.0.1:1"),
    "an issuer on the web": one(iss="https://login.example.com"),
    "no issuer": one(iss=None),
    "a list of issuers": lambda issuers: good(issuers["one"], iss=[issuers["one"].issuer]),
    "an issuer in capitals": lambda issuers: good(issuers["one"], iss=issuers["one"].issuer.upper()),
    "an issuer with a blank": lambda issuers: good(issuers["one"], iss=f"{issuers['one'].issuer} "),
    "a number as issuer": one(iss=1),
    # The algorithm (RFC 8725, 3.1).
    "none": unsigned("none"),
    "None": unsigned("None"),
    "nOnE": unsigned("nOnE"),
    "none with a signature": unsigned("none", "AAAA"),
    "an algorithm without a name": unsigned(""),
    "no algorithm": unsigned(None),
    "a list of algorithms": unsigned(["ES256"]),
    "a signature of nothing": unsigned("ES256"),
    "a signature of zeros": unsigned("ES256", b64(bytes(64))),
    "a signature of zeros, EdDSA": unsigned("EdDSA", b64(bytes(64))),
    "HS256 with the public key": public_as_secret("pem"),
    "HS256 with the public key, trimmed": public_as_secret("pem without the last line break"),
    "HS256 with the public key in DER": public_as_secret("der"),
    "HS256 with the public JWK": public_as_secret("jwk"),
    "HS256 with the modulus": public_as_secret("modulus"),
    "a key for RS256 used for PS256": with_key("rsa", "PS256"),
    "RS256 that says PS256": relabelled("rsa", "RS256", "PS256"),
    "PS256 that says RS256": relabelled("rsa", "PS256", "RS256"),
    "RS512, which is not listed": with_key("rsa", "RS512"),
    "ES384, which is not listed": with_key("p384", "ES384"),
    "ES384 that says ES256": relabelled("p384", "ES384", "ES256"),
    "EdDSA that says ES256": relabelled("ed", "EdDSA", "ES256"),
    "EdDSA that says RS256": relabelled("ed", "EdDSA", "RS256"),
    "RS256 that says ES256": relabelled("rsa", "RS256", "ES256"),
    "RS256 that says EdDSA": relabelled("rsa", "RS256", "EdDSA"),
    "an unknown algorithm": unsigned("ES256K", b64(bytes(64))),
    "a key of nobody, RS256": foreign_key("RS256", kid="rsa"),
    "a key of nobody, ES256": foreign_key("ES256"),
    "a key of nobody, HS256": foreign_key("HS256"),
    "a signature in DER": der_signature,
    # Times.
    "expired": one(lifetime=-120),
    "expired in 1970": one(exp=1),
    "expired before 1970": one(exp=-5),
    "no expiry": one(exp=None),
    "an expiry as text": one(exp="4102444800"),
    "an expiry of true": one(exp=True),
    "an expiry of 1e300": one(exp=1e300),
    "an expiry of infinity": raw('{"iss": ' + IN + ', "exp": Infinity}'),
    "an expiry of 1e999": raw('{"iss": ' + IN + ', "exp": 1e999}'),
    "an expiry of NaN": raw('{"iss": ' + IN + ', "exp": NaN}'),
    "an expiry in a list": one(exp=[4102444800]),
    "not yet good": one(nbf=int(time.time()) + 3600),
    "not yet good, as text": one(nbf="0"),
    "issued in an hour": one(iat=int(time.time()) + 3600),
    "issued at a text": one(iat="now"),
    # The header.
    "an unknown key": headed(says={"kid": "key-99"}),
    "a key that is a path": headed(says={"kid": "../../../../dev/null"}),
    "a key that is an address": headed(says={"kid": "http://127.0.0.1:1/key"}),
    "a key that is SQL": headed(says={"kid": "key-1' OR '1'='1"}),
    "a key of 4000 letters": headed(says={"kid": "k" * 4000}),
    "a number as key": headed(says={"kid": 1}),
    "keys of another address": key_at("jku"),
    "a certificate of another address": key_at("x5u"),
    "a key that comes along": with_embedded_key("jwk"),
    "a certificate that comes along": with_embedded_key("x5c"),
    "an extension that must be known": headed(crit=["exp2"], exp2=1),
    "an empty list of extensions": headed(crit=[]),
    "b64=false": headed(crit=["b64"], b64=False),
    "b64=false without crit": headed(b64=False),
    "an ID token where access tokens say so": id_token,
    "an ID-JAG": headed(typ="oauth-id-jag+jwt"),
    "a logout token": headed(typ="logout+jwt"),
    "a proof of possession": headed(typ="dpop+jwt"),
    "a number as type": headed(typ=1),
    "a token bound to a key": one(cnf={"jkt": "x"}),
    # The form.
    "a JWT in a JWT": nested,
    "an encrypted token": encrypted,
    "claims in a list": headed(payload=b"[1]"),
    "claims in a text": headed(payload=b'"alice"'),
    "claims that are no JSON": headed(payload=b"{"),
    "claims that are no UTF-8": headed(payload=b'{"sub": "\xff\xfe"}'),
    "claims that are very deep": headed(payload=b"[" * 5000 + b"]" * 5000),
    "no claims": headed(payload=b""),
    "two audiences, the last of another": raw('{"iss": ' + IN + f', "exp": EXP, "aud": "{OTHERS}"}}'),
    "two expiries, the last over": raw('{"iss": ' + IN + ', "exp": EXP, "exp": 1}'),
    "another person's claims": changed(other_claims),
    "half a signature": changed(lambda text: text[:-43]),
    "a longer signature": changed(lambda text: f"{text}AAAA"),
    "one part more": changed(lambda text: f"{text}.AAAA"),
    "one part less": changed(lambda text: text.rpartition(".")[0]),
    "dots alone": lambda issuers: "..",
    "dots and more dots": lambda issuers: "a.b.c",
    "padding": changed(lambda text: f"{text}=="),
    "20,000 characters": one(filler="x" * 15_000),
    # Whose it is.
    "no subject": one(sub=None),
    "an empty subject": one(sub=""),
    "a number as subject": one(sub=7),
    "a subject of two lines": one(sub="alice\nadmin"),
    "a subject with a NUL": one(sub="alice\0"),
    "a subject that turns the text round": one(sub="alice\u202e"),
    "half a character as subject": raw('{"iss": ISS, "sub": "\\ud800", "aud": "' + OURS + '", "exp": EXP}'),
    "a subject of 5000 letters": one(sub="a" * 5000),
}

ACCEPTED: Final[dict[str, Case]] = {
    "ES256": one(),
    "RS256": headed(kid="rsa"),
    "EdDSA": headed(kid="ed"),
    "of the other issuer": lambda issuers: good(issuers["two"]),
    "our other name": one(audience="aggregator"),
    "several audiences, ours among them": one(audience=[OTHERS, OURS]),
    "several audiences, and a number": one(audience=[7, OURS]),
    "a JWT that does not say which kind": headed(typ=None),
    "a JWT": headed(typ="JWT"),
    "the long form of the type": headed(typ="application/at+jwt"),
    "the type in capitals": headed(typ="AT+JWT"),
    "expired within the leeway": one(lifetime=-5),
    "issued within the leeway": one(iat=int(time.time()) + 10),
    "an expiry with a fraction": one(exp=time.time() + 86_400.5),
    "an expiry in 2100": one(exp=4102444800),
    "no time of issue": one(iat=None),
    "no client": one(client=None),
    "another claim that is a list of objects": one(authorization_details=[{"type": "x"}]),
    "an access token at the strict issuer": lambda issuers: good(issuers["strict"]),
    "the client itself": one(subject="robot", client="robot"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_token_is_refused(case: str, gateway: ResourceHarness, issuers: Issuers, client: httpx2.Client) -> None:
    token = REFUSED[case](issuers)
    before, shop = issuers["two"].counts["jwks"], len(gateway.shop.calls)
    answer = ask(client, token)
    assert answer.status_code == 401, answer.text
    challenge = answer.headers["www-authenticate"]
    assert 'error="invalid_token"' in challenge
    assert token[:40] not in answer.text + challenge
    assert ask(client, good(issuers["one"])).status_code == 200
    # Nothing that a token names is asked for, and nothing is called.
    assert issuers["two"].counts["jwks"] <= before + 1
    assert len(gateway.shop.calls) == shop


@pytest.mark.parametrize("case", ACCEPTED)
def test_token_is_accepted(case: str, gateway: ResourceHarness, issuers: Issuers, client: httpx2.Client) -> None:
    answer = ask(client, ACCEPTED[case](issuers))
    assert answer.status_code == 200, answer.text
    assert "shop_get" in answer.text.replace(".", "_").replace("__", "_")


def test_owner_without_a_rule_is_refused_without_a_challenge(issuers: Issuers, client: httpx2.Client) -> None:
    answer = ask(client, good(issuers["one"], "mallory"))
    assert (answer.status_code, "www-authenticate" in answer.headers) == (403, False)
    assert "mallory" not in answer.text


def test_groups_make_an_agent_of_its_own(issuers: Issuers, client: httpx2.Client) -> None:
    listed = ask(client, good(issuers["one"], "sam", groups=["staff", "other"]))
    assert [tool["name"] for tool in listed.json()["result"]["tools"] if "put" in tool["name"]] == []
    assert ask(client, good(issuers["one"], "sam", groups=["staffing"])).status_code == 403
    assert ask(client, good(issuers["one"], "sam", groups=[1, "staff"])).status_code in (200, 401)
    assert ask(client, good(issuers["one"], "sam", groups={"staff": True})).status_code in (401, 403)
    # A group that looks like a list in a text is one group.
    assert ask(client, good(issuers["one"], "sam", groups='["staff"]')).status_code == 403
