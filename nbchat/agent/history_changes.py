"""Change what the model sees between turns: compactions, exclusions, pins."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from functools import partial
from threading import Event as Flag
from typing import TypeVar

from nbchat.agent.compactor import Compactor
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.plan import Plan
from nbchat.conversation import events
from nbchat.conversation.entries import Entry, Usage, failed_result
from nbchat.conversation.events import Event
from nbchat.conversation.session import Session
from nbchat.conversation.turns import INTERRUPTED, open_calls
from nbchat.errors import NbchatError

PIN_LIMIT = 2_000
"""Tokens of one pin: it is in every request from now on, as a system prompt is."""

PinOrNumber = TypeVar("PinOrNumber", str, int)

Events = Generator[Event, None, None]


class ChangesHistory:
    """The changes that a person makes to an agent's history, each as events."""

    session: Session
    engine: CompactionEngine
    _compactor: Compactor

    def alone(self) -> AbstractContextManager[None]:
        """Keep turns and changes out; raises NbchatError while one runs."""
        raise NotImplementedError

    def count_fixed_tokens(self) -> None:
        """Count what is in each request: system prompt, tools and pins."""
        raise NotImplementedError

    def _exclusive(self, running: Events) -> Events:
        raise NotImplementedError

    def _append(self, entry: Entry, usage: Usage | None = None) -> Event:
        raise NotImplementedError

    def compact(
        self,
        *,
        focus: str = "",
        keep: int | None = None,
        upto: int | None = None,
        stop: Flag | None = None,
    ) -> Iterator[Event]:
        """Compact now, whatever the meters say; `focus` names what matters most.

        `keep` is how many of the newest tokens stay word for word, instead of what the
        policy says; `upto` is the index in the transcript of the last message to
        compact: all after it stay.
        """
        asked = partial(self.engine.plan, focus=focus, keep=keep, upto=upto)
        return self._exclusive(self._compact_by_hand(asked, stop))

    def compact_in_background(
        self, on_ready: Callable[[], object] = lambda: None
    ) -> bool:
        """Begin to write the summary of a context that is nearly full; True if so.

        Call it between turns. The record is committed within the next turn, as soon as
        it is there, or by `commit_background`; `on_ready` is called on another thread
        when it is. A turn begins and goes on meanwhile.
        """
        with self.alone():
            return self._compactor.begin_in_background(on_ready)

    def commit_background(self) -> Iterator[Event]:
        """Commit the summary that was written in the background, if it is there."""
        return self._exclusive(self._compactor.commit_ready())

    def cancel_background(self) -> None:
        """End a summary that is being written in the background."""
        self._compactor.cancel_background()

    def wait_for_background(self, timeout_seconds: float | None = None) -> bool:
        """Block until no summary is being written; False after the timeout."""
        return self._compactor.wait_for_background(timeout_seconds)

    def undo_compaction(self) -> Iterator[Event]:
        """Undo the compaction in force; the model sees what it saw before."""
        nothing = "there is no compaction to undo"
        return self._exclusive(self._compactor.change(self.engine.undo, None, nothing))

    def redo_compaction(self) -> Iterator[Event]:
        """Redo the compaction undone last, unless another one was made since."""
        nothing = "there is nothing to redo"
        return self._exclusive(
            self._compactor.change(self.engine.redo, "redone", nothing)
        )

    def edit_compaction(self, text: str) -> Iterator[Event]:
        """Replace the summary by `text`; the facts kept by code stay."""
        edit = partial(self.engine.edit, text=text)
        return self._exclusive(self._compactor.change(edit, "edited"))

    def regenerate_compaction(
        self, *, focus: str = "", stop: Flag | None = None
    ) -> Iterator[Event]:
        """Write the summary in force again; the old one stays if that fails."""
        return self._exclusive(self._compactor.regenerate(focus, stop))

    def exclude(self, index: int) -> Iterator[Event]:
        """Hide a message from the model, by its index in the transcript."""
        exclude = partial(self.engine.exclude, index=index)
        return self._exclusive(self._compactor.change(exclude))

    def include(self, index: int) -> Iterator[Event]:
        """Show an excluded message to the model again."""
        include = partial(self.engine.include, index=index)
        return self._exclusive(self._compactor.change(include))

    def pin(self, text: str) -> Iterator[Event]:
        """Keep a rule word for word through every compaction; at most 2,000 tokens."""
        return self._exclusive(self._change_pins(Session.pin, text))

    def checkpoint(self, text: str) -> Iterator[Event]:
        """Keep the state of the work word for word, until the next checkpoint."""
        return self._exclusive(self._change_pins(Session.checkpoint, text))

    def unpin(self, number: int) -> Iterator[Event]:
        """Remove a pinned rule, by its number from 1."""
        return self._exclusive(self._change_pins(Session.unpin, number))

    def import_summary(self, other: Session) -> Iterator[Event]:
        """Start from another session's summary; raises NbchatError if it has none."""
        if other.compaction is None:
            raise NbchatError(f"{other!r} has no summary to import; compact it first")
        imported = [other.compaction.entry]
        return self._exclusive(self._append(entry) for entry in imported)

    def _answer_open_calls(self, reason: str) -> Events:
        """Answer every call that will not run, so that the history stays legal."""
        for call in open_calls(self.session.history):
            yield self._append(failed_result(call, reason))

    def _compact_by_hand(
        self, make_plan: Callable[[Session], Plan], stop: Flag | None
    ) -> Events:
        """Compact; calls that an ended kernel left open do not prevent it."""
        yield from self._answer_open_calls(INTERRUPTED)
        yield from self._compactor.run(make_plan(self.session), stop)

    def _change_pins(
        self, change: Callable[[Session, PinOrNumber], object], value: PinOrNumber
    ) -> Events:
        """Change the pins, with which every request begins."""
        if isinstance(value, str):
            _check_pin(self.engine.tracker.counter.count(value))
        change(self.session, value)
        self.count_fixed_tokens()
        yield events.PinsChanged(self.session.pins)


def _check_pin(tokens: int) -> None:
    if tokens > PIN_LIMIT:
        raise NbchatError(
            f"this text has {tokens:,} tokens; a pin may have {PIN_LIMIT:,}, because "
            "it is sent with every request"
        )
