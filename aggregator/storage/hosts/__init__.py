"""The tables about hosts that all replicas of a group share: their sessions, and the returned sealed states.

Terms:
  host session: a session of the handshake eras over HTTP, by the part of its id that names it
  sealed state: state that a host carries from one request to another (`gateway/ask/sealed_state.py`)
  nonce: the unique id of a sealed state

Rule: most sessions and states have no row: one is written when a host sets or ends something, or comes back.

Entry point: `HostSessions` and `UsedStates`, two attributes of `aggregator.storage.opening.Database`.
Must not import: the packages beside it; tests/test_layers.py holds that.
"""
