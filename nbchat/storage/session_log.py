"""The context log: what compactions changed in a session, and statistics of them.

It is made from the session's records and is no part of the conversation, so it is never
summarized itself.
"""

from dataclasses import dataclass
from pathlib import Path

from nbchat.config.private_files import write_private
from nbchat.conversation.entries import Compaction, Usage
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError

TITLE = "# SESSION_LOG"


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Statistics of a session's compactions."""

    compactions: int
    """Summaries made, including degraded and undone ones."""
    degraded: int
    failed: int
    outputs_shortened: int
    tokens_saved: int
    """By all compactions that are or were active."""
    cost: Usage
    """Usage of all requests for summaries, failed ones included."""

    @property
    def success_share(self) -> float:
        """The share of attempts with a summary by a model; 1.0 before the first."""
        attempts = self.compactions + self.failed
        return (self.compactions - self.degraded) / attempts if attempts else 1.0


def monitoring(session: Session) -> Monitoring:
    """Compute the statistics of a session."""
    finished = [each for each in session.finished_compactions if not each.is_exclusion]
    summaries = [each for each in finished if each.kind == "summary"]
    prunings = [each for each in finished if each.kind == "pruning"]
    costs = {record.id: record.cost for record in session.compactions}
    return Monitoring(
        compactions=len(summaries),
        degraded=sum(each.status == "degraded" for each in summaries),
        failed=sum(each.status == "failed" for each in session.compactions),
        outputs_shortened=sum(len(each.replacements) for each in prunings),
        tokens_saved=sum(each.tokens_before - each.tokens_after for each in finished),
        cost=sum(costs.values(), Usage()),
    )


def session_log(session: Session, window: int | None = None) -> str:
    """List every change of the context as Markdown, oldest first, then statistics.

    With the model's `window` in tokens, sizes are also shown as a share of it.
    """
    ended = [each for each in session.compactions if each.status != "running"]
    actions = [_action(record, window) for record in ended]
    return "\n\n".join([TITLE, *actions, _statistics(monitoring(session))]) + "\n"


def write_session_log(session: Session, file: Path, window: int | None = None) -> None:
    """Write the log to a file; raises NbchatError when that fails."""
    try:
        write_private(file, session_log(session, window))
    except OSError as error:
        raise NbchatError(f"Can't write {file}: {error.strerror}.") from error


def _action(record: Compaction, window: int | None) -> str:
    before, after = record.tokens_before, record.tokens_after
    lines = [f"## Token Usage @ {record.created_at[:19]}", _change(record)]
    if record.is_active:
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


def _change(record: Compaction) -> str:
    saved = record.tokens_before - record.tokens_after
    if record.is_exclusion:
        done = f"Excluded by the user: message #{record.start}"
    elif record.kind == "pruning":
        positions = ", ".join(f"#{position}" for position, _ in record.replacements)
        done = f"Shortened {len(record.replacements)} tool outputs ({positions})"
    else:
        done = f"Summarized {record.messages} messages → 1 summary"
    match record.status:
        case "failed":
            return f"Failed, the history is unchanged: {done.lower()}"
        case "undone":
            return f"Undone: {done.lower()}"
        case _:
            suffix = ", without a model" if record.status == "degraded" else ""
            return f"{done} (saved ~{saved:,} tokens){suffix}"


def _size(tokens: int, window: int | None) -> str:
    if window is None:
        return f"{tokens:,} tokens"
    return f"{tokens:,} / {window:,} ({tokens / window:.1%})"


def _statistics(figures: Monitoring) -> str:
    shares = (
        f" ({figures.degraded} without a model, {figures.failed} failed; "
        f"{figures.success_share:.0%} successful)"
    )
    was_tried = figures.compactions + figures.failed
    lines = [
        "## Monitoring",
        f"- Compactions: {figures.compactions}{shares if was_tried else ''}",
        f"- Tool outputs shortened: {figures.outputs_shortened}",
        f"- Tokens saved: {figures.tokens_saved:,}",
        (
            f"- Cost of summaries: {figures.cost.input_tokens:,} tokens in, "
            f"{figures.cost.output_tokens:,} out"
        ),
    ]
    return "\n".join(lines)
