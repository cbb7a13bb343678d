"""The agent doors: tools as plain HTTP and JSON, for applications that do not speak MCP."""
