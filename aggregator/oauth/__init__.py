"""OAuth as both sides of the aggregator use it: documents of authorization servers, challenges, tokens, keys.

Functions here build and read what goes over the wire (RFC 6749, 7591, 8414, 8628, 8693, 8707, 9207, 9728), and fetch
documents from addresses that peers named, never from a private network. They keep nothing.

Terms:
  authorization server: what issues tokens, known by its issuer identifier
  protected resource: what accepts them: this aggregator towards hosts, a server towards the aggregator
  challenge: the `WWW-Authenticate` field of a response that refuses a request
  registration: the client id of the aggregator at one authorization server, with its secret if it has one

Entry points: `fetch.GuardedFetch`, `discovery.discover`.
Must not import: `identity`, `upstream`, `grants` and anything above them; tests/test_layers.py holds that.
"""
