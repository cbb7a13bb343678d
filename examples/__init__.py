"""Upstream MCP servers that run offline, to try the product with: they import nothing of it."""
