"""Access tokens: those that an issuer of the configuration has issued for this aggregator let an agent in.

A token is a JWT, verified by the issuer's published keys, or an opaque text that the issuer is asked about. What was
verified once is remembered, so that the next request costs a look-up.

Terms:
  token: an OAuth 2.1 access token, sent as `Authorization: Bearer`
  claims: what a token says (RFC 7519), or the issuer of it (RFC 7662)
  facts: the verified claims that count here, `domain.principal.TokenFacts`
  key set: the public keys of an issuer (RFC 7517)
  rejection: the reason why a token lets no one in

Entry point: `verifier.TokenVerifier`, used by `gateway/access.py`.
Must not import: `policy`, which says whose agent the facts stand for, and anything above; tests/test_layers.py holds
that.
"""
