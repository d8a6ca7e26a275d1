"""Configures the connection that Alembic uses and the metadata that the schema must match."""

from alembic import context

from assayd.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite can't alter a column, so Alembic copies the table.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
