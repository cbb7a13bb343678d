"""Upstream servers for tests: real ones on the SDK, and raw ones for what the SDK will not do."""
