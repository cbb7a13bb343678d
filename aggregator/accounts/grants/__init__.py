"""Grants: the tokens that the aggregator holds for upstream servers, each on behalf of one owner.

They are stored encrypted in the database, refreshed before their expiry by one process at a time, and never used for
another owner, server or authorization server than the original.

Terms:
  grant: the tokens for one server from one authorization server on behalf of one owner
  owner: the user, the agent, all agents together, or the aggregator itself (`domain/grant_owner.py`)
  vault: the part of the database that holds grants and registrations, encrypted
  connecting: the steps of a user in their browser that end with a grant

Entry point: `grants.Grants`, which `app` hands to the upstreams as their source of credentials.
Must not import: `upstream`, `identity` and the other services beside it; tests/test_layers.py holds that.
"""
