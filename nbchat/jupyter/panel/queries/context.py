"""Queries about the context: its parts, costs, plan and summary, and the memory.

The memory is what the model sees now, and where each of its values is from.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from nbchat.agent.agent import Agent
from nbchat.compaction.plan import Plan
from nbchat.compaction.summarizer.unsupported_marks import is_marked
from nbchat.compaction.summary_format import summary_facts, summary_text
from nbchat.compaction.triggers.context_breakdown import context_usage
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turn_costs import cost_rows
from nbchat.conversation.values import Value, ValueIndex, values
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.protocol import (
    ContextParts,
    Cost,
    Known,
    KnownPart,
    Knows,
    MemoryValue,
    MemoryView,
    Part,
    Planned,
    SummaryText,
)
from nbchat.providers.model_info import ModelInfo
from nbchat.rendering.entries import summary_text_html
from nbchat.rendering.facts import facts_html, memory_html

if TYPE_CHECKING:
    from nbchat.jupyter.notebook_context import NotebookContext

_OMITTED = re.compile(r"\s*\[…\]\s*|…")
"""What a quote contains where words were omitted."""

SEARCHED_TOGETHER = 50
"""Messages that are searched for a value before each of them is."""


def context_parts(agent: Agent) -> ContextParts:
    """Tokens of each part, what is free and what limits it, and all costs.

    Parts are estimates and the server may count more: they are shown in proportion, so
    that they add up to the size on the meter.
    """
    session, engine = agent.session, agent.engine
    held = context_usage(session, engine.tracker, agent.system, agent.tools)
    reserve, free = _free(engine.tracker.info, held.total)
    return ContextParts(
        parts=tuple(Part(*part) for part in held.parts_of_total.items()),
        total=held.total,
        window=engine.tracker.info.window,
        is_assumed=engine.tracker.info.is_assumed,
        reserve=reserve,
        free=free,
        limit=None if engine.policy.meter == "off" else held.limit,
        policy=engine.policy.name,
        outlook=engine.tracker.outlook(session),
        costs=_costs(session),
    )


def notebook_known(
    agent: Agent, notebook: "NotebookContext | None", asked: Knows
) -> Known:
    """What requests tell of the notebook, after what the person changes."""
    if notebook is None:
        return Known(text="", tokens=0, parts=(), asks_for="", is_off=True)
    name, tracker = agent.provider.name, agent.engine.tracker
    if asked.left_out is not None:
        notebook.left_out = set(asked.left_out)
    if asked.agrees:
        notebook.confirm(name)
    is_off, is_agreed = notebook.mode() == "off", notebook.is_confirmed(name)
    parts = () if is_off else notebook.parts()
    text = notebook.block(parts, window=tracker.info.window, counter=tracker.counter)
    shown = (KnownPart(e.name, e.label, e.total, e.is_on) for e in parts)
    return Known(
        text=text,
        tokens=tracker.counter.count(text),
        parts=tuple(shown),
        asks_for="" if is_agreed else name.partition(":")[0],
        is_off=is_off,
    )


def compaction_plan(agent: Agent, keep: int | None, upto: int | None = None) -> Planned:
    """Dry run of a compaction by hand; `skip` says why there would be none.

    `keep` is how many tokens of the newest messages stay word for word, `upto` the
    position of the last message to compact.
    """
    session = agent.session
    plan = agent.engine.plan(session, keep=keep, upto=upto)
    total, current = len(session.transcript), session.compaction
    start = current.stop if current else 0
    stop = start if plan.skip else plan.stop
    before = agent.engine.tracker.context_tokens(session)
    return Planned(
        messages=total,
        summarized=start,
        compacted=stop - start,
        kept=total - stop,
        tokens_before=before,
        tokens_after=before if plan.skip else max(0, plan.tokens_after),
        skip=plan.skip,
        warning=_warning(plan, least_tokens=agent.engine.policy.least_tokens),
    )


def current_summary(agent: Agent) -> SummaryText:
    """The text of the summary, to be edited, and the facts kept by code."""
    compaction = agent.session.compaction
    if compaction is None:
        raise NbchatError("There's no summary to edit.")
    facts = "\n".join(summary_facts(compaction.summary))
    return SummaryText(summary_text(compaction.summary), facts)


def _free(info: ModelInfo, used: int) -> tuple[int | None, int | None]:
    """Tokens reserved for the answer, and free beside it; None for unknown windows."""
    if info.window is None:
        return None, None
    left = max(info.window - used, 0)
    reserve = min(info.output_reserve, left)
    return reserve, left - reserve


def _costs(session: Session) -> tuple[Cost, ...]:
    """A row for each model's answers, for all compactions, and for the sum."""
    rows = [
        _cost(each.label or "answers", each.usage, each.requests)
        for each in cost_rows(session)
    ]
    total = (_cost("Total", session.usage),) if len(rows) > 1 else ()
    return (*rows, *total)


