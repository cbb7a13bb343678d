"""Access tokens at the frontends: a real issuer, a running aggregator, and requests as hosts send them."""
