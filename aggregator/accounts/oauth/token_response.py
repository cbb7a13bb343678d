"""Answers of token endpoints: tokens, refusals, and failures without a verdict (RFC 6749, 5)."""

import email.utils
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aggregator.accounts.oauth.fetch import Fetched, FetchFailed
from aggregator.accounts.oauth.scopes import parse_scope
from aggregator.domain.text.cut import cut_between_words, quoted

_GOOD: Final = 200
_SERVER_ERROR: Final = 500
# Statuses of a server, or of an intermediary, that say nothing about the grant.
_LATER: Final = frozenset({408, 421, 425, 429})
_TOKEN_AT_MOST: Final = 64 * 1024
_WORDS_AT_MOST: Final = 200
_LONGEST_LIFE: Final = 10 * 365 * 86400
_LONGEST_WAIT: Final = 3600.0
# Texts that are shorter are no secrets, and might be words of a description.
_SECRET_FROM: Final = 8
# Error codes by which a server says that it, and not the grant, is the matter.
_TEMPORARY: Final = frozenset({"temporarily_unavailable", "server_error", "slow_down"})


class TokenRefused(Exception):
    """The authorization server refused. error: its code, `invalid_grant` if the grant has ended.

    description: its text, for users, without the secrets that were sent.
    """

    def __init__(self, error: str, description: str = "") -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error
        self.description = description


# The members of an answer that are credentials.
_CREDENTIALS: Final = ("access_token", "refresh_token", "id_token", "device_code")


class TokenUnavailable(Exception):
    """The authorization server is unreachable, or could not answer; the state of the grant is unknown.

    retry_after: seconds until the next attempt, if the server named them.
    """

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """Tokens. expires_at: seconds since the epoch; or None. scopes: the granted ones."""

    access: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)
    id_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    scopes: tuple[str, ...] | None = None


def raise_refusal(response: Fetched, secrets: Collection[str]) -> None:
    """Raise the error of an unsuccessful response, an error object with status 200 included.

    Raises:
        TokenRefused: the server refused.
        TokenUnavailable: it cannot answer at the moment.
    """
    try:
        said = response.json()
    except FetchFailed:
        said = {}
    error = said.get("error")
    if response.status == _GOOD and not isinstance(error, str):
        return
    if response.status >= _SERVER_ERROR or response.status in _LATER or error in _TEMPORARY - {"slow_down"}:
        raise TokenUnavailable(f"the token endpoint answers with status {response.status}", retry_after(response))
    if not isinstance(error, str) or not error:
        # No answer of an authorization server: it must not cost the grant.
        raise TokenRefused(f"http_{response.status}", "the token endpoint answered without saying why")
    description = said.get("error_description")
    code = readable(error, secrets) or f"http_{response.status}"
    raise TokenRefused(code, readable(description if isinstance(description, str) else "", secrets))


def credentials_in(response: Fetched) -> dict[str, str]:
    """Return the credentials that an answer holds, by the names of its members."""
    try:
        document = response.json()
    except FetchFailed:
        return {}
    return {name: value for name in _CREDENTIALS if (value := _token(document, name)) is not None}


def read_tokens(response: Fetched, asked: Sequence[str] | None, secrets: Collection[str]) -> TokenResponse:
    """Return the tokens of a response. asked: the scopes that count if it names none.

    Raises:
        TokenRefused: the server refused, or the token is no bearer token.
        TokenUnavailable: it cannot answer at the moment.
    """
    raise_refusal(response, secrets)
    try:
        document = response.json()
    except FetchFailed as error:
        raise TokenRefused("invalid_response", error.reason) from None
    kind = document.get("token_type", "Bearer")
    # `N_A` marks a token that is no access token, such as an ID-JAG (RFC 8693, 2.2.1).
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a"):
        raise TokenRefused("invalid_response", f"the token is of a type that is not used here ({quoted(kind, 40)})")
    access = _token(document, "access_token")
    if access is None:
        raise TokenRefused("invalid_response", "the answer has no access token that can be sent")
    scopes = parse_scope(document.get("scope"))
    granted = scopes if scopes is not None else (tuple(asked) if asked is not None else None)
    return TokenResponse(
        access, _token(document, "refresh_token"), _token(document, "id_token"), _expiry(document), granted
    )


def _token(document: Mapping[str, Any], name: str) -> str | None:
    """Return a token that can be sent in a header, or None."""
    value = document.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _TOKEN_AT_MOST:
        return None
    return value if all("!" <= char <= "~" for char in value) else None


def _expiry(document: Mapping[str, Any]) -> float | None:
    seconds = seconds_in(document.get("expires_in"))
    return None if seconds is None else time.time() + min(seconds, _LONGEST_LIFE)


def seconds_in(value: object) -> float | None:
    """Return a number of seconds; some servers write it as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def retry_after(response: Fetched) -> float | None:
    """Return the seconds of a `Retry-After` field, an hour at most (RFC 9110, 10.2.3)."""
    text = response.headers.get("retry-after", "")
    seconds = seconds_in(text)
    if seconds is None:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), _LONGEST_WAIT)


def readable(text: str, secrets: Collection[str]) -> str:
    """Return a peer's text for display, without secrets that it may repeat."""
    for secret in secrets:
        if len(secret) >= _SECRET_FROM:
            text = text.replace(secret, "***")
    return cut_between_words("".join(char for char in text if char.isprintable()), _WORDS_AT_MOST)
