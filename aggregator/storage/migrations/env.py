"""Run the migrations, on the connection and in the transaction that `aggregator.storage.engine.migrate` opened."""

from alembic import context

from aggregator.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
