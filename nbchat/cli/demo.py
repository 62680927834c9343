"""Run the demo notebook with a progress bar and report what happened."""

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from tqdm import tqdm

from nbchat.conversation.session import Session
from nbchat.conversation.turns import count_messages
from nbchat.errors import NbchatError
from nbchat.storage.store import SessionStore

CELL_TIMEOUT_SECONDS = 1_800
REFRESH_SECONDS = 0.5
"""Time between two updates of the progress bar."""
FIGURE = "figure"
"""The tag of cells whose printed lines are part of the report."""


def run_demo(notebook: Path, executed: Path, tickets: int) -> str:
    """Execute a copy of the demo notebook; returns the report of its session.

    The session is kept in a database beside the copy.
    """
    store = SessionStore(f"sqlite:///{executed.parent.resolve() / 'sessions.db'}")
    environment = {
        **os.environ,
        "NBCHAT_STORE_URL": store.url,
        "NBCHAT_DEMO_TICKETS": str(tickets),
    }
    started = time.monotonic()
    earlier = frozenset(info.id for info in store.sessions())
    progress = DemoProgress(store, tickets, earlier)
    book = _execute(notebook, executed, environment, progress)
    report = _report(progress.session(), executed, time.monotonic() - started)
    return "\n".join([*report, *_figures(book)])


@dataclass(slots=True)
class DemoProgress:
    """Progress of the demo, read from the database: the kernel is another process."""

    store: SessionStore
    tickets: int
    earlier: frozenset[str]
    cells: int = 0
    """How many cells the notebook has, up to the last one with code."""
    executed: int = 0
    """How many of them are done: the last ones take time after all tickets."""

    def session(self) -> Session:
        """The session of this run; empty until its first message is saved."""
        ids = [info.id for info in self.store.sessions() if info.id not in self.earlier]
        return self.store.load(ids[0]) if ids else Session()

    async def show_progress(self) -> None:
        """Show a progress bar of tickets and cells in a terminal, until cancelled."""
        total = self.tickets + self.cells
        with tqdm(total=total, unit="step", file=sys.stdout, disable=None) as bar:
            try:
                while True:
                    await asyncio.sleep(REFRESH_SECONDS)
                    self._update(bar)
            finally:
                self._update(bar)

    def _update(self, bar: "tqdm[Any]") -> None:
        session = self.session()
        closed, done = _closed(session), len(session.active_compactions)
        bar.n = closed + self.executed
        compactions = "1 compaction" if done == 1 else f"{done} compactions"
        cells = f"{self.executed} of {self.cells} cells"
        tickets = f"{closed} of {self.tickets} tickets"
        bar.set_postfix_str(f"{tickets}, {compactions}, {cells}")


def _execute(
    notebook: Path, executed: Path, environment: dict[str, str], progress: DemoProgress
) -> nbformat.NotebookNode:
    """Run every cell and save the notebook, also if a cell fails."""
    book: nbformat.NotebookNode = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]

    codes = [
        number for number, each in enumerate(book.cells, 1) if each.cell_type == "code"
    ]
    progress.cells = max(codes, default=0)

    def count(*, cell_index: int, **_: object) -> None:
        progress.executed = cell_index + 1

    client = NotebookClient(
        book,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        on_cell_complete=count,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(executed.parent)}},
    )

    async def run() -> None:
        bar = asyncio.create_task(progress.show_progress())
        try:
            await client.async_execute(env=environment)
        finally:
            bar.cancel()
            await asyncio.gather(bar, return_exceptions=True)

    try:
        asyncio.run(run())
    except CellExecutionError as error:
        raise NbchatError(
            f"A cell failed: {error.ename}: {error.evalue}. See {executed}."
        ) from None
    finally:
        _save(book, executed)
    return book


def _figures(book: nbformat.NotebookNode) -> list[str]:
    """The printed lines of the cells with the tag `figure`."""
    tagged = (each for each in book.cells if FIGURE in each.metadata.get("tags", ()))
    outputs = (output for cell in tagged for output in cell.outputs)
    return [text.strip() for each in outputs if (text := each.get("text"))]


def _save(book: nbformat.NotebookNode, file: Path) -> None:
    """Write a notebook; text printed in pieces becomes one output."""
    merge = CoalesceStreamsPreprocessor()  # type: ignore[no-untyped-call]
    merge.preprocess(book, {})  # type: ignore[no-untyped-call]
    nbformat.write(book, file)  # type: ignore[no-untyped-call]


def _closed(session: Session) -> int:
    """The number of tickets closed so far."""
    results = (entry for entry in session.transcript if entry.role == "tool")
    return sum(e.tool_name == "close_ticket" and not e.is_error for e in results)


def _report(session: Session, notebook: Path, seconds: float) -> list[str]:
    """Summarize the run in a few lines."""
    lines = [f"tickets closed    {_closed(session)} in {seconds:.0f} s"]
    for number, done in enumerate(session.active_compactions, 1):
        lines.append(
            f"compaction {number}      {done.messages} messages, "
            f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
        )
    usage = session.usage
    used = (
        f"{usage.input_tokens:,} tokens in ({usage.cache_read_tokens:,} of them from "
        f"the cache), {usage.output_tokens:,} out, summaries included"
    )
    used = ", ".join(filter(None, (used, usage.dollars_text)))
    stored = count_messages(session.transcript)
    seen = count_messages(session.history)
    lines += [
        f"tokens used       {used}",
        f"nothing lost      {stored} messages stored, {seen} in the model's context",
        f"notebook          {notebook.resolve()}",
    ]
    return lines
