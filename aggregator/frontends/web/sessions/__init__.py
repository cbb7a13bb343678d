"""Sessions of the handshake eras over Streamable HTTP, which any replica of a group takes up.

Terms:
  sealed id: the `Mcp-Session-Id` of a session, from which a replica makes it anew (`session_ids.py`)
  name: the part of the id by which replicas, the database and the audit know the session
  take up: begin to serve a session that another process opened, or this one before it was idle
  kept: what a session has beyond its id, in the database (`kept_sessions.py`)

Entry point: `Sessions` in `session_table.py`.
Must not import: the frontends beside it; tests/test_layers.py holds that.
"""
