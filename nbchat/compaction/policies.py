"""Which way to compact: a policy is data, and a policy of one's own is a dataclass.

CompactionEngine(policy="tiered")
CompactionEngine(policy=replace(PRESETS["tiered"], name="mine", keep=5))
"""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin

from nbchat.errors import ConfigError

Meter = Literal["cumulative", "window", "auto", "off"]
Summarizer = Literal["prose", "structured", "hybrid", "extractive"]
Style = Literal["general", "complete", "technical", "code"]
Detail = Literal["normal", "detailed", "concise"]
KeepUnit = Literal["messages", "exchanges", "tokens"]

LENGTHS: dict[Detail, float] = {"normal": 1.0, "detailed": 1.5, "concise": 0.5}
"""What the detail makes of a summary's length."""

LEAST_TOKENS = 100
"""An automatic compaction of fewer tokens than this could not pay for its request; low,
for the sake of local models with tiny windows."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When to compact, what is kept word for word, and who tells the rest."""

    name: str
    meter: Meter = "cumulative"
    """What triggers: the sum of input tokens, or its price (auto), each together with
    the window guard and the recovery from overflow; these two alone (window); or
    nothing at all, and only a person compacts (off)."""
    window_share: float = 0.80
    """Share of the window at which the guard fires."""
    share_of: Literal["usable", "window"] = "usable"
    """Of what: the window less the room for an answer, or all of it; then the guard
    still fires before the answer's room is touched."""
    margin_share: float = 0.0
    """Share of the window that stays free on top of that."""
    target_share: float | None = None
    """Share of the window to come down to; None: below what had set it off."""
    keep: int = 0
    """How much of the newest stays word for word; less where it would not fit."""
    keep_unit: KeepUnit = "messages"
    """What `keep` counts. Messages and exchanges are rounded up to whole units, of
    tokens as many whole units are kept as fit."""
    keep_by_hand: int | None = None
    """The same for a compaction that a person asked for; None: no difference."""
    keeps_always: bool = False
    """Whether what is kept gives way only to the window itself; else to the guard's
    limit, too."""
    summarizer: Summarizer = "prose"
    """Who tells the story: a model in prose, or as JSON with fields of its own
    (structured); a model, with files, commands and errors listed by code (hybrid); or
    code that quotes the newest words (extractive)."""
    style: Style = "general"
    """What a summary looks for."""
    detail: Detail = "normal"
    """How much of it a summary tells, and with that how long it may be."""
    summary_max_tokens: int = 1_500
    """The longest summary asked for."""
    summary_share: float = 0.25
    """A summary may take this share of what it replaces."""
    facts_share: float = 0.10
    """So may the facts; 500 tokens where that is more."""
    largest_share: float = 0.9
    """Summary and facts together must be at most this share of what they replace."""
    bullets: int = 0
    """Newest folded exchanges of which code keeps a line each."""
    keeps_rules: bool = False
    """Whether what users asked to be respected is kept word for word."""
    least_tokens: int = LEAST_TOKENS
    """Fewest tokens an automatic compaction must fold beyond an earlier summary; at
    most 100 where a request was refused as too long, for else the chat would end."""
    prunes: bool = False
    """Whether old tool outputs are shortened first; if that is enough, no model is
    called."""
    shortens_at_once: bool = False
    """Whether a tool's output is shortened by its kind before the model first sees
    it."""
    verbosity: Literal["normal", "debug"] = "normal"
    """With debug no tool output is ever shortened."""
    protected_tools: tuple[str, ...] = ()
    """Tools whose outputs are never shortened."""
    on_failure: Literal["stand-in", "wait"] = "stand-in"
    """Where the window is full and no summary could be had: code stands in at once, or
    the history stays and a summary is asked for again after one, two, four ... more
    requests; a request that is refused as too long always gets the stand-in."""
    counts_exactly: bool = False
    """Whether near its limit the provider's own count is asked for."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, with the numbers."""
        self._check_choices()
        for name in ("window_share", "summary_share", "facts_share", "largest_share"):
            self._check_share(name)
        if self.target_share is not None:
            self._check_share("target_share")
            if self.target_share >= self.window_share:
                self._refuse(
                    f"target_share {self.target_share} is not below the trigger, "
                    f"window_share {self.window_share}"
                )
        if not 0 <= self.margin_share < self.window_share:
            self._refuse(
                f"margin_share {self.margin_share} leaves nothing of "
                f"window_share {self.window_share}"
            )
        for name in ("keep", "keep_by_hand", "least_tokens", "bullets"):
            if (getattr(self, name) or 0) < 0:
                self._refuse(f"{name} {getattr(self, name)} is negative")

    def kept(self, trigger: str) -> int:
        """How much stays word for word when this has set a compaction off."""
        by_hand = trigger == "manual" and self.keep_by_hand is not None
        return (self.keep_by_hand or 0) if by_hand else self.keep

    def _check_choices(self) -> None:
        for field in fields(self):
            if get_origin(field.type) is Literal:
                value, choices = getattr(self, field.name), get_args(field.type)
                if value not in choices:
                    known = ", ".join(choices)
                    self._refuse(f"there is no {field.name} {value!r}; choose {known}")

    def _check_share(self, name: str) -> None:
        share = getattr(self, name)
        if not 0 < share <= 1:
            self._refuse(f"{name} {share} is no share; set it between 0 and 1")

    def _refuse(self, reason: str) -> None:
        raise ConfigError(f"policy {self.name!r}: {reason}")


PRESETS = {
    policy.name: policy
    for policy in (
        Policy("single-summary"),
        Policy(
            "tiered",
            meter="window",
            window_share=0.75,
            share_of="window",
            keep=10,
            keep_unit="exchanges",
            bullets=40,
            summarizer="structured",
            summary_share=0.15,
            facts_share=0.175,
            largest_share=0.4,
        ),
        Policy(
            "recent-messages",
            meter="window",
            window_share=0.80,
            share_of="window",
            target_share=0.60,
            keep=10,
            summarizer="hybrid",
            style="technical",
            summary_max_tokens=2_000,
        ),
        Policy(
            "early",
            meter="window",
            window_share=0.50,
            share_of="window",
            keep=3,
            keeps_always=True,
            keeps_rules=True,
            shortens_at_once=True,
        ),
        Policy(
            "token-window",
            meter="window",
            window_share=0.95,
            margin_share=0.05,
            keep=1_000,
            keep_unit="tokens",
            keep_by_hand=0,
            style="complete",
            summary_share=0.06,
            facts_share=0.03,
            least_tokens=2_000,
            on_failure="wait",
            counts_exactly=True,
        ),
        Policy("extractive", summarizer="extractive"),
        Policy("auto", meter="auto"),
        Policy("off", meter="off"),
    )
}
"""The policies with a name; CONTRIBUTING says where the first five come from."""


def policy_named(policy: str | Policy) -> Policy:
    """A preset by its name, or the policy itself."""
    if isinstance(policy, Policy):
        return policy
    if policy not in PRESETS:
        known = ", ".join(PRESETS)
        raise ConfigError(
            f"invalid value for policy: {policy!r}. Choose one of: {known}"
        )
    return PRESETS[policy]
