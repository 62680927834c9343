"""Decide what is known of a call: done, failed, unconfirmed, or only called.

*Done* needs evidence: a tool that is known to act, and a result that confirms it, or is
the changed record. A result that denies it is a failure. Where a result does neither,
because it is queued, partial, empty or in unknown words, it is quoted and not judged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from nbchat.compaction.facts.tool_names import (
    DONE_FORMS,
    acts,
    is_done_form,
    snake,
    verb_of,
    word_set,
)
from nbchat.compaction.pruning.failure_lines import failed_lines

Status = Literal["done", "unconfirmed", "called", "failed", "interrupted"]
"""What is known of a call: an action that succeeded; an action whose result leaves that
open; a call of which only the result is known; one that failed; one whose result never
came."""

_REFUSED = re.compile(
    r"\b(?:could ?n[o']t|can ?not|can't|unable|fail(?:s|ed|ure)?|error(?:ed)?|denied"
    r"|declined|do(?:es)? not|don't|not \w+ed|roll(?:ed|ing)? ?back|fully booked"
    r"|rejected|refused|forbidden|unauthori[sz]ed|invalid|not (?:allowed|permitted"
    r"|found|possible|eligible|supported|available|enough|done|been|sent|appl(?:y|ied))"
    r"|no such|doesn't|did not|didn't|insufficient|missing|expired|timed? ?out"
    r"|aborted|skipped|nothing (?:was|to)|no changes?|must (?:be|have|first)|already"
    r"|bounced|sold out|(?:service|temporarily) unavailable|limit exceeded|reset by"
    r"|no (?:\w+ )?left|un(?:successful\w*|known)|incorrect|[45]\d\d [A-Z]\w+)\b",
    re.IGNORECASE,
)
"""Words by which a result says that an action was not done."""

_REFUSED_ABROAD = re.compile(
    r"\b(?:nicht|kein\w*|fehl\w+|abgelehnt|verweigert|n['\u2019]a pas|impossible"
    r"|introuvable|échou\w+|échec|refus\w+|no se (?:pudo|puede|ha|encontró)"
    r"|no (?:fue|encontrad\w+|existe)|denegad\w+|error al|rechazad\w+"
    r"|não (?:foi|pôde|é|encontrad\w+|existe)|negad\w+|falhou|recusad\w+"
    r"|не|невозможно|отказ\w*|отклон\w+|ошибка)\b"
    r"|失败|失敗|无法|無法|不能|不足|不存在|拒绝|ません|できない|エラー|실패|없습니다|거부"
    r"|تعذر|فشل|لم |رفض|خطأ|विफल|नहीं|अस्वीकृत|त्रुटि",
    re.IGNORECASE,
)
"""The same in German, French, Spanish, Portuguese, Chinese, Japanese, Korean, Russian,
Arabic and Hindi."""

_DOUBTFUL = re.compile(
    r"\b(?:would|dry[ _-]run|simulat\w+|preview\w*|queued|enqueued|pending|in progress"
    r"|processing|await\w*|will be|under review|on hold|a draft|to confirm|confirm to"
    r"|request (?:has been |was )?(?:received|noted|submitted)|is full|is locked"
    r"|conflicts?|exists|mismatch"
    r"|required|partial\w*|some of|more specific)\b|[?\uff1f\u061f]"
    r"|(?<![\w.:/-])(?:0|zero)(?: of \d+)?"
    r" (?!errors?|warnings?|problems?|issues?|failures?|seconds?)[a-z]"
    r"|\bno (?:documents?|entr(?:y|ies)|files?|items?|match(?:es)?|recipients?"
    r"|records?|results?|rows?)\b",
    re.IGNORECASE,
)
"""Words by which a result leaves open whether an action was done."""

_DOUBTFUL_ABROAD = re.compile(
    r"\b(?:vorgemerkt|geprüft|in (?:Prüfung|Bearbeitung)|ausstehend|Warteschlange"
    r"|Entwurf|en (?:attente|cours|cola|revisión|proceso)|à valider|brouillon|pendiente"
    r"|borrador|pendente|em (?:análise|fila|processamento)|rascunho"
    r"|in (?:attesa|coda|corso)|bozza|ожида\w+|на (?:рассмотрении|проверк\w+)|в очереди"
    r"|обрабатыва\w+|черновик\w*)\b"
    r"|等待|审核|待确认|排队|处理中|草稿|審査|保留|処理中|待ち|申請|下書き|검토|대기|접수"
    r"|قيد|انتظار|مراجعة|समीक्षा|लंबित|प्रतीक्षा|विचाराधीन",
    re.IGNORECASE,
)
"""The same in other languages: waiting, queued, under review, only a draft."""

REPEATED = "\ufffc"
"""In place of an argument that a result repeats: its words are not the result's."""

