"""Write files that only their user can read; a planted link is not followed."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

NEW = os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
"""Create a file that must not exist, not even as a link."""


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600 as a whole: under a random name, then renamed.

    A link at `path` is replaced, not followed. Raises OSError.
    """
    if path.exists() and not path.is_file():
        raise OSError(None, "it is not a regular file")
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, NEW | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def create_private(path: Path) -> bool:
    """Create an empty file with mode 0600; False if something has this name."""
    try:
        os.close(os.open(path, NEW | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    return True
