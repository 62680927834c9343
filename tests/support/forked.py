"""Processes of tests, forked from one without threads.

A child of a process with threads may wait for ever for a lock that one of them held.
"""

import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Event
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.conversation.events import EntryAdded
from nbchat.conversation.session import Session
from nbchat.storage.recorder import Recorder, save_session
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says


def clean_context() -> ForkServerContext:
    """What makes such processes, with nbchat imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["nbchat.agent.agent", "nbchat.storage.recorder", "nbchat.testing"]
    )
    return context


def use_first(url: str, number: int, start: Event, told: Any) -> None:
    """Save two sessions; an error is told."""
    start.wait()
    try:
        for each in range(2):
            session = Session([("user", "hi")], session_id=f"{number}-{each}")
            save_session(SessionStore(url), session)
    except Exception as error:  # noqa: BLE001  # it is told
        told.put(str(error))
    else:
        told.put("")


def talk(url: str, name: str, told: Connection) -> None:
    """Chat, and tell the position of each entry once it was shown."""
    session, store = Session(session_id=name), SessionStore(url)
    agent = Agent(ScriptedProvider(*[says("ok")] * 500), session=session)
    agent.recorder = Recorder(store, session, is_saved=False)
    for number in range(500):
        for event in agent.run(f"question {number}"):
            if isinstance(event, EntryAdded):
                told.send_bytes(b"%d" % event.position)
