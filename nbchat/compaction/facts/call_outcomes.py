"""Decide what is known of a call: done, failed, unconfirmed, or only called.

*Done* needs evidence: a tool that is known to act, and a result that confirms it. A
JSON record confirms an action by a field or a state that says so, by the values that
were asked for, or by being the new or changed record; words do by the verb. A result
that denies it is a failure. Where a result does neither, because it is queued, partial,
empty, in unknown words or contradicts what was asked for, it is quoted, not judged.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from nbchat.compaction.facts.asked_values import TOTALS, Asked, is_done_name
from nbchat.compaction.facts.outcome_fields import (
    ACKNOWLEDGEMENT_FIELDS,
    AGREED,
    CONSENT,
    COUNTS,
    DEEPEST,
    DEMANDING_STATE,
    DEMANDS,
    ENVELOPE,
    ERROR_CODES,
    ERRORS,
    EXIT_CODES,
    FAILED_STATE,
    GOOD,
    HAS_DIGIT,
    HTTP_CODES,
    IDENTITY,
    LEFT,
    LONGEST_PYTHON,
    LONGEST_TAGS,
    MEANT,
    MESSAGES,
    MODES,
    MOST_ITEMS,
    NEUTRAL,
    NEW,
    NEXT,
    NO,
    NOT_ENDED,
    NOTES,
    NOTHING,
    ON,
    RECEIPTS,
    SOME_FAILED,
    STATE_ENDINGS,
    STATES,
    SUCCESS,
    TAG,
    TAGS,
    TELLS,
    TRIAL_MODES,
    TRIALS,
    UNFINISHED,
    WAITING_STATE,
    WAITS,
    WARNINGS,
    YES,
)
from nbchat.compaction.facts.outcome_words import Status, completed
from nbchat.compaction.facts.result_words import (
    Said,
    begins_with_error,
    own_words,
    said_in_words,
)
from nbchat.compaction.facts.tool_names import (
    DONE_FORMS,
    acts,
    creates,
    fold,
    has_stem_of,
    is_done_form,
    is_end,
    is_of,
    is_related,
    is_start,
    own_forms,
    positive_forms,
    related_forms,
    snake,
    tool_words,
)

SHORTEST, SHORTEST_CODE = 3, 2
"""Letters of an argument that is looked for in words, and characters with a digit."""


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


DONE, UNCONFIRMED = Verdict("done"), Verdict("unconfirmed")

_SAID: dict[str, Verdict] = {"confirmed": DONE, "denied": Verdict("failed")}


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
    reader = _Reader(tool, Asked(tuple(asked)))
    if not (acts(tool) if is_action is None else is_action):
        is_failed = reader.is_error_body(answer) or begins_with_error(content)
        return Verdict("failed" if is_failed else "called")
    if answer is None:
        answer = _tags_in(content) or _python_value(content)
    if answer is None:
        is_broken = _RECORD.match(content) is not None
        found = UNCONFIRMED if is_broken else reader.of_words(content)
    else:
        found = reader.of_record(answer) if answer else UNCONFIRMED
    is_trial = any(_is_trial(snake(name), text) for name, text in asked)
    return UNCONFIRMED if found.status == "done" and is_trial else found


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the result of one call of a tool that acts."""

    tool: str
    asked: Asked

    def of_words(self, content: str) -> Verdict:
        """What a result in words says; shells say nothing when all went well."""
        return _SAID.get(self._said(content), UNCONFIRMED) if content else DONE

    def of_record(self, answer: Any) -> Verdict:
        """What a JSON result says; done only if something in it confirms the action."""
        found = self.verdict(answer, DEEPEST)
        if found.status == "failed":
            return found
        things = tool_words(self.tool) if is_related(self.tool, "update") else ()
        if names := self.asked.contradicted_in(answer, things):
            return _contradicted(answer, names, found)
        if found.status != "done":
            return found
        is_done = not self._is_partly_undone(answer) and self._has_evidence(answer)
        return DONE if is_done else UNCONFIRMED

    def verdict(self, answer: Any, levels: int) -> Verdict:
        """What part of a JSON result says; done if nothing in it says otherwise."""
        if isinstance(answer, list):
            return self._of_items(answer, levels)
        if isinstance(answer, str):
            return self._of_text(answer)
        if not isinstance(answer, dict):
            return DONE
        fields = [(snake(str(name)), value) for name, value in answer.items()]
        denied = [each for each in fields if self._denies(*each)]
        doubted = self._doubted(fields)
        is_confirmed = any(self._confirms(*each) for each in fields)
        if denied and not is_confirmed:
            return Verdict("failed", (Odd(answer, _names([*denied, *doubted])),))
        if not is_confirmed:
            doubted += [e for e in fields if e[0] in WARNINGS and e[1]]
            doubted += _without_result(fields)
        if denied or doubted:
            odd = Odd(answer, _names([*denied, *doubted]))
            return Verdict("unconfirmed", (odd,))
        return self._of_inner(fields, levels)

    def _of_inner(self, fields: Sequence[tuple[str, Any]], levels: int) -> Verdict:
        """What the notes of a result say, and the objects that it only wraps."""
        notes = NOTES if len(fields) <= ACKNOWLEDGEMENT_FIELDS else MESSAGES
        texts = (v for n, v in fields if n in notes and isinstance(v, str))
        if any(self._of_text(text) != DONE for text in texts):
            return UNCONFIRMED
        is_only = len(fields) == 1 and not isinstance(fields[0][1], str)
        inner = [v for n, v in fields if n in ENVELOPE or is_only]
        inner += [v for n, v in fields if n in STATES and isinstance(v, dict)]
        verdicts = [self.verdict(value, levels - 1) for value in inner if levels]
        return next((each for each in verdicts if each.status != "done"), DONE)

    def _of_text(self, text: str) -> Verdict:
        """What a text inside a JSON result says; most are values, such as an id."""
        said = self._said(text)
        if said == "denied":
            return Verdict("failed")
        return UNCONFIRMED if said == "open" else DONE

    def _of_items(self, items: Sequence[Any], levels: int) -> Verdict:
        records = [e for e in items[:MOST_ITEMS] if isinstance(e, (dict, str))]
        found = [self.verdict(each, levels - 1) for each in records if levels]
        odd = [each for each in found if each.status != "done"]
        if not odd:
            return DONE
        is_failed = all(e.status == "failed" for e in odd) and len(odd) == len(found)
        status: Status = "failed" if is_failed else "unconfirmed"
        return Verdict(status, tuple(each for found in odd for each in found.odd))

    def _denies(self, name: str, value: Any) -> bool:
        """Whether a field says that the call failed."""
        text = _plain(value)
        if name in SUCCESS:
            return text in NO
        if name in CONSENT or is_done_form(self.tool, name):
            return value is False or text == "false"
        if ERRORS.fullmatch(name):
            return text not in NOTHING
        if name in EXIT_CODES:
            return _number(text) not in (None, 0)
        if name in HTTP_CODES and _number(text) in ERROR_CODES:
            return True
        is_state = name in STATES or name == "type"
        return is_state and bool(FAILED_STATE.fullmatch(self._state(value)))

    def _doubted(self, fields: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """The fields that leave open whether the call did all that was asked."""
        is_short = len(fields) <= ACKNOWLEDGEMENT_FIELDS
        found = [e for e in fields if self._doubts(*e, is_short=is_short)]
        is_sure = any(self._is_done_state(*each) for each in fields)
        if not is_sure:
            is_bare = is_short and not self._is_repeated_in(dict(fields))
            found += [e for e in fields if self._is_undone(*e, is_bare=is_bare)]
        if self.asked.is_partly_in(dict(fields)):
            found += [e for e in fields if is_done_name(e[0])]
        return found

    def _doubts(self, name: str, value: Any, *, is_short: bool) -> bool:
        """Whether a field leaves open whether the call did all that was asked."""
        text = _plain(value)
        if name in COUNTS or name in CONSENT or self._is_own_word(name):
            return text in ("0", "[]")
        if SOME_FAILED.fullmatch(fold(name)) or name in LEFT:
            return text not in NOTHING
        if name in UNFINISHED or FAILED_STATE.fullmatch(name):  # `sold_out`
            return text in (NO if name in UNFINISHED else YES)
        if name in STATES and not (name in ENVELOPE and HAS_DIGIT.search(text)):
            return self._is_unfinished(value, is_short=is_short)
        if name in HTTP_CODES and is_short:  # the name of an error
            return text.isalpha() and text not in NOTHING
        return self._demands(name, value, is_short=is_short) or _is_trial(name, text)

    def _demands(self, name: str, value: Any, *, is_short: bool) -> bool:
        """Whether a field says that something must happen next."""
        text = _plain(value)
        state = self._state(value) if is_short and name.endswith(STATE_ENDINGS) else ""
        is_going = bool(WAITING_STATE.fullmatch(state)) or state.endswith("ing")
        is_next = bool(NEXT.fullmatch(name)) and text not in NOTHING
        is_demand = bool(DEMANDS.fullmatch(name)) and text in YES
        is_wait = isinstance(value, str) and bool(WAITS.match(fold(value)))
        return is_going or is_next or is_demand or is_wait

    def _is_undone(self, name: str, value: Any, *, is_bare: bool) -> bool:
        """Whether a field has nothing, or no, where the action's effect should be."""
        if value is None:
            words = set(name.split("_"))
            is_main = name in ("id", *ENVELOPE) or has_stem_of(self.tool, name)
            return is_main or not words.isdisjoint(tool_words(self.tool))
        if name in ON:
            is_on = _plain(value) in YES
            is_off = _plain(value) in NO
            return is_on if is_end(self.tool) else is_off and is_start(self.tool)
        is_own = name in RECEIPTS or name in own_forms(self.tool)
        return value is False and (is_own or (is_bare and name not in MODES))

    def _is_unfinished(self, value: Any, *, is_short: bool) -> bool:
        """Whether a state says that the action waits, or that nothing has ended."""
        texts = value if isinstance(value, list) else [value]
        return any(self._waits(self._state(e), is_short=is_short) for e in texts)

    def _waits(self, state: str, *, is_short: bool) -> bool:
        is_waiting = bool(WAITING_STATE.fullmatch(state)) and is_short
        is_open = state in NOT_ENDED and is_end(self.tool)
        is_demand = bool(DEMANDING_STATE.fullmatch(state))
        is_unknown = is_short and not (self._is_good(state) or state in NEUTRAL)
        return is_waiting or is_open or is_demand or is_unknown

    def _is_good(self, state: str) -> bool:
        """Whether a state says that the action is done, or is the one asked for."""
        if not state:
            return True
        own = related_forms(self.tool).union(tool_words(self.tool))
        is_new = state in NEW and creates(self.tool)
        is_going = (state.endswith("ing") or state in ON) and is_start(self.tool)
        is_named = not own.isdisjoint(state.split("_"))  # `return requested`
        is_agreed = state in AGREED and not is_end(self.tool)
        is_said = state in GOOD or is_agreed or is_new or is_going or is_named
        return is_said or self._is_told(state)

    def _is_told(self, state: str) -> bool:
        """Whether a state in another language has the form of what is done."""
        forms = completed(state)
        is_own = any(has_stem_of(self.tool, each) for each in forms)
        return is_own or bool(forms and not state.isascii())

    def _is_done_state(self, name: str, value: Any) -> bool:
        """Whether a field says by its name or its state that the action is done."""
        text = _plain(value)
        if name in STATES and isinstance(value, dict):
            return self._is_done_state(name, value.get("name"))
        if name in STATES and isinstance(value, str):
            state = re.sub(r"[\W_]+", "_", text).strip("_")
            return bool(state) and (self.asked.is_asked(text) or self._is_good(state))
        if name in ON and is_end(self.tool):
            return text in NO
        first = re.sub(r"_(?:at|on|date|time|count)$", "", name)
        is_stem = has_stem_of(self.tool, first)
        is_part = isinstance(value, dict | list) or bool(completed(first))
        is_own = first in own_forms(self.tool) or (is_stem and is_part)
        return is_own and text not in NOTHING

    def _confirms(self, name: str, value: Any) -> bool:
        """Whether a field says that something was done."""
        is_success = name in SUCCESS or name in CONSENT
        is_said = is_success or is_done_form(self.tool, name)
        return is_said and _plain(value) not in NOTHING

    def _is_partly_undone(self, answer: Any) -> bool:
        """Whether some part says no to what the tool does, as `signed` of a signer."""
        own = own_forms(self.tool)
        return any(n in own and v is False for n, v in _fields(answer, DEEPEST))

    def _has_evidence(self, answer: Any) -> bool:
        """Whether something in a result confirms the action."""
        if not isinstance(answer, dict | list):
            return True
        if self._is_repeated_in(answer):
            return True
        return any(self._is_evidence(*each) for each in _fields(answer, DEEPEST))

    def _is_repeated_in(self, answer: Any) -> bool:
        """Whether a result has a value that was asked for, besides what it is about."""
        things = () if is_related(self.tool, "update") else tool_words(self.tool)
        is_new = creates(self.tool)
        return self.asked.is_repeated_in(answer, things, has_subject=not is_new)

    def _is_evidence(self, name: str, value: Any) -> bool:
        text = _plain(value)
        if name in EXIT_CODES or (name in HTTP_CODES and text.isdigit()):
            return text in ("0", "200", "201", "204")
        is_news = name in RECEIPTS or name in SUCCESS or self._is_done_word(name)
        is_given = bool(value) and text not in NO
        is_own = is_given and not isinstance(value, dict | list)
        is_new = is_own and not self.asked.is_asked(text) and name not in TELLS | NOTES
        is_name = bool(IDENTITY.search(name)) and not (
            name == "id" and is_end(self.tool)
        )
        is_text = isinstance(value, str) and name in NOTES | ENVELOPE
        is_count = name in COUNTS - TOTALS and bool(_number(text))
        return (
            is_count
            or self._confirms(name, value)
            or self._is_done_state(name, value)
            or (is_news and is_given)
            or (is_new and (is_name or (creates(self.tool) and is_of(self.tool, name))))
            or (is_text and self._said(value) == "confirmed")
        )

    def _is_own_word(self, name: str) -> bool:
        """Whether a field's name begins or ends with the tool's verb, as done."""
        words = {name.partition("_")[0], name.rpartition("_")[2]}
        return any(is_done_form(self.tool, each) for each in words)

    def _is_done_word(self, name: str) -> bool:
        """Whether a field's name says that what was asked for was done."""
        words = {name.partition("_")[0], name.rpartition("_")[2]}
        return not words.isdisjoint(positive_forms(self.tool)) or bool(completed(name))

    def _said(self, text: str) -> Said:
        """What words inside a JSON result say."""
        return said_in_words(self.tool, own_words(text, self._repeated()))

    def _state(self, value: Any) -> str:
        """A state in snake case; empty where it is the one that was asked for."""
        text = "" if isinstance(value, dict | list) else _plain(value)
        state = re.sub(r"[\W\d_]+", "_", text).strip("_")
        is_own = not own_forms(self.tool).isdisjoint(state.split("_"))
        is_wanted = is_own or self.asked.is_asked(text)
        return "" if is_wanted else state

    def _repeated(self) -> list[str]:
        """The arguments that are long enough to be looked for in words."""
        return [
            text
            for text in self.asked.texts
            if len(text) >= (SHORTEST_CODE if HAS_DIGIT.search(text) else SHORTEST)
            and text.lower() not in YES + NO
        ]

    def is_error_body(self, answer: Any) -> bool:
        """Whether the result of a look-up contains nothing but an error.

        A record in a bad state, such as a failed payment, was found.
        """
        if not isinstance(answer, dict):
            return False
        fields = [(snake(str(name)), value) for name, value in answer.items()]
        is_told = any(
            ERRORS.fullmatch(n) or n in SUCCESS or n in TELLS for n, _ in fields
        )
        is_only_news = all(
            name in SUCCESS | STATES | HTTP_CODES | EXIT_CODES
            or ERRORS.fullmatch(name)
            or (name in TELLS and not isinstance(value, dict | list))
            or _plain(value) in NOTHING
            or (is_told and str(value) in self.asked.texts)
            for name, value in fields
        )
        return is_only_news and any(self._denies(*each) for each in fields)


def _contradicted(answer: Any, names: Sequence[str], found: Verdict) -> Verdict:
    """The verdict on a result with other values than were asked for."""
    if not isinstance(answer, dict):
        return replace(found, status="unconfirmed")
    same = [name for odd in found.odd if odd.node is answer for name in odd.names]
    others = [odd for odd in found.odd if odd.node is not answer]
    return Verdict("unconfirmed", (Odd(answer, (*names, *same)), *others))


def _without_result(fields: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The fields of a result that is nothing, or that counts nothing that was done."""
    own = [e for e in fields if e[0] not in TELLS and not ERRORS.fullmatch(e[0])]
    counts = [e for e in own if e[0] in DONE_FORMS | COUNTS]
    if counts and all(_plain(value) in ("0", "[]") for _, value in counts):
        return counts
    is_nothing = bool(own) and all(value is None for _, value in own)
    return own if is_nothing and len(own) < len(fields) else []


def _fields(answer: Any, levels: int) -> Iterator[tuple[str, Any]]:
    """The fields of a result, those of the objects in it included."""
    if isinstance(answer, list):
        inner = [each for each in answer[:MOST_ITEMS] if isinstance(each, dict | list)]
    elif isinstance(answer, dict):
        yield from ((snake(str(name)), value) for name, value in answer.items())
        inner = [each for each in answer.values() if isinstance(each, dict | list)]
    else:
        return
    for each in inner if levels else ():
        yield from _fields(each, levels - 1)


def _tags_in(content: str) -> dict[str, str] | None:
    """The values between tags, if a result is nothing else."""
    text = content.strip()[:LONGEST_TAGS]
    if not (text.startswith("<") and text.endswith(">")):
        return None
    found = TAG.findall(text)
    rest = TAGS.sub("", TAG.sub("", text)).strip()
    return dict(found) if found and not rest else None


_RECORD = re.compile(r"""\s*(?:\{\s*["']|\[\s*[\[{"'])""")
"""How a record begins; one that cannot be read, such as a cut one, confirms nothing."""


def _python_value(content: str) -> Any:
    """The value of a record that Python has printed; None for other text."""
    is_short = len(content) <= LONGEST_PYTHON
    if not (is_short and _RECORD.match(content)) or "\\" in content:
        return None  # Python warns of escapes that it does not know
    try:
        value = ast.literal_eval(content.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return value or None


def _is_trial(name: str, text: str) -> bool:
    """Whether an argument, or a field of a result, says that nothing was changed."""
    text = text.lower()
    if name in TRIALS or name.startswith("would_"):
        return text not in NOTHING
    is_mode = name == "mode" and re.sub(r"\W", "_", text) in TRIAL_MODES
    return is_mode or (name in MEANT and text in NO)


def _names(fields: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in fields))


def _plain(value: Any) -> str:
    return str(value).strip().lower()


def _number(text: str) -> int | None:
    return int(text[:9]) if re.fullmatch(r"-?\d{1,9}", text) else None
