"""The first schema: sessions without owners. Completes older tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ADDED = {
    "model": sa.Text,
    "cost": sa.Float,
    "is_estimated": sa.Boolean,
    "dropped_tokens": sa.Integer,
}
"""Columns that the very first databases lack."""


def upgrade() -> None:
    """Add missing columns and tables."""
    inspector = sa.inspect(op.get_bind())
    known = {each["name"] for each in inspector.get_columns("chat_messages")}
    for name, kind in ADDED.items():
        if name not in known:
            op.add_column("chat_messages", sa.Column(name, kind))
    tables = {*inspector.get_table_names()}
    if "settings" not in tables:
        op.create_table(
            "settings",
            sa.Column("number", sa.Integer, primary_key=True),
            *(sa.Column(name, sa.Text) for name in ("scope", "name", "value_json")),
            sa.Column("created_at", sa.String(32)),
        )
    if "drafts" not in tables:
        op.create_table(
            "drafts",
            sa.Column("session_id", sa.Text, primary_key=True),
            sa.Column("position", sa.Integer),
            sa.Column("content", sa.Text),
        )
