"""Identity: the agent behind a request, by API key or because the request comes from this machine.

Everything here decides from values: the credentials of one request, the keys in memory, a clock that is passed in. Keys
are stored as salted hashes; the comparison takes the same time for every key.

Terms:
  credentials: all that a request carries to prove its agent
  keyring: the keys of the database and of the policy files, in memory
  source: the machine that a request comes from, and whether proxies forwarded it
  throttle: the growing wait after wrong keys

Entry point: `identify.identify`, called by `gateway/access.py`.
Must not import: the gateway and anything above it, nor its siblings such as `policy`; tests/test_layers.py holds that.
"""