def _cost(label: str, usage: Usage, requests: int | None = None) -> Cost:
    return Cost(
        label=label,
        requests=requests,
        input=usage.input_tokens,
        cached=usage.cache_read_tokens,
        output=usage.output_tokens,
        is_estimated=usage.is_estimated,
        dollars=usage.dollars_text,
    )


def _warning(plan: Plan, *, least_tokens: int) -> str:
    if plan.skip or plan.tokens_covered >= least_tokens:
        return ""
    return (
        f"Only {plan.tokens_covered:,} tokens would be compacted. The summary may be "
        "as long as that, so this may fail or save nothing."
    )


def memory_view(agent: Agent) -> MemoryView:
    """The summary, the facts and the messages they come from.

    The position of a value is that of the first covered message that holds it, in any
    way of writing it; null where none does.
    """
    session, record = agent.session, agent.session.compaction
    if record is None:
        raise NbchatError("Nothing is compacted, so the model sees all messages.")
    story = summary_text(record.summary)
    found = [each for each in values(story) if not is_marked(story, each.stop)]
    covered = session.transcript[: record.stop]
    positions = _positions(found, covered)
    return MemoryView(
        html=summary_text_html(story),
        values=tuple(
            MemoryValue(value.text, position)
            for value, position in zip(found, positions, strict=True)
        ),
        facts=_memory_html(record, covered),
        covered=record.stop,
        kept=len(session.transcript) - record.stop,
    )


def _memory_html(record: Compaction, covered: Sequence[Entry]) -> str:
    """What code copied; of a record from an older version as its text says it."""
    if record.memory:
        return memory_html(record.memory)
    text = "\n".join(summary_facts(record.summary))
    return facts_html(text, record.facts, Quotes(covered).find)


def _positions(wanted: Sequence[Value], entries: Sequence[Entry]) -> list[int | None]:
    """The first entry that holds each value."""
    places: dict[Value, int] = {}
    texts = list(map(_text, entries))
    for first in range(0, len(texts), SEARCHED_TOGETHER):
        some = texts[first : first + SEARCHED_TOGETHER]
        index = ValueIndex("\n".join(some))
        here = {each for each in wanted if each not in places and index.has(each)}
        for position, text in enumerate(some if here else (), first):
            index = ValueIndex(text)
            found = {value for value in here if index.has(value)}
            places |= dict.fromkeys(found, position)
            here -= found
    return [places.get(value) for value in wanted]


def _text(entry: Entry) -> str:
    is_text = entry.is_prompt or entry.is_by_nbchat
    return f"{entry.attachment_text}\n{'' if is_text else entry.tool_args}"


class Quotes:
    """Finds the messages that lines of the facts quote; reads each message once."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """`entries` are those that a compaction covers."""
        self._entries = entries

    def find(self, line: str) -> int | None:
        """The newest message that says what a line quotes, if it does."""
        _, mark, rest = line.partition('"')
        quote, end, _ = rest.rpartition('"')
        pieces = [_plain(piece) for piece in _OMITTED.split(quote) if _plain(piece)]
        if not (mark and end and pieces):
            return None
        texts = self._texts
        for position in range(len(texts) - 1, -1, -1):
            if all(piece in texts[position] for piece in pieces):
                return position
        return None

    @cached_property
    def _texts(self) -> list[str]:
        return [_plain(entry.content) for entry in self._entries]


def _plain(text: str) -> str:
    return " ".join(text.split())
