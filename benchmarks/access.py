"""Who asks: what a request pays for its key or its token, new, known, and repeated on its connection."""

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from aggregator.accounts.oauth.fetch import Fetched, GuardedFetch
from aggregator.app.build import build_app
from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.config.client_tls import ServerTlsConfig
from aggregator.config.model import Config
from aggregator.domain.principal import Principal
from aggregator.gateway.access import Access
from aggregator.identity.identify import RequestFacts
from aggregator.identity.keys import new_key, policy_line
from aggregator.identity.source import ClientSource
from aggregator.identity.tokens.verifier import TokenVerifier
from benchmarks.report import Table

ISSUER: Final = "https://login.example.com"
AUDIENCE: Final = "https://gateway.example.com/mcp"
_AGAIN: Final = 20_000
_NEW: Final = 300
_SOURCE: Final = ClientSource("192.0.2.1", forwarded=False)


class _Published(GuardedFetch):
    """An issuer whose keys are there without a network."""

    def __init__(self, keys: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._body = json.dumps({"keys": list(keys)}).encode()

    def within(self, url: str, proxy: str | None = None, tls: ServerTlsConfig | None = None) -> "_Published":
        return self

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Fetched:
        return Fetched(200, {}, self._body)


def measure(folder: Path, rounds: int) -> Iterator[Table]:
    """Measure each step in this process; the median of the rounds."""
    keys: Mapping[str, RSAPrivateKey | EllipticCurvePrivateKey] = {
        "RS256": rsa.generate_private_key(65537, 2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
    }
    published = [
        {**json.loads(RSAAlgorithm.to_jwk(keys["RS256"].public_key())), "kid": "RS256"},  # type: ignore[arg-type]
        {**json.loads(ECAlgorithm.to_jwk(keys["ES256"].public_key())), "kid": "ES256"},  # type: ignore[arg-type]
    ]
    access, key = _access(folder, published)
    steps: dict[str, Callable[[], float]] = {
        "a key": lambda: _again(access, _facts(key)),
        "a verified token: the look-up alone": lambda: _look_up(access, _token(keys, "RS256", 0)),
        "a verified token: a request on a new connection": lambda: _again(access, _facts(_token(keys, "RS256", 0))),
        "a verified token: the next request on a connection": lambda: _repeated(access, _token(keys, "RS256", 0)),
        "a new token, RS256": lambda: _new(access, [_token(keys, "RS256", number) for number in range(_NEW)]),
        "a new token, ES256": lambda: _new(access, [_token(keys, "ES256", number) for number in range(_NEW)]),
    }
    taken: dict[str, list[float]] = {step: [] for step in steps}
    for _ in range(rounds):
        for step, run in steps.items():
            taken[step].append(run())
    rows = [[step, f"{statistics.median(times):.1f}"] for step, times in taken.items()]
    yield Table(f"Who asks (median of {rounds})", ["step", "microseconds"], rows)


def _access(folder: Path, published: Sequence[Mapping[str, Any]]) -> tuple[Access, str]:
    """Return access control that has fetched the issuer's keys, and a key that it knows."""
    policies = folder / "policies"
    policies.mkdir(exist_ok=True)
    made = new_key("one", now=time.time())
    rules = {
        "agents": {"one": {"allow": ["*"], "keys": [policy_line(made.record)]}},
        "who": [{"subject": "*", "agent": "one"}],
    }
    (policies / "main.yaml").write_text(json.dumps(rules))
    app = build_app(Config(), policies)
    app.key_sync.use_policies()
    config = AuthConfig(issuers=(IssuerConfig(issuer=ISSUER, audience=(AUDIENCE,), jwks_url=f"{ISSUER}/keys"),))
    app.access.tokens = TokenVerifier(config, _Published(published))
    return app.access, made.text


def _facts(credential: str) -> RequestFacts:
    return RequestFacts("http", (f"Bearer {credential}",), source=_SOURCE)


def _token(keys: Mapping[str, Any], algorithm: str, number: int) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "sub": f"person-{number}",
        "aud": AUDIENCE,
        "client_id": "host",
        "scope": "mcp openid",
    }
    claims |= {"iat": now, "exp": now + 3600, "groups": ["engineering", "support"], "jti": "x" * 32}
    return jwt.encode(claims, keys[algorithm], algorithm, headers={"kid": algorithm, "typ": "at+jwt"})


def _admitted(access: Access, facts: RequestFacts) -> Principal:
    found = asyncio.run(access.admit(facts))
    assert isinstance(found, Principal), found
    return found


def _again(access: Access, facts: RequestFacts) -> float:
    _admitted(access, facts)
    began = time.perf_counter()
    for _ in range(_AGAIN):
        access.authenticate(facts)
    return (time.perf_counter() - began) / _AGAIN * 1e6


def _look_up(access: Access, text: str) -> float:
    _admitted(access, _facts(text))
    tokens, now = access.tokens, time.time()
    assert tokens is not None
    began = time.perf_counter()
    for _ in range(_AGAIN):
        assert tokens.known(text, now) is not None
    return (time.perf_counter() - began) / _AGAIN * 1e6


def _repeated(access: Access, text: str) -> float:
    before = access.authentication(_admitted(access, _facts(text)))
    began = time.perf_counter()
    for _ in range(_AGAIN):
        assert access.repeated(before) is not None
    return (time.perf_counter() - began) / _AGAIN * 1e6


def _new(access: Access, texts: Sequence[str]) -> float:
    _admitted(access, _facts(texts[0]))
    began = time.perf_counter()
    for text in texts[1:]:
        access.authenticate(_facts(text))
    return (time.perf_counter() - began) / (len(texts) - 1) * 1e6
