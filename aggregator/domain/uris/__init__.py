"""uris."""
