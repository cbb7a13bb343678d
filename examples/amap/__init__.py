"""A stand-in for AMap's map server: its twelve tools over HTTP+SSE behind a `?key=`, with canned answers."""
