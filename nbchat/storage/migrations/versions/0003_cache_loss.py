"""A column for the reason why a response lost the prompt cache."""

import sqlalchemy as sa
from alembic import op

from nbchat.storage.schema import chat_messages

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column, unless 0002 has just made the tables as they are now."""
    columns = sa.inspect(op.get_bind()).get_columns(chat_messages.name)
    if "cache_loss" not in {each["name"] for each in columns}:
        op.add_column(chat_messages.name, sa.Column("cache_loss", sa.Text))
