"""Which way to compact: a policy is data, and a policy of one's own is a dataclass."""

from dataclasses import dataclass
from typing import Literal, get_args

from nbchat.errors import ConfigError

Meter = Literal["cumulative", "window", "auto", "off"]

LEAST_TOKENS = 100
"""An automatic compaction of fewer tokens than this could not pay for its request; low,
for the sake of local models with tiny windows."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When to compact and what is kept word for word."""

    name: str
    meter: Meter = "cumulative"
    """What triggers: the sum of input tokens, or its price (auto), each together with
    the window guard and the recovery from overflow; these two alone (window); or
    nothing at all, and only a person compacts (off)."""
    window_share: float = 0.80
    """Share of the window, less the output reserve, at which the guard fires."""
    keep_entries: int = 0
    """Newest entries kept as they are; rounded up to whole units."""
    summary_max_tokens: int = 1_500
    """The longest summary asked for."""
    summarizer: Literal["prose", "extractive"] = "prose"
    """Who writes the story: a model, or code that quotes the newest words."""
    least_tokens: int = LEAST_TOKENS
    """Fewest tokens an automatic compaction must fold beyond an earlier summary."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.meter not in get_args(Meter):
            raise ConfigError(
                f"policy {self.name!r}: there is no meter {self.meter!r}; "
                f"choose one of {', '.join(get_args(Meter))}"
            )
        if not 0 < self.window_share <= 1:
            raise ConfigError(
                f"policy {self.name!r}: window_share {self.window_share} is no share; "
                "set it between 0 and 1"
            )
        for name in ("keep_entries", "least_tokens"):
            if (number := getattr(self, name)) < 0:
                raise ConfigError(f"policy {self.name!r}: {name} {number} is negative")


PRESETS = {
    policy.name: policy
    for policy in (
        Policy("single-summary"),
        Policy("extractive", summarizer="extractive"),
        Policy("auto", meter="auto"),
        Policy("off", meter="off"),
    )
}


def policy_named(policy: str | Policy) -> Policy:
    """A preset by its name, or the policy itself."""
    if isinstance(policy, Policy):
        return policy
    if policy not in PRESETS:
        raise ConfigError(f"no policy {policy!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[policy]