SHORTEST, LONGEST_LINE, OPENING = 3, 2_000, 400
"""Characters of an argument that is looked for, of a line that is looked at, and of the
opening in which a result says in words what happened."""

_CODE = re.compile(r"\s*(?:\d+ *[\t|:\u2192]|[+@-]{1,3}(?:\s|$))")
"""Lines of a file or a diff, which a tool shows after an edit."""

_NAMED = re.compile(r"(?=\S*(?:\d|\ufffc))\S+: ")
"""The beginning of a result that names its subject, as in `T3: network`."""

_ROWS = re.compile(
    r"\b(?:INSERT 0|UPDATE|DELETE) [1-9]|\b[1-9]\d{0,8} rows? affected", re.IGNORECASE
)
"""How databases say what they changed."""

_WORD = re.compile(r"[^\W\d_]+")
_CONFIRMING = word_set(
    """
    complete completely done now ok okay succeeded success successful successfully
    true yes
    """
)
_CONFIRMED_ABROAD = re.compile(
    r"\b(?:erfolgreich|wurden?|effectué\w*|succès|a été|ont été|è stat[ao]"
    r"|sono stat[ei]|éxito|ha sido|han sido"
    r"|sucesso|foi|foram|успешно|удал[её]н\w*|отмен[её]н\w*)\b"
    r"|已|成功|ました|完了|했습니다|되었습니다|تم|सफल|गया|गई",
    re.IGNORECASE,
)
"""Words by which a result confirms an action, in the same languages."""

_FAILED_STATE = re.compile(
    r"(?:.*_)?(?:aborted|bounced|conflict|declined|denied|err|error|errored|fail|failed"
    r"|failure|forbidden|invalid|ko|nok|not_found|offline|refused|rejected|rolled_back"
    r"|rolling_back|skipped|sold_out"
    r"|timed_out|timeout|unauthorized|undelivered|unsuccessful)"
)
"""States of an action that was not done."""

_WAITING_STATE = re.compile(
    r"accepted|deferred|enqueued|in_progress|partial\w*|pending|processing|queued|running"
    r"|scheduled|started|starting|submitted|waiting|no_?op|unchanged|not_modified"
)
_DEMANDING_STATE = re.compile(
    r"action_required|confirmation_required|(?:awaiting|needs|requires|waiting_for)_\w+"
    r"|pending_(?:acceptance|action|approval|authori[sz]ation|confirmation|payment"
    r"|review|signature|verification)"
    r"|(?:(?:in|under)_)?review|deferred|draft|enqueued|on_hold|queued"
)
"""States of an action that was not done yet, and that wait for another one; these are
the action's also in a record."""

ACKNOWLEDGEMENT_FIELDS = 4
"""Fields of a result that only tells how a call went; in a record with more of them a
state such as `pending` is the record's."""

_SUCCESS = word_set("is_success ok succeeded success successful")
_CONSENT = word_set(
    """
    accepted acknowledged allowed applied authorized confirmed executed is_valid
    permitted valid
    """
)
_ERRORS = re.compile(
    r"(?:is_|has_)?(?:\w+_)?(?:err|errors?|exceptions?|fault|failure_reason)"
    r"(?:_?(?:causes?|codes?|description|details?|info|list|messages?|msgs?|name|reason"
    r"|string|summary|text|title|type))?"
)
"""Names of errors: `error`, `errorMessages`, `user_errors`, `faultstring`."""

