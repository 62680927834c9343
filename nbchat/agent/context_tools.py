"""Tools about the context, and when they are offered to the model.

`recall` and `checkpoint` are offered where they help; `compact` and `context`, by which
an agent that runs long can decide by itself, where `context_tools` is set.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING

from nbchat.compaction.triggers.context_breakdown import LABELS
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.search import recall_tool
from nbchat.conversation.search_index import TOOL_NAME
from nbchat.conversation.session import Session, check_pin
from nbchat.conversation.tools import Tool, as_tools, tool
from nbchat.errors import ConfigError, NbchatError
from nbchat.providers.base import ServedProvider, fixed_tokens

if TYPE_CHECKING:
    from nbchat.agent.agent import Agent

RECALLING_HOSTS = (
    *("api.openai.com", "api.anthropic.com"),
    "generativelanguage.googleapis.com",
)
"""Servers whose chat models all call tools; others may refuse a request with tools."""

LEAST_THRESHOLD = 1_000
"""Tokens of a threshold below which `recall` isn't offered by default: it takes 84."""

_PROMISE = re.compile(r"; recall\(\d{1,20}\) returns them(?=\])")
_PROMISE_OF_FACTS = re.compile(
    r"(?<= not shown here); recall finds it(?=\)$)", re.MULTILINE
)

CHECKPOINT_TOOL = "checkpoint"

NOTE_CHARACTERS = 2_000
"""Characters of the model's note on what to keep: a page, sent in a request."""

WILL_COMPACT = (
    "The conversation will be compacted after your next reply, if there is enough to "
    "compact."
)


