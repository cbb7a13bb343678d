"""The life cycle of an upstream: its states, when it connects again, and when it is started and stopped.

Law: the reconnect loop owns the state. Everything else reports what it noticed, and one end of a connection is one
transition (tests/supervision/test_one_transition.py).

Terms:
  state: `starting`, `ready`, `reconnecting`, `unavailable`, `stopped` or `disabled`
  event: what the state is moved by: `connected`, `failed`, `lost`, `gave_up`, `idle`, `start`, `stop`
  failure: why an attempt to connect, or a connection, ended
  backoff: the pause before the next attempt
  idle stop: an upstream that is not used is stopped, and started by its next call

Entry point: `reconnect_loop.ReconnectLoop`.

Must not import: sessions, lists, health, transports; tests/test_layers.py holds that.
"""
