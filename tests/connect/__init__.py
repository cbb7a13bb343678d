"""Connecting accounts: the pages, the commands, and the links that must not work."""
