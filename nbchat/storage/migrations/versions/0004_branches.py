"""Columns for the original of a branch, and for the tokens of each message."""

import sqlalchemy as sa
from alembic import op

from nbchat.storage.schema import NAME, chat_messages, sessions

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns, unless 0002 has just made the tables as they are now."""
    columns = sa.inspect(op.get_bind()).get_columns(sessions.name)
    if "family" in {each["name"] for each in columns}:
        return
    op.add_column(chat_messages.name, sa.Column("tokens", sa.Integer, nullable=True))
    op.add_column(sessions.name, sa.Column("family", NAME, nullable=True))
    op.add_column(sessions.name, sa.Column("ancestors_json", sa.Text, nullable=True))
    op.create_index("ix_sessions_owner_family", sessions.name, ["owner", "family"])
