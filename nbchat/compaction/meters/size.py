"""How large what the model sees is, counted on from where it was counted last."""

from nbchat.session import Session
from nbchat.tokens import TokenCounter


class HistorySize:
    """The tokens of one session's history; another session is counted from nothing."""

    def __init__(self, counter: TokenCounter) -> None:
        """Nothing is counted yet."""
        self._counter = counter
        self._known: tuple[Session, int, int, int] | None = None

    def of(self, session: Session) -> int:
        """Tokens of all that the model sees; only what is new is looked at."""
        records, said = len(session.compactions), len(session.transcript)
        known, count = self._known, self._counter.count_entries
        if known is not None and known[0] is session and known[1] == records:
            tokens = known[3] + count(session.newest(known[2]))
        else:
            tokens = count(session.history)
        if (records, said) == (len(session.compactions), len(session.transcript)):
            self._known = (session, records, said, tokens)
        return tokens