_SOME_FAILED = re.compile(r"errors?_count|failed(?:_\w+)?|failures?|rejected|skipped")
_UNFINISHED = word_set("complete completed done finished")
_WARNINGS = word_set("warning warnings")
_ENDING = word_set(
    """
    archive cancel close deactivate delete disable remove resolve stop suspend terminate
    """
)
_NOT_ENDED = word_set("active enabled open running")
"""Verbs that end something, and states of what has not ended."""

_STATES = word_set("outcome phase result state status")
_HTTP_CODES = word_set(
    """
    cod code http_code http_status http_status_code response_code status status_code
    """
)
_EXIT_CODES = word_set(
    """
    errno exit_code exit_status exitcode rc return_code returncode
    """
)
_COUNTS = word_set(
    """
    affected affected_rows changed changes matched_count modified_count row_count
    rowcount rows_affected
    """
)
_DEMANDS = re.compile(r"(?:needs|requires)_\w+|\w+_required")
_TRIALS = word_set(
    """
    check_only dry dry_run dryrun no_op noop plan_only preview simulate simulated
    test_mode validate_only what_if would_change
    """
)
_TRIAL_MODES = word_set("dry dry_run dryrun plan preview simulate simulation test")
_MEANT = word_set("apply commit confirm execute")
"""Arguments that make a call a trial where they are false."""

_TELLS = word_set(
    """
    data description detail details documentation_url hint instance message msg
    output path reason request_id stack stderr stdout timestamp title trace_id
    traceback type
    """
)
"""Fields of a result that only tells about an error."""

ENVELOPE = word_set("body content data output payload response result results")
"""Fields in which services wrap what they return."""

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")
_NOTHING = frozenset(
    ("", "0", "none", "null", "false", "no", "ok", "success", "[]", "{}")
)

ERROR_CODES = range(400, 600)
"""HTTP status codes of failures."""

DEEPEST, MOST_ITEMS, MOST_LINES = 3, 200, 200
"""Levels of envelopes, items of a list, and lines at each end that are looked at."""


class Odd(NamedTuple):
    """An object of a result that does not confirm an action, and the fields why."""

    node: Mapping[str, Any]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a result says of its call, and the objects that say so."""

    status: Status
    odd: tuple[Odd, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether the call alone does not say what happened."""
        return self.status in ("unconfirmed", "failed")


