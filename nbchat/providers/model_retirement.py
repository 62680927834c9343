"""When models are retired, and what to use instead.

Sources, read in November 2026: openai 3.57 (`completion_create_params.py`), anthropic
2.13 (`DEPRECATED_MODELS`), https://ai.google.dev/gemini-api/docs/deprecations.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

DATES = "the SDK and the provider's documentation"

NOTICE_DAYS = 90
"""Days before its retirement from which a model is warned of."""

DATED = ("-20", "@20", "-latest", "-preview")
"""Begin what may follow a model's name: a date of its version."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """The day from which a model is not served, and its successor."""

    day: date
    successor: str

    def is_near(self, today: date | None = None) -> bool:
        """Whether the model is retired, or will be within 90 days."""
        today = today or datetime.now(UTC).date()
        return (self.day - today).days < NOTICE_DAYS

    def line(self, name: str, today: date | None = None) -> str:
        """One line about a model: when it is retired, and what to use."""
        today = today or datetime.now(UTC).date()
        verb = "was retired" if self.day <= today else "will be retired"
        return f"{name} {verb} on {self.day}; use {self.successor}"


def retirement(name: str) -> Retirement | None:
    """When a model is retired; None if no date is known. `name` has no provider."""
    if name in RETIREMENTS:
        return RETIREMENTS[name]
    stems = (stem for stem in RETIREMENTS if name.startswith(stem))
    versions = [stem for stem in stems if name[len(stem) :].startswith(DATED)]
    return RETIREMENTS[max(versions, key=len)] if versions else None


def is_retired(name: str, today: date | None = None) -> bool:
    """Whether a model is no longer served."""
    found = retirement(name)
    return found is not None and found.day <= (today or datetime.now(UTC).date())


_TABLE: tuple[tuple[str, str, str], ...] = (
    ("2026-12-11", "gpt-6-luna", "gpt-5-mini gpt-5-nano"),
    ("2026-12-11", "gpt-6-sol", "gpt-5 o3"),
    ("2027-04-01", "gpt-6-luna", "gpt-5.4-nano"),
    ("2027-04-01", "gpt-6-sol", "gpt-5.1"),
    ("2026-08-10", "gpt-6-luna", "gpt-5.2-chat-latest gpt-5.3-chat-latest"),
    (
        "2026-07-23",
        "gpt-6-luna",
        (
            "gpt-5-chat-latest gpt-5.1-chat-latest gpt-5.1-codex gpt-4o-search-preview "
            "gpt-4o-mini-search-preview"
        ),
    ),
    ("2027-01-14", "gpt-6-luna", "gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini"),
    (
        "2026-10-23",
        "gpt-6-luna",
        (
            "gpt-4.1-nano o4-mini o3-mini o1 gpt-4-turbo gpt-4 gpt-3.5-turbo "
            "gpt-4o-2024-05-13 gpt-4-1106-preview gpt-4-0613 gpt-3.5-turbo-0125"
        ),
    ),
    ("2026-02-17", "gpt-6-luna", "chatgpt-4o-latest"),
    ("2026-02-12", "gpt-6-sol", "codex-mini-latest"),
    ("2025-10-27", "gpt-6-luna", "o1-mini"),
    ("2025-07-28", "gpt-6-luna", "o1-preview"),
    ("2027-01-22", "claude-opus-5-5", "claude-opus-4-5"),
    ("2026-11-30", "claude-sonnet-5-5", "claude-sonnet-4-5"),
    ("2026-06-30", "claude-opus-5-5", "claude-mythos-preview"),
    ("2026-06-15", "claude-opus-5-5", "claude-opus-4-0 claude-opus-4"),
    ("2026-06-15", "claude-sonnet-5-5", "claude-sonnet-4-0 claude-sonnet-4"),
    ("2026-02-19", "claude-sonnet-5-5", "claude-3-7-sonnet"),
    ("2026-02-19", "claude-haiku-5-5", "claude-3-5-haiku"),
    ("2026-01-05", "claude-opus-5-5", "claude-3-opus"),
    ("2025-07-21", "claude-sonnet-5-5", "claude-3-sonnet claude-2.1 claude-2.0"),
    (
        "2024-11-06",
        "claude-haiku-5-5",
        (
            "claude-1.3 claude-1.3-100k claude-instant-1.1 claude-instant-1.1-100k "
            "claude-instant-1.2"
        ),
    ),
    ("2026-12-01", "gemini-3.5-flash-lite", "gemini-2.5-flash"),
)
"""Days, successors and names; a name means its dated versions, too."""

RETIREMENTS = {
    name: Retirement(date.fromisoformat(day), successor)
    for day, successor, names in _TABLE
    for name in names.split()
}
