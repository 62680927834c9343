"""Alembic's environment: the connection comes from `run.upgrade`, which commits."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"], transactional_ddl=False
)
context.run_migrations()
