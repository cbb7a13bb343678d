"""OAuth on the wire: guarded fetches, documents, challenges, and requests of a client."""
