"""A streaming answer is saved once a second, so that a killed kernel loses no more."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from at_best import assert_within

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import INCOMPLETE, Entry
from nbchat.conversation.session import Session
from nbchat.storage.autosave import DRAFT_SECONDS
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says

STREAM = """
import sys, time
from nbchat.agent.agent import Agent
from nbchat.storage.factory import autosave_of
from nbchat.conversation.events import TextDelta
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says

store = SessionStore(sys.argv[1])
agent = Agent(ScriptedProvider(says("word " * 2_000, delay_seconds=0.005)))
agent.session.session_id = "s"
agent.autosave = autosave_of(store, agent.session, agent)
said = 0
for event in agent.run("Tell me a long story."):
    if isinstance(event, TextDelta):
        said += len(event.text)
        print(time.monotonic(), said, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path}/sessions.db")


def said_until_killed(
    store: SessionStore, *, seconds: float
) -> list[tuple[float, int]]:
    """When how many characters had come, of a process that was killed after a while."""
    child = subprocess.Popen(
        [sys.executable, "-c", STREAM, store.url], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    told: list[tuple[float, int]] = []
    for line in child.stdout:
        when, said = line.split()
        told.append((float(when), int(said)))
        if told[-1][0] - told[0][0] > seconds:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    return told


def agent_in(store: SessionStore, session: Session, *answers: str) -> Agent:
    agent = Agent(ScriptedProvider(*map(says, answers)), session=session)
    agent.autosave = autosave_of(store, session, agent)
    return agent


def test_a_kernel_killed_in_mid_answer_loses_at_most_a_second_of_it(store):
    def seconds_lost() -> float:
        for each in store.sessions():
            store.delete(each.session_id)
        told = said_until_killed(store, seconds=2.2 * DRAFT_SECONDS)
        end, whole = told[-1]
        question, answer = store.load("s").transcript
        assert question.content == "Tell me a long story."
        assert answer.is_incomplete
        assert len(answer.content) <= whole
        assert ("word " * 2_000).startswith(answer.content)
        return end - max(when for when, said in told if said <= len(answer.content))

    assert_within(1.5 * DRAFT_SECONDS, seconds_lost)
    session = store.load("s")  # and the chat continues from what was saved
    agent_in(store, session, "And so it ended.").ask("Go on.")
    roles = [entry.role for entry in session.transcript]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert store.load("s").transcript == session.transcript
    assert session.transcript[1].tool_args == INCOMPLETE


def test_a_finished_answer_replaces_its_draft(store):
    session = Session(session_id="s")
    agent_in(store, session, "Hello.").ask("Hi")
    store.save_draft("s", 1, "Hel")
    assert store.load("s").transcript == [
        Entry("user", "Hi"),
        Entry("assistant", "Hello."),
    ]


def test_a_short_answer_saves_no_draft(store):
    class Counting(SessionStore):
        drafts = 0

        def save_draft(self, session_id: str, position: int, text: str) -> None:
            type(self).drafts += 1
            super().save_draft(session_id, position, text)

    counting = Counting(store.url)
    began = time.monotonic()
    agent_in(counting, Session(session_id="s"), "word " * 50).ask("Hi")
    assert counting.drafts == 0 or time.monotonic() - began > DRAFT_SECONDS


def test_deleting_a_session_deletes_its_draft(store):
    agent_in(store, Session(session_id="s"), "Hello.").ask("Hi")
    store.save_draft("s", 2, "There")
    store.delete("s")
    agent_in(store, Session([], session_id="s"), "Yes?").ask("Who is there?")
    assert [entry.content for entry in store.load("s").transcript] == [
        "Who is there?",
        "Yes?",
    ]
