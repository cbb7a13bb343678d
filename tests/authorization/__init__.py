"""A real authorization server and a protected MCP server, and the suite of the gateway as a protected resource."""
