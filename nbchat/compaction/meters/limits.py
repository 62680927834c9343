"""How much is too much: what a policy allows for a model, and what it cannot."""

from dataclasses import dataclass

from nbchat.compaction.policies import Policy
from nbchat.errors import ConfigError
from nbchat.models import ModelInfo

WINDOW_SHARE_OF_THRESHOLD = 0.75
"""The threshold as a share of the window when none is set."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the meters of a policy fire at, for one model; None where nothing does."""

    policy: Policy
    info: ModelInfo
    set_threshold: int | None
    """The cumulative threshold somebody set."""

    @property
    def threshold(self) -> int | None:
        """Input tokens after which to compact; None when that meter is off."""
        if self.policy.meter != "cumulative":
            return None
        if self.set_threshold is None and self.info.window is not None:
            return int(self.info.window * WINDOW_SHARE_OF_THRESHOLD)
        return self.set_threshold

    @property
    def usable_window(self) -> int | None:
        """The window less what an answer needs."""
        if self.info.window is None:
            return None
        return self.info.window - self.info.output_reserve

    @property
    def guard(self) -> int | None:
        """What the context may hold before the window's guard fires."""
        window, usable, policy = self.info.window, self.usable_window, self.policy
        if window is None or usable is None:
            return None
        whole = window if policy.share_of == "window" else usable
        share = min(int(whole * policy.window_share), usable)
        return share - int(window * policy.margin_share)

    @property
    def goal(self) -> int | None:
        """What a compaction must bring the context down to; None: no such size."""
        policy, window = self.policy, self.info.window
        if policy.target_share is not None and window is not None:
            return min(int(window * policy.target_share), self.guard or window)
        if not policy.keep:
            return None
        return self.usable_window if policy.keeps_always else self.guard

    def fit(self, trigger: str) -> int | None:
        """What the kept part must fit into, or less is kept; None: it always stays.

        A target is no reason to keep less, a request that was refused is one.
        """
        goal, guard = self.goal, self.guard
        if goal is None or guard is None:
            return goal
        return min(goal, guard) if trigger == "overflow" else max(goal, guard)

    def of(self, trigger: str) -> int | None:
        """What a trigger fires at and a compaction must get below."""
        if trigger == "cumulative":
            return self.threshold
        return self.guard if trigger == "window" else None

    def check(self, floor_tokens: int) -> None:
        """Raise ConfigError where the policy cannot work with this model."""
        tokens = self.set_threshold
        if tokens is not None and tokens <= 0:
            raise ConfigError(
                f"context_token_threshold {tokens} is no token count; set one above 0"
            )
        if self.policy.meter == "cumulative" and tokens is not None:
            self._check_floor("context_token_threshold", tokens, floor_tokens)
        self._check_keep()

    def check_guard(self, floor_tokens: int) -> None:
        """Raise ConfigError where the guard's limit is below the floor."""
        if self.policy.meter != "off" and self.guard is not None:
            name = f"the limit of policy {self.policy.name!r}"
            self._check_floor(name, self.guard, floor_tokens)

    def _check_floor(self, name: str, tokens: int, floor_tokens: int) -> None:
        if tokens <= floor_tokens:
            raise ConfigError(
                f"{name} {tokens:,} is not above the {floor_tokens:,} tokens of the "
                "system prompt and tools alone, which no compaction removes; "
                f"set at least {4 * floor_tokens:,}"
            )

    def _check_keep(self) -> None:
        policy, guard = self.policy, self.guard
        if policy.keep_unit != "tokens" or guard is None:
            return
        if policy.keep >= guard:
            raise ConfigError(
                f"policy {policy.name!r} keeps {policy.keep:,} tokens word for word, "
                f"but compacts {self.info.name} at {guard:,}; keep fewer"
            )
