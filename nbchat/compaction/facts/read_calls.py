"""Read tool calls: what was asked, what came back, and whether it was done."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from nbchat.compaction.exact_json import parsed
from nbchat.compaction.facts.call_outcomes import Verdict, verdict_of
from nbchat.compaction.facts.outcome_words import Status
from nbchat.compaction.facts.records import Call, Field, plain_fields, quoted, record_of
from nbchat.compaction.facts.result_shapes import table_in, unwrapped_text
from nbchat.compaction.facts.tool_names import snake
from nbchat.conversation.entries import Entry, failed_result
from nbchat.conversation.turns import INTERRUPTED, CallMatcher

LONGEST_JSON, LONGEST_WORDS = 2_000_000, 400
"""Characters of a result that is read as JSON, and those kept of a result in words."""

MOST_ODD, MOST_TOLD = 3, 6
"""Objects that are shown of a result that does not confirm an action, and fields of one
that is shown whole."""

REASON = 1
"""The place of a reason: after the ids, before other fields."""

NOTHING = "nothing found"
"""The words of an empty result."""


def read_calls(entries: Sequence[Entry]) -> list[Call]:
    """All calls, in the order of their results; a call without a result is interrupted.

    A call that was never answered was interrupted, too.
    """
    reader = CallReader()
    reader.update(entries)
    return reader.calls


class CallReader:
    """Reads the calls of entries as they come, each once."""

    def __init__(self) -> None:
        self._matcher = CallMatcher()
        self._position = 0
        self._answered: list[Call] = []
        self._waiting: dict[int, Entry] = {}

    @property
    def calls(self) -> list[Call]:
        """All calls so far, in the order of their results."""
        return sorted([*self._answered, *self.interrupted], key=lambda call: call.index)

    @property
    def interrupted(self) -> list[Call]:
        """The calls without a result so far."""
        return [
            _call(entry, failed_result(entry, INTERRUPTED), index)
            for index, entry in self._waiting.items()
        ]

    def update(self, entries: Iterable[Entry]) -> list[Call]:
        """Read the next entries; returns the calls that they answer."""
        known = len(self._answered)
        for index, entry in enumerate(entries, self._position):
            answered = self._matcher.match(entry)
            if answered is not None:
                call = self._waiting.pop(answered)
                self._answered.append(_call(call, entry, index))
            elif entry.is_call:
                self._waiting[index] = entry
            self._position = index + 1
        return self._answered[known:]


def _call(call: Entry, result: Entry, index: int) -> Call:
    arguments = parsed(call.tool_args)
    asked = tuple(plain_fields(arguments if isinstance(arguments, dict) else {}))
    tool = call.tool_name
    if result.is_error:
        was_cut = result.content.endswith(INTERRUPTED)
        status: Status = "interrupted" if was_cut else "failed"
        return Call(tool, index, asked, None, _in_words(result.content), status)
    answer = _answer(result)
    record = record_of(tool, asked, answer) if answer else None
    return judged(Call(tool, index, asked, record), result)


def judged(call: Call, result: Entry, *, is_action: bool | None = None) -> Call:
    """A call with what its result says in words, and what is known of it.

    `is_action` says whether the tool changes something, where its name is not all that
    is known.
    """
    answer, content = _answer(result), result.content
    verdict = verdict_of(call.tool, call.asked, answer, content, is_action=is_action)
    reasons: tuple[Field, ...] = ()
    if answer is None:
        words = _in_words(content)
    elif not answer:
        words = NOTHING
    elif (verdict.is_open and verdict.odd and verdict.status != "failed") or (
        not (words := _note(answer)) and verdict.is_open
    ):
        odd = _odd(answer, verdict)
        words = _in_words("; ".join(filter(None, (each.text for each in odd))))
        words = words or _in_words(content)
        reasons = tuple(field for each in odd for field in each.fields)
    return replace(call, words=words, reasons=reasons, status=verdict.status)


def _answer(result: Entry) -> dict[str, Any] | list[Any] | None:
    """The JSON or the table of a result; None for words."""
    is_short = len(result.content) <= LONGEST_JSON
    if not is_short:
        return None
    answer = parsed(unwrapped_text(result.content))
    return table_in(result.content) if answer is None else answer


def _odd(answer: dict[str, Any] | list[Any], verdict: Verdict) -> list["_Odd"]:
    """The objects of a result that say why an action is not done.

    Where none says why, it is all that the result says.
    """
    odd = [_Odd(node, set(names)) for node, names in verdict.odd[:MOST_ODD]]
    if not odd and isinstance(answer, dict):
        odd = [_Odd(answer, set())]
        odd = odd if odd[0].text else [_Odd(answer, set(map(snake, answer)))]
    return odd


class _Odd(NamedTuple):
    """An object that says why an action is not done, and the names of its reasons."""

    node: Mapping[str, Any]
    reasons: set[str]

    @property
    def fields(self) -> list[Field]:
        """Its plain values, ids and reasons first; of a record no others."""
        own = [f for f in plain_fields(dict(self.node)) if self._is_told(f)]
        if len(own) > MOST_TOLD and any(self._place(f) == REASON for f in own):
            own = [f for f in own if self._place(f) <= REASON]
        return sorted(own, key=self._place)

    @property
    def text(self) -> str:
        """The values with their fields."""
        return ", ".join(f"{e.name}: {quoted(e.text, '|,;')}" for e in self.fields)

    def _is_told(self, field: Field) -> bool:
        """Whether it is the object's own, or one of the reasons."""
        return "." not in field.name or self._place(field) == REASON

    def _place(self, field: Field) -> int:
        if not self.reasons.isdisjoint(map(snake, field.name.split("."))):
            return REASON
        return 0 if field.is_identity and "." not in field.name else 2


def _in_words(content: str) -> str:
    text = " ".join(content[: LONGEST_WORDS * 4].split())
    return text if len(text) <= LONGEST_WORDS else text[: LONGEST_WORDS - 1] + "…"


def _note(answer: object) -> str:
    """What a JSON result says in words about the call itself."""
    if not isinstance(answer, dict):
        return ""
    notes = (answer.get(name) for name in ("error", "message", "detail", "reason"))
    texts = (note for note in notes if isinstance(note, str))
    return _in_words(next((t for t in texts if any(map(str.isalpha, t))), ""))
