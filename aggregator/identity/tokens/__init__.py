"""Access tokens: a token from a configured issuer for this aggregator authenticates an agent.

A token is a JWT, verified by the issuer's published keys, or an opaque text that the issuer introspects. Verified
tokens are cached, so that the next request costs a look-up.

Terms:
  token: an OAuth 2.1 access token, sent as `Authorization: Bearer`
  claims: the content of a token (RFC 7519), or of its introspection (RFC 7662)
  facts: the verified claims that count here, `domain.principal.TokenFacts`
  key set: the public keys of an issuer (RFC 7517)
  rejection: the reason why a token is not accepted

Entry point: `verifier.TokenVerifier`, used by `gateway/access.py`.
Must not import: `policy`, which maps the facts to an agent, and anything above; tests/test_layers.py holds
that.
"""
