"""A table for what the model changed in a notebook."""

import sqlalchemy as sa
from alembic import op

from nbchat.storage.schema import cell_changes

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table, unless 0002 has just made the tables as they are now."""
    bind = op.get_bind()
    if not sa.inspect(bind).has_table(cell_changes.name):
        cell_changes.create(bind)
