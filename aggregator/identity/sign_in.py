"""Sign-in of users at their issuer in a browser, by OpenID Connect: the aggregator is a client of the issuer.

Rule: an ID token only identifies the user at the browser; it authorizes no request here.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from aggregator.accounts.oauth.authorization import AnswerRefused, LoginAttempt, UnsafeIssuer, begin, check_answer
from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import IssuerMetadata, read_issuer
from aggregator.accounts.oauth.registration import ConfiguredClient, Registration, configured_client
from aggregator.accounts.oauth.token_requests import exchange_code
from aggregator.accounts.oauth.token_response import TokenRefused, TokenResponse, TokenUnavailable
from aggregator.config.auth.issuers import AuthConfig, IssuerConfig
from aggregator.domain.principal import TokenFacts
from aggregator.identity.tokens.claims import facts_of
from aggregator.identity.tokens.jwks import IssuerKeys
from aggregator.identity.tokens.jws import check_header, is_signed_by, read_token
from aggregator.identity.tokens.rejection import IssuerUnavailable, TokenRejected

_OPENID: Final = "openid"


class SignInFailed(Exception):
    """A user could not be signed in. reason: one sentence for users. transient: it may work later."""

    def __init__(self, reason: str, *, transient: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient


class SignIns:
    """The configured issuers that users can sign in at."""

    def __init__(self, config: AuthConfig, fetch: GuardedFetch | None = None) -> None:
        self._fetch = fetch or GuardedFetch(config.private_hosts)
        self._issuers = {one.issuer: one for one in config.issuers if one.sign_in is not None}
        self._keys: dict[str, IssuerKeys] = {}

    def offers(self, issuer: str) -> bool:
        """Tell whether users can sign in at an issuer."""
        return issuer in self._issuers

    async def begin(self, issuer: str, redirect_uri: str) -> LoginAttempt:
        """Return the request that the browser is redirected to the issuer with.

        Raises:
            SignInFailed: the issuer is unreachable, or does not offer sign-in.
        """
        config = self._issuer(issuer)
        metadata = await self._metadata(config)
        # Many company issuers support PKCE without declaring it; with an issuer that does not, the nonce binds the
        # answer.
        metadata = replace(metadata, code_challenge_methods_supported=("S256",))
        assert config.sign_in is not None, "only issuers with it are kept"
        scopes = tuple(dict.fromkeys((_OPENID, *config.sign_in.scopes)))
        try:
            return begin(metadata, _client(config, metadata), redirect_uri, resource=None, scopes=scopes)
        except UnsafeIssuer as error:
            raise SignInFailed(error.reason) from None

    async def finish(
        self, attempt: LoginAttempt, params: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> tuple[TokenFacts, TokenResponse]:
        """Return who signed in, and the tokens that the issuer gave for it.

        Raises:
            SignInFailed: the answer is no proof.
        """
        config = self._issuer(attempt.issuer)
        try:
            code = check_answer(attempt, params)
            metadata = await self._metadata(config)
            tokens = await exchange_code(
                self._fetch.within(config.issuer), metadata, _client(config, metadata), attempt, code
            )
        except AnswerRefused as error:
            raise SignInFailed(f"You are not signed in: {error.reason}.") from None
        except TokenRefused as error:
            raise SignInFailed(f"You are not signed in: {attempt.issuer} answers {error}.") from None
        except TokenUnavailable as error:
            raise SignInFailed(error.reason, transient=True) from None
        if tokens.id_token is None:
            raise SignInFailed(f"{attempt.issuer} did not say who signed in: its answer has no ID token.")
        return await self._verified(config, tokens.id_token, attempt), tokens

    async def _verified(self, config: IssuerConfig, text: str, attempt: LoginAttempt) -> TokenFacts:
        """Return the facts of an ID token (OpenID Connect Core, 3.1.3.7)."""
        keys = self._keys.setdefault(config.issuer, IssuerKeys(config, self._fetch))
        # The audience of an ID token is the client, and an ID token is no access token.
        own = config.model_copy(update={"audience": (attempt.client_id,), "types": ("JWT",)})
        try:
            token = read_token(text)
            check_header(token, own)
            known = keys.known(token.kid, token.algorithm)
            if known is None or not known:
                known = await keys.ask(token.kid, token.algorithm)
            if not known or not is_signed_by(token, known):
                raise TokenRejected("its signature is wrong")
            return self._facts(token.claims, own, attempt)
        except TokenRejected as rejected:
            raise SignInFailed(
                f"The ID token of {config.issuer} is not accepted: {rejected.rejection.reason}"
            ) from None
        except IssuerUnavailable as error:
            raise SignInFailed(str(error), transient=True) from None

    def _facts(self, claims: Mapping[str, object], own: IssuerConfig, attempt: LoginAttempt) -> TokenFacts:
        if attempt.nonce is None or claims.get("nonce") != attempt.nonce:
            raise TokenRejected("it belongs to another sign-in (`nonce`).")
        several = isinstance(claims.get("aud"), list) and claims.get("aud") != [attempt.client_id]
        if (several or "azp" in claims) and claims.get("azp") != attempt.client_id:
            raise TokenRejected("it was issued to another program (`azp`).")
        if claims.get("iat") is None:
            raise TokenRejected("it does not say when it was issued (`iat`).")
        return facts_of(claims, own, time.time(), "", signed=True)

    def _issuer(self, issuer: str) -> IssuerConfig:
        found = self._issuers.get(issuer)
        if found is None:
            raise SignInFailed(f"People cannot sign in at {issuer} here: `sign_in` of that issuer is not configured.")
        return found

    async def _metadata(self, config: IssuerConfig) -> IssuerMetadata:
        try:
            return await read_issuer(self._fetch.within(config.issuer), config.issuer)
        except FetchFailed as error:
            raise SignInFailed(f"{config.issuer} cannot be asked: {error.reason}", transient=True) from None


def _client(config: IssuerConfig, metadata: IssuerMetadata) -> Registration:
    """Return the aggregator as a client of an issuer."""
    assert config.sign_in is not None, "only issuers with it are kept"
    return configured_client(metadata, ConfiguredClient(config.sign_in.client_id, config.sign_in.client_secret))
