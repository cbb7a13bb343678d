"""OAuth as both sides of the aggregator use it: documents of authorization servers, challenges, tokens, keys.

Functions here build and parse the messages (RFC 6749, 7591, 8414, 8628, 8693, 8707, 9207, 9728), and fetch documents
from addresses named by peers, never from a private network. They store nothing.

Terms:
  authorization server: the issuer of tokens, known by its issuer identifier
  protected resource: the receiver of tokens: this aggregator towards hosts, a server towards the aggregator
  challenge: the `WWW-Authenticate` field of a response that refuses a request
  registration: the client id of the aggregator at one authorization server, with its secret if it has one

Entry points: `fetch.GuardedFetch`, `discovery.discover`.
Must not import: `identity`, `upstream`, `grants` and anything above them; tests/test_layers.py holds that.
"""
