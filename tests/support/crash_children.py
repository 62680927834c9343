"""Processes that are killed in the middle of a compaction, each on a store of its own.

    python crash_children.py FOLDER KILLS     leaves FOLDER/0.db ... and prints a line each

Half of them kill themselves at a line of our own or of the database's code, evenly spread
from the request to the end; the other half are killed from outside, at a random moment.
One process imports and forks, so a kill costs some 20 ms.
"""

import gc
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import sqlalchemy

import nbchat
from nbchat.agent.agent import Agent
from nbchat.conversation.events import Compacted, CompactionStarted
from nbchat.storage.factory import autosave_of
from nbchat.storage.store import SessionStore
from nbchat.testing import ScriptedProvider, says

LONG = "The customer asks about order W100 and its parcel, which is late. " * 12

TRACED = (str(Path(nbchat.__file__).parent), str(Path(sqlalchemy.__file__).parent))


def main(folder: Path, kills: int) -> None:
    template = folder / "template.db"
    prepare(template)
    lines, seconds = survivor(template, folder / "survivor.db")
    chance = random.Random(0)
    gc.freeze()  # the children share these pages as long as nobody counts in them
    gc.disable()
    for number in range(kills):
        file = folder / f"{number}.db"
        shutil.copy(template, file)
        if number % 2:
            told = killed(file, wait_seconds=chance.uniform(0, seconds))
        else:
            told = killed(file, at_line=number * lines // kills)
        print(json.dumps({"number": number, **told}), flush=True)


def prepare(file: Path) -> None:
    """A session with one compaction, and a turn after it."""
    store = SessionStore(f"sqlite:///{file}")
    agent = Agent(ScriptedProvider(says(LONG), summary("old"), says(LONG), says("x")))
    agent.session.session_id = "s"
    agent.autosave = autosave_of(store, agent.session, agent)
    agent.ask("one")
    list(agent.compact())
    agent.ask("two")
    store.close()


def summary(text: str):
    return says(f"<summary>{text} {'and so on ' * 8}</summary>")


def compact(file: Path, tell: Callable[[str], None]) -> None:
    """What a child does: fold the second turn, telling how far it has come."""
    store = SessionStore(f"sqlite:///{file}")
    agent = Agent(ScriptedProvider(summary("new")), session=store.load("s"))
    agent.autosave = autosave_of(store, agent.session, agent)
    for event in agent.compact():
        if isinstance(event, CompactionStarted):
            tell("requested")
        if isinstance(event, Compacted):
            tell("saved")
    store.close()


def survivor(template: Path, file: Path) -> tuple[int, float]:
    """How many lines and seconds an undisturbed compaction takes from its request."""
    times: list[float] = []
    for _ in range(3):  # the first ones load what the children find loaded
        shutil.copy(template, file)
        compact(file, lambda _word: times.append(time.monotonic()))
    seconds = times[-1] - times[-2]
    shutil.copy(template, file)
    lines = Lines(None)
    compact(file, lambda _word: lines.begin())
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    return lines.passed, seconds


def killed(
    file: Path, *, at_line: int | None = None, wait_seconds: float = 0.0
) -> dict[str, object]:
    """Fork a child and see it killed; what it had told, and whether it was in time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run_child(file, writer, at_line)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        told = pipe.readline()
        if at_line is None:
            time.sleep(wait_seconds)
            os.kill(child, signal.SIGKILL)
        told += pipe.read()
    _, status = os.waitpid(child, 0)
    words = told.decode().split()
    return {"told": words, "was_killed": os.WIFSIGNALED(status)}


def run_child(file: Path, writer: int, at_line: int | None) -> None:
    lines = Lines(at_line)

    def tell(word: str) -> None:
        os.write(writer, f"{word}\n".encode())
        if word == "requested" and at_line is not None:
            lines.begin()

    try:
        compact(file, tell)
        signal.pause()  # until the kill from outside comes
    finally:
        os._exit(1)


class Lines:
    """Counts the lines that run from `begin` on, and kills the process at one."""

    def __init__(self, last: int | None) -> None:
        self.passed = 0
        self._last = last

    def begin(self) -> None:
        """Trace everything that is called from here on, and what is running already."""
        sys.settrace(self._call)
        threading.settrace(self._call)  # the thread of autosave, which saves
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frame.f_trace = self._line if self._is_traced(frame) else None
            frame = frame.f_back

    def _call(self, frame: FrameType, _event: str, _argument: object):
        return self._line if self._is_traced(frame) else None

    def _line(self, _frame: FrameType, event: str, _argument: object):
        if event == "line":
            if self.passed == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            self.passed += 1
        return self._line

    @staticmethod
    def _is_traced(frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(TRACED)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
