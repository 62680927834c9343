"""Processes of tests, forked from one without threads.

A child of a process with threads may wait for ever for a lock that one of them held.
"""

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Event
from typing import Any

import pytest

from nbchat.conversation.session import Session
from nbchat.storage.autosave import save_session
from nbchat.storage.store import SessionStore


def clean_context(*more: str) -> ForkServerContext:
    """What makes such processes, with nbchat and `more` modules imported already.

    Also with the vocabulary of tokens, which takes a process 0.3 s to read.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            *("nbchat.agent.agent", "nbchat.storage.autosave", "nbchat.testing"),
            *("warm_tokens", *more),
        ]
    )
    with pytest.MonkeyPatch.context() as patch:  # it does not get our sys.path
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
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
