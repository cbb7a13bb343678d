"""Upstream servers that want the account of a person, an agent or all, and hosts that are sent to connect one."""
