"""Who asks: API keys, and what a door knows about a request."""
