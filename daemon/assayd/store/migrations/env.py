"""Run by Alembic for every command: which database, and which tables it should come to."""

from alembic import context

from assayd.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter a column; Alembic then copies the table.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
