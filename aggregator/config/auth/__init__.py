"""The settings for OAuth: whose tokens are accepted here, and how the aggregator gets its own for upstream servers.

The models are those of the section `auth` of the file, and of the field `auth` of a server. Nothing here verifies a
token or asks a server.

Terms:
  issuer: an authorization server that vouches for people and programs (RFC 8414)
  audience: the recipient of a token: this aggregator, by a name that its issuer writes into tokens (RFC 8707)
  grant: the consent of a person or an operator that the aggregator uses their account at a server

Entry points: `issuers.AuthConfig`, `server_auth.ServerAuthConfig`.
Must not import: the rest of `config` but for its fields, and nothing above; tests/test_layers.py holds that.
"""