def verdict_of(
    tool: str,
    asked: Sequence[tuple[str, str]],
    answer: Any,
    content: str,
    *,
    is_action: bool | None = None,
) -> Verdict:
    """What a result says of its call.

    `asked` are the names and texts of the arguments, `answer` is the result's JSON or
    None, and `content` the result as it came. `is_action` says whether the tool changes
    something, where more is known than its name.
    """
    reader = _Reader(tool, frozenset(text for _, text in asked))
    if not (acts(tool) if is_action is None else is_action):
        is_failed = reader.is_error_body(answer) or _begins_with_error(content)
        return Verdict("failed" if is_failed else "called")
    if answer is None:
        found = Verdict(reader.status_of_words(reader.own_words(content)))
    else:
        found = reader.verdict(answer, DEEPEST) if answer else Verdict("unconfirmed")
    if found.status == "done" and answer is not None:
        said = reader.own_words(_message(answer))
        is_doubted = _is_refusal(said) or _is_doubtful(said)
        found = Verdict("unconfirmed") if is_doubted else found
    is_trial = any(_is_trial(snake(name), text) for name, text in asked)
    is_done = found.status == "done"
    return Verdict("unconfirmed") if is_done and is_trial else found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the result of one call of a tool that acts."""

    tool: str
    asked: frozenset[str]

    def verdict(self, answer: Any, levels: int) -> Verdict:
        """What a JSON result says; one that says nothing is the changed record."""
        if isinstance(answer, list):
            return self._of_items(answer, levels)
        if isinstance(answer, str):
            return self._of_text(answer)
        if not isinstance(answer, dict):
            return Verdict("done")
        fields = [(snake(str(name)), value) for name, value in answer.items()]
        is_short = len(fields) <= ACKNOWLEDGEMENT_FIELDS
        denied = [each for each in fields if self._denies(*each)]
        doubted = [e for e in fields if self._doubts(*e, is_short=is_short)]
        is_confirmed = any(self._confirms(*each) for each in fields)
        if denied and not is_confirmed:
            return Verdict("failed", (Odd(answer, _names([*denied, *doubted])),))
        if not is_confirmed:
            doubted += [e for e in fields if e[0] in _WARNINGS and e[1]]
            doubted += _without_result(fields)
        if denied or doubted:
            odd = Odd(answer, _names([*denied, *doubted]))
            return Verdict("unconfirmed", (odd,))
        is_only = len(fields) == 1 and not isinstance(fields[0][1], str)
        inner = [v for n, v in fields if n in ENVELOPE or is_only]
        verdicts = [self.verdict(value, levels - 1) for value in inner if levels]
        return next(
            (each for each in verdicts if each.status != "done"), Verdict("done")
        )

    def _of_text(self, text: str) -> Verdict:
        """What a text inside a JSON result says; most are values, such as an id."""
        said = self.own_words(text)
        if _is_refusal(said):
            return Verdict("failed")
        return Verdict("unconfirmed" if _is_doubtful(said[:OPENING]) else "done")

    def _of_items(self, items: Sequence[Any], levels: int) -> Verdict:
        records = [e for e in items[:MOST_ITEMS] if isinstance(e, (dict, str))]
        found = [self.verdict(each, levels - 1) for each in records if levels]
        odd = [each for each in found if each.status != "done"]
        if not odd:
            return Verdict("done")
        is_failed = all(e.status == "failed" for e in odd) and len(odd) == len(found)
        status: Status = "failed" if is_failed else "unconfirmed"
        return Verdict(status, tuple(each for found in odd for each in found.odd))

    def _denies(self, name: str, value: Any) -> bool:
        """Whether a field says that the call failed."""
        text = _plain(value)
        if name in _SUCCESS:
            return text in _NO
        if name in _CONSENT or is_done_form(self.tool, name):
            return value is False or text == "false"
        if _ERRORS.fullmatch(name):
            return text not in _NOTHING
        if name in _EXIT_CODES:
            return _number(text) not in (None, 0)
        if name in _HTTP_CODES and _number(text) in ERROR_CODES:
            return True
        is_state = name in _STATES or name == "type"
        return is_state and bool(_FAILED_STATE.fullmatch(self._state(value)))

    def _doubts(self, name: str, value: Any, *, is_short: bool) -> bool:
        """Whether a field leaves open whether the call did all that was asked."""
        text = _plain(value)
        if name in _COUNTS or name in _CONSENT or is_done_form(self.tool, name):
            return text in ("0", "[]")
        if _SOME_FAILED.fullmatch(name):
            return text not in _NOTHING
        if name in _UNFINISHED:
            return text in _NO
        if name in _STATES:
            return self._is_unfinished(self._state(value), is_short=is_short)
        if name in _HTTP_CODES and is_short:  # the name of an error
            return text.isalpha() and text not in _NOTHING
        return _is_trial(name, text) or (
            bool(_DEMANDS.fullmatch(name)) and text in _YES
        )

    def _is_unfinished(self, state: str, *, is_short: bool) -> bool:
        """Whether a state says that the action waits, or that nothing has ended."""
        is_waiting = bool(_WAITING_STATE.fullmatch(state)) and is_short
        is_open = state in _NOT_ENDED and verb_of(self.tool) in _ENDING
        return is_waiting or is_open or bool(_DEMANDING_STATE.fullmatch(state))

    def _confirms(self, name: str, value: Any) -> bool:
        """Whether a field says that something was done."""
        is_success = name in _SUCCESS or name in _CONSENT
        is_said = is_success or is_done_form(self.tool, name)
        return is_said and _plain(value) not in _NOTHING

    def _state(self, value: Any) -> str:
        """A state in snake case; empty where it is the one that was asked for."""
        text = "" if isinstance(value, dict | list) else _plain(value)
        state = re.sub(r"[^a-z]+", "_", text).strip("_")
        is_wanted = is_done_form(self.tool, state.partition("_")[0]) or any(
            text == each.lower() for each in self.asked
        )
        return "" if is_wanted else state

    def own_words(self, text: str) -> str:
        """What a result says beside the arguments that it repeats."""
        lines = [line for line in text.splitlines() if not _CODE.match(line)]
        if len(lines) > 2 * MOST_LINES:
            lines = [*lines[:MOST_LINES], *lines[-MOST_LINES:]]
        text = "\n".join(line[:LONGEST_LINE] for line in lines)
        for each in sorted(self.asked, key=len, reverse=True):
            is_removed = len(each) >= SHORTEST and each.lower() not in _YES + _NO
            text = text.replace(each, REPEATED) if is_removed else text
        return text

    def status_of_words(self, said: str) -> Status:
        """What a result in words says; unconfirmed if it says nothing that is known."""
        if _is_refusal(said):
            return "failed"
        said = said[:OPENING]
        if _is_doubtful(said):
            return "unconfirmed"
        words = {word.lower() for word in _WORD.findall(said)}
        is_confirmed = (
            said.strip() in ("", REPEATED)
            or not words.isdisjoint(_CONFIRMING | DONE_FORMS)
            or bool(_CONFIRMED_ABROAD.search(said) or _ROWS.search(said))
            or bool(_NAMED.match(said))
        )
        return "done" if is_confirmed else "unconfirmed"

    def is_error_body(self, answer: Any) -> bool:
        """Whether the result of a look-up contains nothing but an error.

        A record in a bad state, such as a failed payment, was found.
        """
        if not isinstance(answer, dict):
            return False
        fields = [(snake(str(name)), value) for name, value in answer.items()]
        is_told = any(
            _ERRORS.fullmatch(n) or n in _SUCCESS or n in _TELLS for n, _ in fields
        )
        is_only_news = all(
            name in _SUCCESS | _STATES | _HTTP_CODES | _EXIT_CODES
            or _ERRORS.fullmatch(name)
            or (name in _TELLS and not isinstance(value, dict | list))
            or _plain(value) in _NOTHING
            or (is_told and str(value) in self.asked)
            for name, value in fields
        )
        return is_only_news and any(self._denies(*each) for each in fields)


def _without_result(fields: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The fields of a result that is nothing, or that counts nothing that was done."""
    own = [e for e in fields if e[0] not in _TELLS and not _ERRORS.fullmatch(e[0])]
    counts = [e for e in own if e[0] in DONE_FORMS | _COUNTS]
    if counts and all(_plain(value) in ("0", "[]") for _, value in counts):
        return counts
    is_nothing = bool(own) and all(value is None for _, value in own)
    return own if is_nothing and len(own) < len(fields) else []


