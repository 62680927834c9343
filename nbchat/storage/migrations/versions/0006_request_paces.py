"""A table for the pace of requests that processes share."""

import sqlalchemy as sa
from alembic import op

from nbchat.storage.schema import request_paces

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table, unless 0002 has just made the tables as they are now."""
    bind = op.get_bind()
    if not sa.inspect(bind).has_table(request_paces.name):
        request_paces.create(bind)
