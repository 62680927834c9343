"""A session that is also kept as a file people read, up to date after each turn."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from nbchat.errors import LogUnwritten
from nbchat.session import Session


def write_log(session: Session, folder: Path) -> None:
    """`<session id>.md`, the same as `nbchat export` writes, replaced as a whole.

    Only its user may read it. Raises LogUnwritten when it cannot be written.
    """
    # Late: few keep a log, and Markdown's rules take a while to load.
    from nbchat.storage.export import exported  # noqa: PLC0415

    file = folder.expanduser() / f"{session.session_id}.md"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, exported(session, "md"))
    except OSError as error:
        raise LogUnwritten(
            f"cannot write {file}: {error.strerror}; log_folder says where it is kept"
        ) from error


def _replace(file: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".nbchat-", suffix=".md")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
