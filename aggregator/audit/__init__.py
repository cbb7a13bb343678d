"""What happened: audit rows, spans, metrics. Written after the fact, and never in the way of a call."""
