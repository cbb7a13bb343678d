"""The ways in: stdio, SSE and Streamable HTTP. A door knows its wire; what to answer it asks the gateway."""
