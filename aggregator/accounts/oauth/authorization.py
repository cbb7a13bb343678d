"""Authorization requests: the user's browser goes to an authorization server and returns with a code.

PKCE with S256 (RFC 7636), resource indicators (RFC 8707), the issuer in the answer (RFC 9207).
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration
from aggregator.accounts.oauth.scopes import OFFLINE
from aggregator.domain.text.cut import cut_between_words

_S256: Final = "S256"
_RANDOM_BYTES: Final = 32
_CODE_AT_MOST: Final = 8192
_WORDS_AT_MOST: Final = 200
_OPENID: Final = "openid"
# Parameters of an answer that mean something here; none of them may be there twice (RFC 6749, 3.1).
_READ: Final = ("state", "iss", "code", "error", "error_description")


class UnsafeIssuer(Exception):
    """The authorization server does not meet the demands of MCP. reason: one sentence for users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AnswerRefused(Exception):
    """An answer of an authorization server without a code.

    reason: one sentence for users. error: the error code of the authorization server, if it sent one.
    """

    def __init__(self, reason: str, error: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """One authorization request. url: the destination of the browser. scopes: None to request none.

    iss_expected: the issuer names itself in its answers. nonce: the one of an OpenID Connect request.
    """

    issuer: str
    client_id: str
    redirect_uri: str
    resource: str | None
    scopes: tuple[str, ...] | None
    iss_expected: bool
    state: str = field(repr=False)
    verifier: str = field(repr=False)
    url: str = field(repr=False)
    nonce: str | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the attempt as an object, to be kept encrypted."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "LoginAttempt":
        """Return the attempt of an object that `to_json` made."""
        scopes = kept["scopes"]
        return cls(**{**kept, "scopes": None if scopes is None else tuple(scopes)})


def begin(
    issuer: IssuerMetadata,
    client: Registration,
    redirect_uri: str,
    *,
    resource: str | None,
    scopes: Sequence[str] | None = None,
    extra: Mapping[str, str] | None = None,
    state: str | None = None,
) -> LoginAttempt:
    """Return an authorization request.

    resource: None only for signing in. extra: more parameters, such as `prompt`. state: one that is used once; a
    random one by default. With the scope `openid` there is a nonce.

    Raises:
        UnsafeIssuer: the issuer has no authorization endpoint, or does not say that it supports PKCE with S256.
    """
    if issuer.authorization_endpoint is None:
        raise UnsafeIssuer(f"{issuer.issuer} has no authorization endpoint")
    if not issuer.assumed and _S256 not in (issuer.code_challenge_methods_supported or ()):
        raise UnsafeIssuer(f"{issuer.issuer} does not say that it supports PKCE with S256; it is not used")
    if client.issuer != issuer.issuer and client.kind != "document":
        raise UnsafeIssuer(f"the client id is that of {client.issuer}, and not of {issuer.issuer}")
    state = state or secrets.token_urlsafe(_RANDOM_BYTES)
    verifier = secrets.token_urlsafe(_RANDOM_BYTES)
    nonce = secrets.token_urlsafe(_RANDOM_BYTES) if scopes is not None and _OPENID in scopes else None
    params = {
        **_consent(scopes),
        **(extra or {}),
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": _S256,
    }
    more = {"resource": resource, "scope": " ".join(scopes) if scopes else None, "nonce": nonce}
    params |= {name: value for name, value in more.items() if value is not None}
    url = issuer.authorization_endpoint
    url += ("&" if "?" in url else "?") + urlencode(params)
    return LoginAttempt(
        issuer.issuer,
        client.client_id,
        redirect_uri,
        resource,
        tuple(scopes) if scopes else None,
        issuer.authorization_response_iss_parameter_supported,
        state,
        verifier,
        url,
        nonce,
    )


def _consent(scopes: Sequence[str] | None) -> Mapping[str, str]:
    """Return the parameters that a request for a refresh token needs (OpenID Connect Core, 11)."""
    return {"prompt": "consent"} if scopes is not None and OFFLINE in scopes else {}


def challenge_of(verifier: str) -> str:
    """Return the S256 code challenge of a verifier (RFC 7636, 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def check_answer(attempt: LoginAttempt, params: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    """Return the code in the parameters that an authorization server sent the browser back with.

    Raises:
        AnswerRefused: it is the answer to another request, or of another issuer; or it is an error.
    """
    found = _once(params)
    if not hmac.compare_digest(found.get("state", "").encode(), attempt.state.encode()):
        raise AnswerRefused("the answer belongs to another request")
    _check_issuer(attempt, found.get("iss"))
    error = found.get("error")
    if error is not None:
        words = ": ".join(text for text in (error, found.get("error_description", "")) if text)
        raise AnswerRefused(f"{attempt.issuer} answered: {_readable(words)}", _readable(error))
    code = found.get("code", "")
    if not code or len(code) > _CODE_AT_MOST:
        raise AnswerRefused(f"{attempt.issuer} answered without a code")
    return code


def _once(params: Mapping[str, str] | Sequence[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in params.items() if isinstance(params, Mapping) else params:
        if name in _READ:
            if name in found:
                raise AnswerRefused(f"the answer has `{name}` twice")
            found[name] = value
    return found


def _check_issuer(attempt: LoginAttempt, named: str | None) -> None:
    """Compare the issuer in the answer, as texts (RFC 9207, 2.4). For a wrong one not even the error is shown."""
    if named is None and attempt.iss_expected:
        raise AnswerRefused(f"the answer does not name its issuer, though {attempt.issuer} says that its answers do")
    if named is not None and named != attempt.issuer:
        raise AnswerRefused(f"the answer is of another issuer than {attempt.issuer}; it was not used")


def _readable(text: str) -> str:
    return cut_between_words("".join(char for char in text if char.isprintable()), _WORDS_AT_MOST)
