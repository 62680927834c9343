"""What became of a session's context, as a log that people read (seed 003).

It is made from the records of the session, so it cannot tell another story than they
do, and it is no part of the conversation, so nothing ever summarizes it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import secure_write

from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turns import count_messages
from nbchat.errors import LogUnwritten, NbchatError


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


TITLE = "# SESSION_LOG"


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How well compaction has worked in a session."""

    compactions: int
    """Summaries made, degraded ones included; undone ones, too."""
    degraded: int
    failed: int
    outputs_shortened: int
    tokens_saved: int
    """By all that is or was in force, each once."""
    cost: Usage
    """Of all requests for summaries."""

    @property
    def success_share(self) -> float:
        """Attempts that ended in a smaller context; 1.0 before the first."""
        attempts = self.compactions + self.failed
        return self.compactions / attempts if attempts else 1.0


def monitoring(session: Session) -> Monitoring:
    """The figures of a session so far."""
    done = [each for each in session.finished_compactions if each.kind == "summary"]
    decided = [e for e in session.finished_compactions if not e.is_exclusion]
    pruned = [each for each in decided if each.kind == "pruning"]
    paid = {record.id: record.cost for record in session.compactions}
    return Monitoring(
        compactions=len(done),
        degraded=sum(each.status == "degraded" for each in done),
        failed=sum(each.status == "failed" for each in session.compactions),
        outputs_shortened=sum(len(each.replacements) for each in pruned),
        tokens_saved=sum(
            each.tokens_before - each.tokens_after for each in done + pruned
        ),
        cost=sum(paid.values(), Usage()),
    )


def session_log(session: Session, window: int | None = None) -> str:
    """Every action as Markdown, oldest first, and the figures at the end.

    With the model's `window` each size is given as a share of it, too.
    """
    ended = [each for each in session.compactions if each.status != "running"]
    actions = [_action(session, record, window) for record in ended]
    return "\n\n".join([TITLE, *actions, _figures(monitoring(session))]) + "\n"


def write_session_log(session: Session, file: Path, window: int | None = None) -> None:
    """The log as a file; raises NbchatError when it cannot be written."""
    try:
        file.write_text(session_log(session, window), encoding="utf-8")
    except OSError as error:
        raise NbchatError(f"cannot write {file}: {error.strerror}") from error


def _action(session: Session, record: Compaction, window: int | None) -> str:
    before, after = record.tokens_before, record.tokens_after
    lines = [f"## Token Usage @ {record.created_at[:19]}", _told(session, record)]
    if record.is_in_force:
        saved = before - after
        window = None if record.is_immediate else window  # sizes of one output
        share = f" ({saved / before:.0%} reduction)" if before else ""
        lines += [
            f"- Pre-summarization: {_size(before, window)}",
            f"- Post-summarization: {_size(after, window)}",
            f"- Savings: {saved:,} tokens{share}",
        ]
    if record.reason:
        lines.append(f"- Reason: {record.reason}")
    return "\n".join(lines)


def _told(session: Session, record: Compaction) -> str:
    saved = record.tokens_before - record.tokens_after
    if record.is_exclusion:
        done = f"Left out by the user: the message at {record.start}"
    elif record.kind == "pruning":
        places = ", ".join(str(place) for place, _ in record.replacements)
        done = f"Shortened {len(record.replacements)} tool outputs (places {places})"
    else:
        folded = count_messages(session.transcript[record.start : record.stop])
        done = f"Summarized {folded} messages → 1 summary"
    match record.status:
        case "failed":
            return f"Failed, the history is unchanged: {done.lower()}"
        case "undone":
            return f"Undone: {done.lower()}"
        case _:
            how = f", {record.status}" if record.status == "degraded" else ""
            return f"{done} (saved ~{saved:,} tokens){how}"


def _size(tokens: int, window: int | None) -> str:
    if window is None:
        return f"{tokens:,} tokens"
    return f"{tokens:,} / {window:,} ({tokens / window:.1%})"


def _figures(figures: Monitoring) -> str:
    lines = [
        "## Monitoring",
        (
            f"- Compactions: {figures.compactions} ({figures.degraded} degraded, "
            f"{figures.failed} failed; {figures.success_share:.0%} successful)"
        ),
        f"- Tool outputs shortened: {figures.outputs_shortened}",
        f"- Tokens saved: {figures.tokens_saved:,}",
        (
            f"- Cost of summaries: {figures.cost.input_tokens:,} tokens in, "
            f"{figures.cost.output_tokens:,} out"
        ),
    ]
    return "\n".join(lines)
