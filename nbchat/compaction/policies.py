"""Policies and presets: when to compact, what to keep, and how to summarize.

A policy is data; make your own from a preset:

CompactionEngine(policy="tiered")
CompactionEngine(policy=replace(PRESETS["tiered"], name="mine", keep=5))
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin

from nbchat.conversation.entries import BY_MODEL
from nbchat.errors import ConfigError

Meter = Literal["cumulative", "window", "auto", "off"]
Summarizer = Literal["prose", "structured", "hybrid", "extractive"]
Style = Literal["general", "facts", "complete", "technical", "code"]
Detail = Literal["normal", "detailed", "concise"]
KeepUnit = Literal["messages", "exchanges", "tokens"]

Shape = Literal["plain", "shared"]
"""A summary request of its own, or the chat's own request with one more message."""

LENGTHS: dict[Detail, float] = {"normal": 1.0, "detailed": 1.5, "concise": 0.5}
"""Factor of a summary's length for each level of detail."""

LEAST_TOKENS = 100
"""Tokens below which an automatic compaction would not pay for its request; low for
local models with tiny windows."""

LARGEST_SUMMARY_SHARE = 0.5
"""The text of a summary must be at most this share of what it covers."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When to compact, what to keep word for word, and how to summarize the rest."""

    name: str
    meter: Meter = "cumulative"
    """The trigger: the sum of input tokens (cumulative) or its price (auto), each
    together with the window guard and the recovery from overflow; these two alone
    (window); or none, so that only a person compacts (off)."""
    window_share: float = 0.80
    """Share of the window at which the guard fires."""
    share_of: Literal["usable", "window"] = "usable"
    """The share is of the window less the answer's reserve (usable), or of all of it;
    even then the guard fires before the reserve is used."""
    margin_share: float = 0.0
    """Share of the window by which to compact earlier than `window_share` says."""
    target_share: float | None = None
    """Share of the window to compact down to; None: below the trigger's limit."""
    keep: int | None = None
    """How much of the newest is kept beside the summary; less where it would not fit.
    None: nothing, for the newest messages stand word for word inside the summary."""
    keep_unit: KeepUnit = "messages"
    """The unit of `keep`. An exchange is a prompt and all that follows. Messages and
    exchanges are rounded up to whole units; of tokens, whole units that fit are
    kept."""
    keep_by_hand: int | None = None
    """`keep` for a compaction that a person requests; None: the same."""
    keeps_always: bool = False
    """True if less is kept only to fit the window itself; else also to get below the
    guard's limit."""
    summarizer: Summarizer = "prose"
    """Who writes the summary: a model, in prose or as JSON (structured), or no model:
    the entry then has only what code copies (extractive). "hybrid" is prose,
    with headings over it and over the files, commands and errors that code copies."""
    style: Style = "general"
    """The focus of a summary."""
    detail: Detail = "normal"
    """How detailed, and so how long, a summary may be."""
    summary_max_tokens: int = 2_000
    """Tokens of the longest summary, about 1,000 words."""
    summary_share: float = 0.15
    """Largest share of what it replaces that a summary is asked to take, about 7.5
    words for 100 tokens."""
    facts_share: float = 0.15
    """Tokens of what code copies, as a share of all that was ever compacted."""
    facts_max_tokens: int = 4_000
    """The most tokens of it; in windows of over 64,000 a sixteenth, if that is more."""
    largest_share: float = 0.6
    """Summary and memory together must be at most this share of what they replace."""
    bullets: int = 0
    """How many of the newest compacted exchanges get one line each in the summary."""
    least_tokens: int = LEAST_TOKENS
    """Fewest new tokens that an automatic compaction must cover; at most 100 where a
    request was refused as too long, because the chat could not continue otherwise."""
    shortens_at_once: bool = False
    """True if tool outputs are shortened before the model first sees them."""
    offers_checkpoint: bool = False
    """True if models with tools are offered a checkpoint tool, which saves the state of
    the work and replaces the last checkpoint."""
    verbosity: Literal["normal", "debug"] = "normal"
    """With debug no tool output is shortened."""
    protected_tools: tuple[str, ...] = ()
    """Names of tools whose outputs are not shortened."""
    on_failure: Literal["extract", "wait"] = "extract"
    """When the window is full and the summary fails: code writes an extract at once, or
    the history stays; after a request refused as too long there is always an extract.
    In both cases a summary is tried again after one, two, four ... more requests."""
    asks_first: bool = False
    """True if a person is asked when the sum of input tokens or its price is due; the
    window guard compacts without asking."""
    counts_exactly: bool = False
    """True if the provider counts the context when it is close to the limit."""

    def __post_init__(self) -> None:
        """Raise ConfigError for values that cannot work."""
        self._check_choices()
        self._check_numbers()
        for name in ("window_share", "summary_share", "facts_share", "largest_share"):
            self._check_share(name)
        if self.target_share is not None:
            self._check_share("target_share")
            if self.target_share >= self.window_share:
                self._refuse(
                    f"target_share {self.target_share} must be below window_share, "
                    f"{self.window_share}"
                )
        if not 0 <= self.margin_share < self.window_share:
            self._refuse(
                f"margin_share {self.margin_share} must be below window_share, "
                f"{self.window_share}"
            )
        for name in ("keep", "keep_by_hand", "least_tokens", "bullets"):
            value = getattr(self, name) or 0
            if value < 0:
                self._refuse(f"{name} can't be {value}. Use 0 or more")

    def kept(self, trigger: str) -> int:
        """How much is kept word for word after a trigger."""
        is_asked = trigger in ("manual", BY_MODEL)
        by_hand = is_asked and self.keep_by_hand is not None
        return (self.keep_by_hand if by_hand else self.keep) or 0

    def _check_choices(self) -> None:
        for field in fields(self):
            if get_origin(field.type) is Literal:
                value, choices = getattr(self, field.name), get_args(field.type)
                if value not in choices:
                    known = ", ".join(choices)
                    self._refuse(
                        f"{field.name} can't be {value!r}. Choose one of {known}"
                    )

    def _check_numbers(self) -> None:
        for field in fields(self):
            types, value = (
                (field.type, *get_args(field.type)),
                getattr(self, field.name),
            )
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            may_be_none = value is None and type(None) in types
            if {int, float} & {*types} and not (is_number or may_be_none):
                self._refuse(f"{field.name} can't be {value!r}. Use a number")

    def _check_share(self, name: str) -> None:
        share = getattr(self, name)
        if not 0 < share <= 1:
            self._refuse(f"{name} must be between 0 and 1, not {share}")

    def _refuse(self, reason: str) -> None:
        raise ConfigError(f"Policy {self.name!r}: {reason}.")


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
            style="facts",
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
        ),
        Policy(
            "early",
            meter="window",
            window_share=0.50,
            share_of="window",
            keep=3,
            keeps_always=True,
            shortens_at_once=True,
            offers_checkpoint=True,
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
            largest_share=0.1,
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


ABOUT = {
    "single-summary": "When the input tokens since the last compaction reach the "
    "threshold: one summary of all messages.",
    "tiered": "At 75% of the window: the last 10 exchanges stay, older ones become "
    "bullets, and the oldest become facts.",
    "recent-messages": "At 80% of the window: the last 10 messages stay, and a "
    "summary replaces the others.",
    "early": "At 50% of the window: the last 3 messages stay. Tool outputs are "
    "shortened as they arrive.",
    "token-window": "At 95% of the window: the newest 1,000 tokens stay.",
    "extractive": "Copies messages, work and results instead of calling a model.",
    "auto": "When a compaction costs less than sending everything again.",
    "off": "Only on request.",
}
"""The description of each preset for people."""


def policy_named(policy: str | Policy) -> Policy:
    """Return a preset by its name, or the policy itself."""
    if isinstance(policy, Policy):
        return policy
    if policy not in PRESETS:
        near = [f"Did you mean {n}?" for n in get_close_matches(policy, PRESETS, 1)]
        known = f"Choose one of {', '.join(PRESETS)}."
        raise ConfigError(" ".join([f"No policy named {policy!r}.", *near, known]))
    return PRESETS[policy]


def with_fields(policy: Policy, changes: Mapping[str, Any]) -> Policy:
    """A policy with some fields changed, as JSON has them; raises ConfigError."""
    known = [field.name for field in fields(Policy) if field.name != "name"]
    for name in changes:
        if name not in known:
            near = get_close_matches(name, known, 1) or known
            raise ConfigError(
                f"The policy {policy.name!r} has no field {name!r}. "
                f"Did you mean {' or '.join(near)}?"
            )
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each
        for name, each in changes.items()
    }
    try:
        return replace(policy, **values)
    except TypeError as error:
        raise ConfigError(f"Policy {policy.name!r}: {error}") from error
