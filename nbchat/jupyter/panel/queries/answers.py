"""What views ask is answered beside the turn that runs, each on a thread of its own.

A question only reads. It may be asked while a cell or a turn runs, and rendering a page
of history may take a second, in which no click on Stop must wait.
"""

import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.errors import NbchatError
from nbchat.jupyter.panel.view_sync import Send
from nbchat.rendering.markdown import displayable

logger = logging.getLogger(__name__)

Question = Callable[[Agent], dict[str, Any]]


class Answers:
    """Answers questions about an agent to whoever asked; all views hear them."""

    def __init__(self, agent: Callable[[], Agent], send: Send) -> None:
        """Nothing is asked of `agent` before the first question."""
        self._agent = agent
        self._send = send

    def ask(self, token: str, question: Question) -> None:
        """Answer soon; the view knows its answer by the token it made."""
        threading.Thread(
            target=copy_context().run,  # the answer belongs to this very click
            args=(self._answer, token, question),
            name="nbchat-answer",
            daemon=True,
        ).start()

    def _answer(self, token: str, question: Question) -> None:
        try:
            answer = question(self._agent())
        except NbchatError as error:
            answer = _refused(str(error))
        except Exception as error:  # a fault in settings that somebody else has made
            logger.exception("a question of the panel could not be answered")
            answer = _refused(f"{type(error).__name__}: {error}")
        self._send({**answer, "token": token})


def _refused(reason: str) -> dict[str, Any]:
    return {"type": "refused", "reason": displayable(reason)}
