"""Which way to compact: a policy is data, and a policy of one's own is a dataclass."""

from dataclasses import dataclass

from nbchat.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Policy:
    """When to compact and what is kept word for word."""

    name: str
    is_cumulative: bool = True
    """Whether the sum of input tokens triggers; the window guard always does."""
    window_share: float = 0.80
    """Share of the window, less the output reserve, at which the guard fires."""
    keep_entries: int = 0
    """Newest entries kept as they are; rounded up to whole units."""
    summary_max_tokens: int = 1_500
    """The longest summary asked for."""
    prunes: bool = False
    """Whether old tool outputs are shortened first; if that is enough, no model is
    called."""
    protected_tools: tuple[str, ...] = ()
    """Tools whose outputs are never shortened."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not 0 < self.window_share <= 1:
            raise ConfigError(
                f"policy {self.name!r}: window_share {self.window_share} is no share; "
                "set it between 0 and 1"
            )
        if self.keep_entries < 0:
            raise ConfigError(
                f"policy {self.name!r}: keep_entries {self.keep_entries} is negative"
            )


PRESETS = {policy.name: policy for policy in (Policy("single-summary"),)}


def policy_named(policy: str | Policy) -> Policy:
    """A preset by its name, or the policy itself."""
    if isinstance(policy, Policy):
        return policy
    if policy not in PRESETS:
        raise ConfigError(f"no policy {policy!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[policy]
