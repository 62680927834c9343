"""One agent for many tasks: a branch for each, and a table of what all have come to."""

from collections.abc import Generator, Iterable
from threading import Event as Flag
from typing import Any, Self

from nbchat.agent.budget import Budget, Meter
from nbchat.agent.recall import OffersRecall
from nbchat.agent.turn import Answer, SessionRecorder
from nbchat.compaction.facts.facts import collect_facts
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Event
from nbchat.conversation.session import Session, title_of

ALL_TOKENS = 10**9
"""Room for all facts, where no model reads them."""


class ManyTasks(OffersRecall):
    """What one agent offers for long work."""

    recorder: SessionRecorder | None
    meter: Meter | None

    def another(self, session: Session | None = None) -> Self:
        """An agent like this one, in a new session or the given one."""
        raise NotImplementedError

    def ask(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """Run a turn and return the answer."""
        raise NotImplementedError

    def facts_by(self, field: str) -> dict[str, dict[str, str]]:
        """What calls have returned of each entity, by the value of one of its fields.

        As in `agent.facts_by("ticket")["T0017"]["category"]`. Read by code from the
        whole transcript, so that it is complete after any number of compactions; of a
        field that was changed the newest value counts. A table is
        `pandas.DataFrame(agent.facts_by("ticket")).T`.
        """
        transcript = self.session.transcript[:]
        facts = collect_facts(
            transcript,
            len(transcript),
            budget_tokens=ALL_TOKENS,
            counter=self.engine.tracker.counter,
            tools=self.tools,
        ).facts
        records: dict[tuple[int, str], dict[str, str]] = {}
        for fact in sorted(facts, key=lambda each: each.position):
            record = records.setdefault((fact.position, fact.entity), {})
            record[fact.field] = fact.value
        found: dict[str, dict[str, str]] = {}
        for record in records.values():
            if field in record:
                found.setdefault(record[field], {}).update(record)
        return found

    def ask_in_branch(
        self,
        text: str,
        *,
        stop: Flag | None = None,
        attached: Iterable[Entry] = (),
        output: Any = None,
        budget: Budget | Meter | None = None,
    ) -> Answer:
        """Ask in a branch of the conversation, of which only the answer returns.

        The branch sees all that this conversation does. Its calls and their results
        stay in a session of its own, which is saved where this one is and holds its
        cost; a line for the task and the answer are added here. Raises as `ask` does.
        """
        branch = self._branch()
        answer = branch.ask(
            text, stop=stop, attached=attached, output=output, budget=budget
        )
        saved = f" (session {branch.session.session_id})" if branch.recorder else ""
        task = Entry("user", f"{title_of(text)}{saved}")
        for _ in self._exclusive(self._added([task, Entry("assistant", str(answer))])):
            pass
        return answer

    def _branch(self) -> Self:
        session = self.session
        copied = Session(
            session.transcript[:],
            compactions=session.compactions,
            usages=session.usages,
            pins=session.pins,
        )
        branch = self.another(copied)
        branch.meter = self.meter
        if self.recorder is not None:
            branch.recorder = self.recorder.of_branch(copied)
        return branch

    def _exclusive(self, running: Generator[Event, None, None]) -> Iterable[Event]:
        raise NotImplementedError

    def _added(self, entries: Iterable[Entry]) -> Generator[Event, None, None]:
        raise NotImplementedError
