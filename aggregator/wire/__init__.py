"""JSON-RPC as bytes: encoding, the duplex peer, server-sent events, header values. Knows nothing of MCP's methods."""
