"""What the meters read: how much was spent, how full the context is, how long to rest.

Counts grow with what is new: the provider's last report is exact, and only what was
said after it is estimated.
"""

from nbchat.compaction.meter import Decision, Reading, read_meters
from nbchat.compaction.policies import Policy
from nbchat.errors import ConfigError
from nbchat.history import Session, Usage
from nbchat.models import ModelInfo
from nbchat.tokens import TokenCounter

WINDOW_SHARE_OF_THRESHOLD = 0.75
"""The threshold as a share of the window when none is set."""

PATIENCE = 8
"""How much longer to wait after each failure in a row, as a factor."""


class Gauge:
    """Counts what a conversation costs and says when it is time to compact."""

    def __init__(
        self, threshold: int | None, policy: Policy, info: ModelInfo | None
    ) -> None:
        """A threshold of None is 75 % of the model's window, or off if unknown."""
        self.policy = policy
        self.input_tokens = 0
        self.floor_tokens = 0
        """Tokens of the system prompt and the tools, which no compaction removes."""
        self.failures = 0
        """Compactions that failed in a row."""
        self._threshold = threshold
        self._anchor: tuple[int, Usage] | None = None
        self._cooldown = (0, 0)
        self.fit(info or ModelInfo("unknown"))

    @property
    def context_token_threshold(self) -> int | None:
        """Input tokens after which to compact; None when that meter is off."""
        if not self.policy.is_cumulative:
            return None
        if self._threshold is None and self.info.window is not None:
            return int(self.info.window * WINDOW_SHARE_OF_THRESHOLD)
        return self._threshold

    def set_threshold(self, tokens: int | None) -> None:
        """Compact at another sum; refused when the floor alone would exceed it."""
        if tokens is not None and tokens <= 0:
            raise ConfigError(
                f"context_token_threshold {tokens} is no token count; set one above 0"
            )
        if tokens is not None and tokens <= self.floor_tokens:
            raise ConfigError(
                f"context_token_threshold {tokens:,} is not above the "
                f"{self.floor_tokens:,} tokens of the system prompt and tools alone, "
                f"which no compaction removes; set at least {4 * self.floor_tokens:,}"
            )
        self._threshold = tokens

    def fit(self, info: ModelInfo, *, floor_tokens: int = 0) -> None:
        """Learn the model's window and what a request costs at the least."""
        self.info = info
        self.counter = TokenCounter(info.encoding)
        self.floor_tokens = floor_tokens
        self.set_threshold(self._threshold)

    def resume(self, session: Session) -> None:
        """Count a loaded session as if it had never been away."""
        changes = [c for c in session.compactions if c.status != "failed"]
        since = max((change.committed_at for change in changes), default=0)
        self.reset()
        for position, usage in session.usages:
            if position > since:
                self.update_token_count(usage, position=position)

    def update_token_count(self, usage: Usage, *, position: int | None = None) -> None:
        """Add a response's input tokens.

        `position` is the length of the transcript when the response had joined it;
        with it the size of the context is known exactly up to there.
        """
        self.input_tokens += usage.input_tokens
        if position is not None:
            self._anchor = (position, usage)

    def reset(self, *, failures: int = 0) -> None:
        """Begin to count anew, as after a compaction, with so many failures known."""
        self.input_tokens = 0
        self._anchor = None
        self._cooldown = (0, 0)
        self.failures = failures

    def context_tokens(self, session: Session) -> int:
        """What the next request holds: the last report plus an estimate of the rest."""
        if self._anchor is not None:
            position, usage = self._anchor
            added = self.counter.count_entries(session.transcript[position:])
            return usage.total_tokens + added
        return self.floor_tokens + self.counter.count_entries(session.history)

    def should_compact(self, session: Session) -> Decision:
        """Whether it is time, which meter says so, and why."""
        tokens, context = self._cooldown
        threshold = self.context_token_threshold
        return read_meters(
            Reading(
                self.input_tokens,
                None if threshold is None else tokens + threshold,
                self.context_tokens(session),
                self._window_limit(context),
            )
        )

    def cool_down(self, session: Session, *, thresholds: int = 1) -> None:
        """Let the meters rest: the next try comes some thresholds' worth later."""
        waited = (self.context_token_threshold or 0) * (thresholds - 1)
        self._cooldown = (self.input_tokens + waited, self.context_tokens(session))

    def record_failure(self, session: Session) -> None:
        """After a failed compaction: rest for eight thresholds' worth, then for 64.

        So a summariser that never succeeds costs little, and one that recovers is
        found out.
        """
        self.failures += 1
        self.cool_down(session, thresholds=PATIENCE**self.failures)

    def _window_limit(self, cooldown_context: int) -> int | None:
        if self.info.window is None:
            return None
        usable = self.info.window - self.info.output_reserve
        return max(int(usable * self.policy.window_share), cooldown_context * 11 // 10)
