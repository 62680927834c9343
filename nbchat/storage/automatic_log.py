"""A session that is also kept as a file people read, up to date after each turn."""

import re
from pathlib import Path

from jupyter_core.paths import secure_write

from nbchat.errors import LogUnwritten
from nbchat.session import Session


class AutomaticLog:
    """Writes `<session id>.md` as `nbchat export` would, for its user alone."""

    def __init__(self, folder: str = "") -> None:
        """Without a folder nothing is written."""
        self.folder = folder
        self._reported = ""

    def write(self, session: Session) -> None:
        """Write it anew; raises LogUnwritten, once for as long as the reason stays."""
        if not (self.folder and session.transcript):
            return
        try:
            _write(session, Path(self.folder))
        except (OSError, RuntimeError, ValueError) as error:  # no such user's home, NUL
            reason = getattr(error, "strerror", None) or error
            line = f"cannot write into log_folder {self.folder!r}: {reason}"
            if line != self._reported:
                self._reported = line
                raise LogUnwritten(line) from error
        else:
            self._reported = ""


def _write(session: Session, folder: Path) -> None:
    # Late: few keep a log, and what makes Markdown of a session takes a while to load.
    from nbchat.storage.export import exported  # noqa: PLC0415

    name = re.sub(r"[^\w-]", "_", session.session_id)  # it may come from a file
    file = folder.expanduser() / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(".md.new")
    with secure_write(str(written)) as stream:
        stream.write(exported(session, "md"))
    written.replace(file)