class ContextTools:
    """The tools of an agent, with those about its context that are offered."""

    def __init__(
        self,
        agent: "Agent",
        functions: Iterable[Callable[..., object]],
        *,
        recall: bool | None,
        context_tools: bool,
    ) -> None:
        """Raises ConfigError if two tools have the same name."""
        self._agent = agent
        count = agent.engine.tracker.counter.count
        recall_function = recall_tool(lambda: agent.session, count=count)
        self._recall = replace(_any_recall(), function=recall_function)
        self._checkpoint = replace(_any_checkpoint(), function=self._save_checkpoint)
        self._chosen = tuple(
            replace(each, function=function)
            for each, function in zip(
                _any_context_tools(), (self._compact, self._context), strict=True
            )
        )
        self.recall = recall
        self.context_tools = context_tools
        """True if `compact` and `context` are offered."""
        self.own: tuple[Tool, ...] = ()
        """The tools that the agent was given."""
        self.replace(functions)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that the model may call now."""
        offers_recall = self._offers_recall(self._agent.session.active_compactions)
        recall = (self._recall,) if offers_recall else ()
        checkpoint = (self._checkpoint,) if self._offers_checkpoint else ()
        names = {each.name for each in self.own}
        chosen = (each for each in self._chosen if each.name not in names)
        return (
            *self.own,
            *checkpoint,
            *(chosen if self.context_tools else ()),
            *recall,
        )

    def replace(self, functions: Iterable[Callable[..., object]]) -> None:
        """Replace the agent's own tools; raises ConfigError if they don't work."""
        added = set(map(id, (self._recall, self._checkpoint, *self._chosen)))
        tools = as_tools(each for each in functions if id(each) not in added)
        chosen = self._chosen if self.context_tools else ()
        wanted = {
            each.name for each in (*chosen, *((self._recall,) * bool(self.recall)))
        }
        if taken := wanted & {each.name for each in tools}:
            raise ConfigError(f"Two tools are named {min(taken)}. Rename one.")
        self._refuse_unasked(tools)
        self.own = tools

    def _refuse_unasked(self, tools: Iterable[Tool]) -> None:
        """Refuse tools of MCP servers that would run without an approval."""
        unasked = [each for each in tools if each.server]
        if self._agent.approve is None and unasked:
            server, name = unasked[0].server, unasked[0].name
            raise ConfigError(
                f"The tool {name} of the MCP server {server!r} may change something. "
                "Pass approve=Approvals() to Agent, or trust the server: "
                f"McpServers(..., trust={{{server!r}}})."
            )

    def with_recall(self, record: Compaction) -> Compaction:
        """A record whose `tokens_after` include `recall`, if it is offered from now."""
        if self._recall in self.offered or not record.tokens_after:
            return record
        offered = record.is_active and self._offers_recall([record])
        size = fixed_tokens("", [self._recall], self._agent.engine.tracker.counter)
        return replace(record, tokens_after=record.tokens_after + size * offered)

    @property
    def _offers_checkpoint(self) -> bool:
        names = [each.name for each in self.own]
        is_free = bool(names) and CHECKPOINT_TOOL not in names
        return is_free and self._agent.engine.policy.offers_checkpoint

    def _save_checkpoint(self, state: str) -> str:
        """Save the state of the work: what is done, found and next, in a few lines.

        It is kept word for word when the conversation is compacted, and replaces the
        last one.
        """
        check_pin(self._agent.engine.tracker.counter.count(state))
        self._agent.session.checkpoint(state)
        self._agent.count_fixed_tokens()
        return "saved; it replaces the last checkpoint"

    def _compact(self, note: str = "") -> str:
        """Have the conversation so far replaced by a summary, to make room.

        Call it when a part of the work is done and its details are no longer needed.
        `note` says what to keep for what comes next.
        """
        if len(note) > NOTE_CHARACTERS:
            raise NbchatError(
                f"The note has {len(note):,} characters. The limit is "
                f"{NOTE_CHARACTERS:,}."
            )
        self._agent.compact_when_read(note)
        return WILL_COMPACT

    def _context(self) -> str:
        """Show how full the context is, what is in it, and when it is compacted."""
        usage, tracker = self._agent.context_usage(), self._agent.engine.tracker
        window = f" of {usage.window:,}" if usage.window else ""
        share = f" ({usage.share:.0%})" if usage.share is not None else ""
        parts = (
            f"  {LABELS[name]}: {tokens:,} tokens"
            for name, tokens in usage.parts_of_total.items()
        )
        session = self._agent.session
        made = sum(each.kind == "summary" for each in session.active_compactions)
        return "\n".join(
            (
                f"context: {usage.total:,}{window} tokens{share}",
                *parts,
                f"compacted so far: {made} time{'s' * (made != 1)}",
                f"next compaction: {tracker.should_compact(session).reason}",
            )
        )

    def _offers_recall(self, records: Iterable[Compaction]) -> bool:
        """True if `recall` is set, or if these compactions hide something.

        If it is not set, models of known servers have it always. Others have it while
        something is compacted or shortened and there are other tools: then the server
        takes tools.
        """
        if any(each.name == TOOL_NAME for each in self.own):
            return False
        if self.recall is not None:
            return self.recall
        provider = self._agent.provider
        threshold = self._agent.engine.tracker.limits.threshold
        if threshold is not None and threshold < LEAST_THRESHOLD:
            return False
        if isinstance(provider, ServedProvider) and provider.host in RECALLING_HOSTS:
            return True
        hides = not all(record.is_exclusion for record in records)
        return bool(self.own) and hides


@cache
def _any_recall() -> Tool:
    """The tool, cached for all agents: its schema takes 2 ms to make."""
    return tool(read_only=True)(recall_tool(Session, count=len))


@cache
def _any_context_tools() -> tuple[Tool, Tool]:
    compact = MethodType(ContextTools._compact, object())  # noqa: SLF001
    context = MethodType(ContextTools._context, object())  # noqa: SLF001
    return (
        tool(name="compact", read_only=True)(compact),
        tool(name="context", read_only=True)(context),
    )


@cache
def _any_checkpoint() -> Tool:
    function = MethodType(ContextTools._save_checkpoint, object())  # noqa: SLF001
    return tool(name=CHECKPOINT_TOOL, read_only=True)(function)


def with_kept_promises(session: Session, tools: Sequence[Tool]) -> tuple[Entry, ...]:
    """The history, where notes name the tool `recall` only if it is among the tools."""
    history = session.history
    is_offered = any(each.name == TOOL_NAME for each in tools)
    if is_offered or not session.active_compactions:  # then no note was made
        return tuple(history)
    return tuple(map(without_promise, history))


def without_promise(entry: Entry) -> Entry:
    """A summary or shortened output without notes that `recall` finds more."""
    if entry.role == "summary":
        return entry._replace(content=_PROMISE_OF_FACTS.sub("", entry.content))
    if entry.role != "tool" or "recall(" not in entry.content[-200:]:
        return entry
    text, newline, note = entry.content.rpartition("\n")
    return entry._replace(content=f"{text}{newline}{_PROMISE.sub('', note)}")
