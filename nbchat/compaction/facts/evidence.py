"""Decide what is known of a call: done, failed, or only called.

*Done* needs evidence: a tool whose name says that it acts, and a result that does not
say otherwise. Refusals in words, error fields and dry runs are failures; everything
else only says what was called and what came back.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

Status = Literal["done", "called", "failed", "interrupted"]
"""What is known of a call: an action that succeeded; a call of which only the result is
known; one that failed; one whose result never came."""

_ACTS = re.compile(
    r"(?:"
    r"accept|activate|add|adjust|allocate|apply|approve|archive|assign|authorize"
    r"|ban|block|book|buy|cancel|change|charge|clear|close|commit|complete"
    r"|confirm|create|credit|decline|deduct|delete|deliver|deploy|disable"
    r"|dispatch|drop|edit|enable|enroll|escalate|exchange|extend|finalize|finish"
    r"|fix|forward|freeze|give|grant|hold|insert|install|invite|issue|launch"
    r"|lock|make|mark|merge|modify|move|notify|open|order|patch|pause|pay|place"
    r"|post|publish|purchase|push|put|reactivate|reassign|rebook|reboot|redeem"
    r"|refuel|refund|register|reject|release|remove|rename|reopen|replace|reply"
    r"|request|reschedule|reseat|reserve|reset|resolve|restart|restore|resume"
    r"|retry|return|revert|revoke|save|schedule|sell|send|set|ship|sign|start"
    r"|stop|store|submit|subscribe|suspend|swap|terminate|toggle|top|transfer"
    r"|unblock|unfreeze|uninstall|unlock|unsubscribe|update|upgrade|upload|void"
    r"|withdraw|write"
    r")$"
)
"""Verbs of tools that change something."""

_NOUNS = re.compile(
    r"(?:"
    r"book|charge|credit|exchange|hold|issue|mark|order|patch|post|process"
    r"|return|ship|stop|store|transfer"
    r")$"
)
"""Those that are nouns, too."""

_ABOUT = re.compile(
    r"(?:"
    r"balance|by|count|detail|details|for|history|info|list|lookup|report|score"
    r"|search|status|summary"
    r")$"
)
"""Words after which they are nouns: `order_details`."""

_REFUSED = re.compile(
    r"\b(?:could ?n[o']t|can ?not|can't|unable|fail(?:s|ed|ure)?|error|denied|declined"
    r"|rejected|refused|forbidden|unauthori[sz]ed|invalid|not (?:allowed|permitted"
    r"|found|possible|eligible|supported|available|enough|done|been)|no such"
    r"|does not|doesn't|did not|didn't|insufficient|missing|expired|timed? ?out|aborted"
    r"|would (?:be|have)?|dry[ _-]run|simulat\w+|skipped|nothing (?:was|to)|no changes?"
    r"|must (?:be|have|first)|already)\b",
    re.IGNORECASE,
)
"""Words by which a result says that an action was not done."""

_REFUSED_ABROAD = re.compile(
    r"\b(?:nicht|kein\w*|fehlgeschlagen|abgelehnt|n['\u2019]a pas|impossible|échou\w+"
    r"|refus\w+|no se (?:pudo|puede|ha)|no fue|error al|rechazad\w+|não (?:foi|pôde|é)"
    r"|falhou|recusad\w+|не (?:удалось|может|удалён)|невозможно|ошибка)\b"
    r"|失败|失敗|无法|無法|不能|拒绝|できません|できない|실패|없습니다|تعذر|فشل|विफल|नहीं",
    re.IGNORECASE,
)
"""The same in German, French, Spanish, Portuguese, Chinese, Japanese, Korean, Russian,
Arabic and Hindi."""

_FAILED_STATES = re.compile(
    r"(?:"
    r"aborted|declined|denied|error|failed|failure|forbidden|invalid|refused"
    r"|rejected|skipped|timeout|unauthorized"
    r")$"
)
"""States of an action that was not done."""

_TRIALS = ("dry_run", "dryrun", "simulate", "preview", "test_mode", "validate_only")
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_NOTHING: tuple[object, ...] = (None, False, "", [], {}, "0", "none", "None", "null")

ERROR_CODES = range(400, 600)
"""HTTP status codes of failures."""

CACHED_NAMES = 5_000
"""Names of fields that are remembered: records have the same ones again and again."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(CACHED_NAMES)
def snake(name: str) -> str:
    """A name in snake case, as `orderId` in `order_id`."""
    return _CAMEL.sub("_", name).replace("-", "_").replace(" ", "_").lower()


def acts(tool: str) -> bool:
    """Whether a tool's name begins with a verb that changes something."""
    first, *rest = snake(re.split(r"__|[.:/]", tool)[-1]).split("_")
    is_noun = _NOUNS.fullmatch(first) and any(map(_ABOUT.fullmatch, rest))
    return bool(_ACTS.fullmatch(first)) and not is_noun


def status_of(
    tool: str, asked: Iterable[tuple[str, str]], answer: Any, said: str
) -> Status:
    """What a result says of its call.

    `asked` are the names and texts of the arguments, `answer` is the result's JSON or
    None, and `said` what the result says in words.
    """
    if isinstance(answer, dict) and any(_denies(*each) for each in _plain(answer)):
        return "failed"
    if said.lower().startswith(("error", "failed", "failure")):
        return "failed"
    is_trial = any(snake(n) in _TRIALS and t.lower() not in _NO for n, t in asked)
    is_empty = isinstance(answer, dict | list) and not answer
    if not acts(tool) or is_trial or is_empty:
        return "called"
    if _REFUSED.search(said) or _REFUSED_ABROAD.search(said):
        return "failed" if answer is None else "called"
    return "done"


def _plain(answer: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((snake(str(name)), value) for name, value in answer.items())


def _denies(name: str, value: Any) -> bool:
    """Whether a field of a result says that its call failed, or was only a trial."""
    text = str(value).strip().lower()
    if name in ("success", "ok", "succeeded", "successful", "is_success"):
        return text in _NO
    if name in ("error", "errors", "error_message", "failure", "exception"):
        return value not in _NOTHING and text not in _NOTHING
    if name in ("status", "state", "result", "outcome"):
        return bool(_FAILED_STATES.fullmatch(text))
    if name in ("dry_run", "dryrun", "simulated"):
        return text in _YES
    if name in ("exit_code", "errno"):
        return text.isdigit() and int(text) != 0
    is_code = name in ("code", "status_code", "http_status") and text.isdigit()
    return is_code and int(text[:9]) in ERROR_CODES
