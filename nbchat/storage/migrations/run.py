"""Run Alembic's migrations on an open connection, without any file of the user."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory


def upgrade(connection: sa.Connection, owner: str) -> None:
    """Migrate to the newest version in the transaction that is open.

    Rows of versions without owners become those of `owner`.
    """
    config = _config()
    config.attributes.update(connection=connection, owner=owner)
    command.upgrade(config, "head")


def newest() -> str | None:
    """The newest revision in the folder of migrations."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    folder = str(Path(__file__).parent)
    config.set_main_option("script_location", folder.replace("%", "%%"))
    return config
