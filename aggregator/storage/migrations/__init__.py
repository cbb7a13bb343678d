"""The steps of the schema, from the first to the newest (Alembic)."""
