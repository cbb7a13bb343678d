"""`aggregator policy explain --token-claims FILE`: the agent that a token stands for, and why."""

import base64
import binascii
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens.claims import facts_of
from aggregator.identity.tokens.rejection import TokenRejected
from aggregator.policy.who import WhoDecision
from aggregator.wire.codec import decode

_LARGEST: Final = 1_048_576


def read_claims(path: Path) -> dict[str, Any]:
    """Return the claims in a file: a JSON object, or a JWT, whose signature is not checked.

    Raises:
        OperatorError: the file cannot be read, or holds neither.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1).strip()
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > _LARGEST:
        raise OperatorError(f"{path} is larger than a token may be.")
    try:
        if not data.startswith(b"{"):
            _, body, _ = data.split(b".")
            data = base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))
        claims = decode(data)
    except (ValueError, binascii.Error) as error:
        raise OperatorError(f"{path} holds neither the claims of a token as a JSON object nor a JWT.") from error
    if not isinstance(claims, dict):
        raise OperatorError(f"{path} holds no JSON object.")
    return claims


def facts_in(claims: Mapping[str, Any], auth: AuthConfig) -> tuple[TokenFacts, str | None]:
    """Return the facts in the claims, and why such a token would be refused, or None.

    Raises:
        OperatorError: they are of no configured issuer, or have no subject.
    """
    issuer = next((one for one in auth.issuers if one.issuer == claims.get("iss")), None)
    if issuer is None:
        known = ", ".join(one.issuer for one in auth.issuers) or "none"
        raise OperatorError(f"`iss` of the claims is no issuer of `auth.issuers` ({known}).")
    try:
        return facts_of(claims, issuer, time.time(), "", signed=True), None
    except TokenRejected as refused:
        return _for_all_that(claims, issuer), str(refused)


def _for_all_that(claims: Mapping[str, Any], issuer: IssuerConfig) -> TokenFacts:
    """Return the facts of claims as if audience and times were right."""
    now = time.time()
    left = {name: value for name, value in claims.items() if name not in ("nbf", "iat", "cnf")}
    try:
        return facts_of({**left, "aud": issuer.audience[0], "exp": now + 60}, issuer, now, "", signed=True)
    except TokenRejected as refused:
        raise OperatorError(str(refused)) from refused


def lines(facts: TokenFacts, refused: str | None, found: WhoDecision) -> list[str]:
    """Return the decision on who it is, as lines for a terminal."""
    told = [f"a token of {facts.issuer} for {facts.subject} (claims from a file: nothing proves them)"]
    if refused is not None:
        told.append(f"  it would be refused: {refused}")
    told += [f"  passed over: {one}" for one in found.passed]
    if found.agent_id is None:
        return [*told, f"  stands for no agent, and is refused: {found.reason}"]
    made = (
        "" if not found.made else f", made by the rule (tenant {found.tenant or 'none'}, roles {_names(found.roles)})"
    )
    return [*told, f"  stands for agent {found.agent_id}{made}: {found.reason} ({found.source})"]


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"