def _is_refusal(said: str) -> bool:
    opening = said[:OPENING]
    is_said = _REFUSED.search(opening) or _REFUSED_ABROAD.search(opening)
    return (
        bool(is_said)
        or _begins_with_error(said)
        or bool(failed_lines(said.splitlines()))
    )


def _is_doubtful(said: str) -> bool:
    return bool(_DOUBTFUL.search(said) or _DOUBTFUL_ABROAD.search(said))


def _begins_with_error(content: str) -> bool:
    start = content[:LONGEST_LINE].lstrip("[< \n").lower()
    return start.startswith(("error", "failed", "failure"))


def _is_trial(name: str, text: str) -> bool:
    """Whether an argument, or a field of a result, says that nothing was changed."""
    text = text.lower()
    if name in _TRIALS or name.startswith("would_"):
        return text not in _NOTHING
    is_mode = name == "mode" and re.sub(r"\W", "_", text) in _TRIAL_MODES
    return is_mode or (name in _MEANT and text in _NO)


def _message(answer: Any) -> str:
    """What a JSON result says in words about the call."""
    if not isinstance(answer, dict):
        return ""
    notes = (answer.get(name) for name in ("error", "message", "detail", "reason"))
    return next((note for note in notes if isinstance(note, str) and note.strip()), "")


def _names(fields: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in fields))


def _plain(value: Any) -> str:
    return str(value).strip().lower()


def _number(text: str) -> int | None:
    return int(text[:9]) if re.fullmatch(r"-?\d{1,9}", text) else None
