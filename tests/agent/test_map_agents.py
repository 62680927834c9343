"""Many agents: every row decided once, whatever executor, error, stop or kill comes."""

import gc
import html
import json
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import parent_process
from pathlib import Path
from sqlite3 import connect as connect_to

import pandas as pd
import polars as pl
import pytest
from forked import clean_context
from map_desk import (
    Decision,
    Desk,
    assert_decided_once,
    category,
    decision,
    decision_after_a_call,
    make_agent,
    make_agent_of,
    make_effects,
    tickets,
)
from quick_server import quick_server
from tables import every

from nbchat.agent.agent import Agent
from nbchat.agent.budget import Budget
from nbchat.agent.map_agents import MapRun, MemoryResults, map_agents
from nbchat.agent.map_rows import Result, RowTask
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import ContentLeftOut, TextDelta, ToolRequested
from nbchat.conversation.session import Session
from nbchat.conversation.tools import idempotency_key, tool
from nbchat.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    RequestRefused,
    StoreError,
    UnknownModel,
)
from nbchat.providers.base import Request
from nbchat.providers.connect import connect
from nbchat.providers.model_info import Prices
from nbchat.storage.autosave import save_session
from nbchat.storage.run_store import RunResults, Store
from nbchat.testing import Line, ScriptedProvider, calls, fails, says


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 'sessions.db'}")
    yield opened
    opened.close()


def mapped(rows: object, maker: object = make_agent, **options: object) -> MapRun:
    options = {
        "key": "id",
        "prompt": "text",
        "output": Decision,
        "workers": 4,
    } | options
    return map_agents(maker, rows, **options).wait()  # type: ignore[arg-type]


def assert_right(run: MapRun, count: int) -> None:
    table = run.table()
    assert list(table["key"]) == [each["id"] for each in tickets(count)]
    assert list(table["category"]) == [
        category(each["text"]) for each in tickets(count)
    ]
    assert list(table["ticket"]) == list(table["key"])
    assert set(table["stop_reason"]) == {"end_turn"}
    assert not any(table["error"])
    assert (table["tokens"] > 0).all()


@pytest.mark.parametrize("kind", ["list", "generator", "dataframe"])
def test_every_row_is_decided_in_order(kind: str):
    rows = tickets(20)
    given = {"list": rows, "generator": iter(rows), "dataframe": pd.DataFrame(rows)}
    assert_right(mapped(given[kind]), 20)


def test_a_table_without_rows_has_its_columns():
    table = mapped([]).table()
    assert len(table) == 0
    assert {"key", "stop_reason", "error", "tokens", "dollars"} <= set(table.columns)


def test_a_table_of_failed_rows_has_the_columns_of_the_output():
    rows = [{"id": "T0", "text": "explode"}]
    table = mapped(rows).table()
    assert list(table.columns)[:3] == ["key", "category", "ticket"]
    assert "value" in mapped(rows, output=None).table()
    assert "value" in mapped(rows, output=int).table()


@pytest.mark.parametrize(
    ("maker", "rows", "output", "said"),
    [
        (
            "no maker",
            [],
            None,
            "make_agent can't be 'no maker'. Use a function or an Agent",
        ),
        (make_agent, 5, None, "rows can't be int. Use a DataFrame or a list"),
        (make_agent, "one text", None, "rows can't be str. Use a DataFrame or a list"),
        (make_agent, {"T1": "text"}, None, "rows can't be dict. Use a DataFrame"),
        (
            make_agent,
            pd.DataFrame({"id": [1], "question": ["?"]}),
            None,
            "No column named 'text'. Choose one of id, question",
        ),
        (
            make_agent,
            pl.DataFrame({"number": [1], "text": ["?"]}),
            None,
            "No column named 'id'. Choose one of number, text",
        ),
        (make_agent, [], {"type": "bike"}, "output isn't a JSON schema"),
    ],
)
def test_what_cannot_be_a_run_is_refused_at_once(
    maker: object, rows: object, output: object, said: str
):
    with pytest.raises(ConfigError, match=said):
        mapped(rows, maker, output=output)


def test_rows_that_break_in_the_middle_end_the_run_as_failed():
    def rows() -> Iterator[dict[str, str]]:
        yield from tickets(2)
        raise OSError("the file is gone")

    run = mapped(rows()).wait()
    assert (run.state, run.counts.done) == ("failed", 2)
    assert "The run ended: OSError: the file is gone" in run._repr_html_()


def test_a_key_that_occurs_twice_stays_a_failed_row_when_the_run_is_repeated(store):
    rows = [*tickets(2), {"id": "T0000", "text": "T0000: again"}]
    first = mapped(rows, store=store).table()
    run = mapped(rows, store=store).wait()
    assert (run.counts.skipped, run.counts.failed) == (2, 1)
    assert list(run.table()["key"]) == ["T0000", "T0001", "T0000 (row 2)"]
    assert list(run.table()["error"]) == list(first["error"])


def test_keys_and_prompts_may_be_functions_and_agents_may_be_made_of_the_row():
    run = mapped(
        tickets(6),
        make_agent_of,
        key=lambda row: row["id"],
        prompt=lambda row: row["text"],
    )
    assert_right(run, 6)


def test_an_agent_is_repeated_for_each_row_and_stays_as_it_was():
    agent = make_agent()
    assert_right(mapped(tickets(6), agent), 6)
    assert len(agent.session.transcript) == 0


def test_texts_are_rows_too_and_without_an_output_the_answer_is_the_value():
    run = map_agents(Agent(Desk(lambda _request: says("fine"))), ["one", "two"]).wait()
    assert [(row["key"], row["value"]) for row in run.rows()] == [
        ("0", "fine"),
        ("1", "fine"),
    ]


@pytest.mark.slow
def test_processes_work_and_their_cost_counts(store):
    with ProcessPoolExecutor(2, clean_context()) as executor:
        run = mapped(
            tickets(12),
            executor=executor,
            workers=2,
            store=store,
            budget=Budget(tokens=10**6),
        )
        assert_right(run, 12)
    assert run._control.meter is not None
    assert run._control.meter.used.total_tokens == run.table()["tokens"].sum()
    assert len(store.load(run.table()["session"][3]).transcript) == 2


@pytest.mark.slow
def test_functions_of_a_notebook_go_to_other_processes():
    parent = os.getpid()

    def maker() -> Agent:
        return Agent(Desk(), system=f"not {parent}")

    class Local(Decision):
        pass

    with ProcessPoolExecutor(1, clean_context()) as executor:
        assert_right(mapped(tickets(3), maker, executor=executor, output=Local), 3)


@every(
    ("row", "error"),
    [
        ({"id": "E", "text": "explode"}, "RequestRefused: no such model"),
        ({"id": "E"}, "This row has no text to use as its prompt."),
        ({"id": "E", "text": 3}, "The prompt of this row is int, not text."),
        ({"id": "E", "text": float("nan")}, "The prompt of this row is empty."),
        ({"id": "T0001", "text": "x"}, "The key T0001 occurs twice."),
        (3, "This row has no id to use as its key."),
        ({"id": float("nan"), "text": "x"}, "The key of this row is empty."),
    ],
)
def test_an_error_is_a_row_and_the_rest_continues(row: object, error: str):
    heard = []
    run = mapped([*tickets(3), row, *tickets(6)[3:]], on_error=heard.append)
    table = run.table()
    assert list(table["error"]) == ["", "", "", error, "", "", ""]
    assert list(table["key"].iloc[4:]) == ["T0003", "T0004", "T0005"]
    assert run.counts.failed == 1
    assert [each.error for each in heard] == [error]
    assert error in html.unescape(run._repr_html_())


def test_a_row_without_a_prompt_is_never_asked_however_often_it_is_tried(store):
    rows = [*tickets(1), {"id": "E"}]
    mapped(rows, store=store)
    run = mapped(rows, store=store)
    assert "E: This row has no text" in html.unescape(run._repr_html_())
    assert run.counts.rate_text(is_running=False) == ""
    run.retry_failed().wait()
    assert list(run.table()["error"]) == [
        "",
        "This row has no text to use as its prompt.",
    ]
    assert run.counts.failed == 1


def test_an_error_in_on_error_is_noted_and_the_run_continues():
    run = mapped(
        [{"id": "E", "text": "explode"}, *tickets(3)], on_error=lambda _: 1 / 0
    )
    assert (run.state, run.counts.done, run.counts.failed) == ("finished", 3, 1)
    assert "on_error raised ZeroDivisionError" in run._repr_html_()


def test_a_row_that_was_asked_otherwise_is_asked_again(store):
    """Its input has changed after it was interrupted: no result says so."""
    mapped([{"id": "T0001", "text": "T0001: my card"}], store=store)
    with store._connection() as connection:
        connection.exec_driver_sql("DELETE FROM run_results")
    run = mapped([{"id": "T0001", "text": "T0001: the transfer"}], store=store)
    assert list(run.table()["category"]) == ["transfer"]
    transcript = store.load(run.table()["session"][0]).transcript
    assert [e.content for e in transcript if e.is_prompt] == ["T0001: the transfer"]


def test_a_failed_row_is_tried_again_with_its_new_input(store):
    mapped([{"id": "T0001", "text": "explode"}], store=store)
    run = mapped([{"id": "T0001", "text": "T0001: my card"}], store=store)
    assert run.changed == {"T0001": "The input has changed since."}
    assert list(run.retry_failed().wait().table()["category"]) == ["card"]
    assert run.counts.failed == 0
    assert "explode" not in run._repr_html_()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["", " ", "x" * 1_000_000, "所有工单 🎫 \ud800", "close all tickets"],
    ids=len,
)
def test_odd_tickets_are_rows(text: str, store):
    run = mapped(
        [{"id": "odd", "text": text}, *tickets(2)], Agent(Desk(decision)), store=store
    )
    assert len(run.table()) == 3
    assert list(run.table()["category"].iloc[1:]) == ["card", "transfer"]


@pytest.mark.slow
def test_a_finished_run_is_not_asked_again_and_an_unfinished_one_continues(store):
    asked = []

    def counting(request: Request) -> Line:
        asked.append(request)
        return decision(request)

    maker = Agent(Desk(counting))
    mapped(tickets(5), maker, store=store)
    assert len(asked) == 5
    run = mapped(tickets(9), maker, store=store)
    assert len(asked) == 9
    assert (run.counts.skipped, run.counts.done) == (5, 4)
    assert_right(run, 9)


def test_a_session_that_was_finished_but_not_reported_is_not_asked_again(store):
    mapped(tickets(3), store=store)
    with store._connection() as connection:
        connection.exec_driver_sql("DELETE FROM run_results")
    never = Agent(Desk(lambda _request: pytest.fail("asked again")))
    run = mapped(tickets(3), never, store=store, name="make_agent")
    assert list(run.table()["category"]) == ["card", "transfer", "other"]


@pytest.mark.slow
def test_changed_inputs_and_recipes_are_reported_and_rerun_on_request(store):
    mapped(tickets(4), store=store, name="x")
    changed = tickets(4)
    changed[2] = {"id": "T0002", "text": "T0002: my card"}
    run = mapped(changed, store=store, name="x")
    assert run.changed == {"T0002": "The input has changed since."}
    assert run.table()["note"][2] == "The input has changed since."
    assert run.table()["category"][2] == "other"
    assert "1 finished row is out of date" in run._repr_html_()
    other = Agent(Desk(), system="You triage other tickets.")
    assert set(mapped(tickets(4), other, store=store, name="x").changed.values()) == {
        "The agent or the output type has changed since."
    }
    redone = mapped(changed, store=store, name="x", redo_changed=True)
    assert redone.changed == {}
    assert (redone.counts.done, redone.table()["category"][2]) == (1, "card")
    assert not any(redone.table()["note"])


@pytest.mark.slow
def test_stop_and_resume_lose_nothing(store):
    begun = threading.Event()

    def slow(request: Request) -> Line:
        begun.set()
        return Line(decision(request).text, delay_seconds=0.01)

    run = map_agents(
        Agent(Desk(slow)),
        iter(tickets(40)),
        key="id",
        prompt="text",
        output=Decision,
        workers=3,
        store=store,
    )
    begun.wait(10)
    run.stop().wait()
    assert run.state == "stopped"
    assert run.counts.done < 40
    assert_right(run.resume().wait(), 40)
    assert run.state == "finished"


@pytest.mark.slow
def test_failed_rows_are_tried_again_on_request(store):
    broken = [True]

    def answer(request: Request) -> Line:
        if broken and "T0001" in request.history[0].content:
            raise ValueError("a fault of the provider's own")
        return decision(request)

    maker = Agent(Desk(answer))
    run = mapped(tickets(3), maker, store=store)
    assert list(run.table()["error"]) == [
        "",
        "ValueError: a fault of the provider's own",
        "",
    ]
    again = mapped(tickets(3), maker, store=store)
    assert again.counts.failed == 1
    broken.clear()
    assert_right(again.retry_failed(), 3)
    assert again.counts.failed == 0
    (session,) = {row["session"] for row in again.rows() if row["key"] == "T0001"}
    assert [entry.role for entry in store.load(session).transcript] == [
        "user",
        "assistant",
    ]


def test_a_run_whose_rows_all_have_results_is_finished():
    run = mapped(tickets(3), workers=1, budget=Budget(steps=3))
    assert run.state == "finished"
    assert run.stop().state == "finished"


@pytest.mark.slow
def test_a_budget_ends_the_run_and_a_larger_one_continues(store):
    run = mapped(tickets(30), store=store, workers=1, budget=Budget(steps=7))
    assert (run.state, run.counts.done) == ("budget used up", 7)
    assert "The same call with a larger budget continues" in run._repr_html_()
    assert "s left" not in run._repr_html_()
    assert_right(mapped(tickets(30), store=store), 30)


@pytest.mark.slow
def test_a_row_that_ends_its_process_is_named_and_others_do_the_rest():
    rows = [{"id": "T0009", "text": "T0009: card"}, *tickets(3)]
    with ProcessPoolExecutor(1, clean_context()) as executor:
        run = map_agents(
            make_agent_unless_dying,
            [*rows, *tickets(9)[3:8]],
            key="id",
            prompt="text",
            output=Decision,
            workers=1,
            executor=executor,
        ).wait()
    table = run.table()
    lost = table[table["error"] != ""]
    assert set(lost["key"]) <= {"T0001", "T0002", "T0003"}
    assert "T0002" in set(lost["key"])
    assert (
        lost["error"]
        .str.startswith("The executor lost this row: BrokenProcessPool")
        .all()
    )
    assert len(table) == 9
    assert (table["stop_reason"] == "end_turn").sum() >= 7


def make_agent_unless_dying(ticket: dict[str, str]) -> Agent:
    if ticket["id"] == "T0002" and parent_process() is not None:
        os._exit(1)
    return make_agent()


class FullDisk(Store):
    """A store whose disk is full from the third result on."""

    written = 0

    def add_entries(self, *args: object, **options: object) -> None:
        self.written += 1
        if self.written > 2:
            raise StoreError("the session store failed: database or disk is full")
        super().add_entries(*args, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_full_disk_is_noted_in_the_row_and_the_rest_continues(tmp_path):
    run = mapped(
        tickets(6), store=FullDisk(f"sqlite:///{tmp_path / 'x.db'}"), workers=1
    )
    assert_right(run, 6)
    noted = [bool(note) for note in run.table()["note"]]
    assert noted == [False, False, True, True, True, True]
    assert (
        run.table()["note"][5]
        == "Not saved. the session store failed: database or disk is full"
    )


class LockedOnce(Store):
    """A store that is locked when the first answer is saved.

    It notes how many entries a session has when its result is kept.
    """

    saves = 0

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.entries: list[int] = []

    def add_entries(self, *args: object, **options: object) -> None:
        self.saves += 1
        if self.saves == 2:
            raise StoreError("the session store failed: database is locked")
        super().add_entries(*args, **options)  # type: ignore[arg-type]

    def results(self, run: str) -> RunResults:
        made = super().results(run)
        put = made.put

        def noting(result: Result) -> None:
            self.entries.append(len(self.load(result.session_id).transcript))
            put(result)

        made.put = noting  # type: ignore[method-assign]
        return made


def test_a_result_is_kept_after_its_session_also_where_saving_is_late(tmp_path):
    """A kill between the two would leave a decision without its answer."""
    store = LockedOnce(f"sqlite:///{tmp_path / 'x.db'}")
    run = mapped(tickets(2), store=store, workers=1)
    assert store.entries == [2, 2]
    assert not any(run.table()["note"])
    store.close()


def test_a_tool_runs_after_its_call_is_saved_also_where_saving_is_late(tmp_path):
    """Otherwise nothing would say after a kill that it may have had its effect."""
    store = LockedOnce(f"sqlite:///{tmp_path / 'x.db'}")
    saved: list[Entry] = []

    def close(ticket: str) -> str:
        """Close a ticket."""
        (session,) = store.sessions()
        saved.extend(store.load(session.id).transcript)
        return f"{ticket} is closed"

    agent = Agent(Desk(decision_after_a_call), tools=[close])
    assert_right(mapped(tickets(1), agent, store=store, workers=1), 1)
    assert saved[-1].is_call
    store.close()


def test_a_schema_that_no_server_takes_is_refused_once_in_a_run_of_threads():
    asked: list[bool] = []

    def answer(request: Request) -> object:
        asked.append(request.output_schema is not None)
        refused = RequestRefused("response_format is not supported")
        return fails(refused) if request.output_schema else decision(request)

    def make() -> Agent:
        return Agent(ScriptedProvider(*[answer] * 3))

    run = mapped(tickets(30), make, workers=1)
    assert not any(run.table()["error"])
    assert (len(asked), sum(asked)) == (31, 1)


def test_a_maker_that_makes_no_agent_is_an_error_of_the_call():
    with pytest.raises(
        ConfigError, match=r"make_agent returned str\. It must return an Agent"
    ):
        mapped(tickets(2), lambda: "an agent")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers can't be 0. Use at least 1."),
        ({"samples": "two"}, "samples can't be 'two'. Use at least 1."),
        ({"store": "sqlite:///t.db"}, "store can't be text. Use Store"),
        ({"budget": 5}, r"budget can't be 5. Use Budget\(tokens"),
    ],
)
def test_an_argument_of_another_type_is_refused_with_the_right_one(
    options: dict[str, object], said: str
):
    with pytest.raises(ConfigError, match=said):
        mapped(tickets(1), **options)


def test_a_store_that_cannot_be_opened_is_an_error_of_the_call(tmp_path):
    file = tmp_path / "diary.db"
    file.write_text("this is a diary, not a database. " * 100)
    with pytest.raises(StoreError, match=r"diary\.db isn't a database"):
        mapped(tickets(1), store=Store(f"sqlite:///{file}"))


def test_a_frame_of_polars_has_rows_like_any_other():
    assert_right(mapped(pl.DataFrame(tickets(3))), 3)


def test_providers_and_agents_are_sent_without_their_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    for model in ("openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "local:smollm2"):
        agent = Agent(
            connect(model), system="You triage.", max_steps=7, temperature=0.5
        )
        sent = pickle.dumps(agent)
        same = pickle.loads(sent)
        assert b"very-secret" not in sent
        assert (same.provider.name, same.system, same.max_steps) == (
            model,
            "You triage.",
            7,
        )
        assert same.options == agent.options


def test_the_rows_of_an_iterable_are_read_as_they_are_needed():
    read = []

    def rows() -> Iterator[dict[str, str]]:
        for each in tickets(2_000):
            read.append(each)
            yield each

    run = mapped(rows(), workers=2, budget=Budget(steps=3))
    assert run.counts.done in (3, 4)  # both workers may be before their request
    assert len(read) <= 200


class InstantExecutor(Executor):
    """Decides each row at once, without an agent."""

    def submit(self, function: object, task: RowTask) -> Future[Result]:  # type: ignore[override]
        done: Future[Result] = Future()
        done.set_result(task.result(value="card", stop_reason="end_turn"))
        return done


class ResultsElsewhere(MemoryResults):
    """Results that are kept in no memory of this process, as a database's."""

    def put(self, result: Result) -> None:
        pass


class StoreElsewhere:
    def results(self, run: str) -> ResultsElsewhere:
        return ResultsElsewhere()

    def known(self, session_ids: object) -> set[str]:
        return set()


@pytest.mark.slow
def test_a_further_row_takes_under_200_bytes_of_memory():
    sizes = {}

    def rows(count: int) -> Iterator[str]:
        for number in range(count):
            if number in (1_000, count - 1):
                sizes[number] = tracemalloc.get_traced_memory()[0]
            yield f"T{number}: my card is gone"

    tracemalloc.start()
    run = map_agents(
        make_agent,
        rows(6_000),
        executor=InstantExecutor(),
        store=StoreElsewhere(),  # type: ignore[arg-type]
    ).wait()
    tracemalloc.stop()
    assert run.counts.done == 6_000
    assert (sizes[5_999] - sizes[1_000]) / 5_000 < 200


@pytest.mark.slow
def test_finished_rows_leave_the_memory(store):
    others = {*threading.enumerate()}
    rows = [{"id": f"T{n:04}", "text": f"T{n:04}: unforgettable"} for n in range(40)]
    assert mapped(rows, store=store).wait().counts.done == 40

    def kept() -> int:
        gc.collect()
        entries = [each for each in gc.get_objects() if type(each) is Entry]
        return sum("unforgettable" in each.content for each in entries)

    for thread in {*threading.enumerate()} - others:  # those that save sessions
        thread.join(30)
    assert kept() == 0


@pytest.mark.slow
def test_a_call_that_was_killed_is_unknown_to_the_model_and_keeps_its_key(
    store, tmp_path: Path
):
    """The database as it is while the tool runs is what a kill would leave."""
    left = f"{tmp_path / 'left.db'}"
    keys: list[str] = []
    read: list[str] = []

    def close(ticket: str) -> str:
        """Close a ticket."""
        keys.append(idempotency_key())
        if len(keys) == 1:
            file = store.url.removeprefix("sqlite:///")
            with closing(connect_to(file)) as source, closing(connect_to(left)) as copy:
                source.backup(copy)
        return f"{ticket} is closed"

    def answer(request: Request) -> Line:
        last = request.history[-1]
        if last.role == "tool":
            read.append(last.content)
        return decision_after_a_call(request)

    agent = Agent(Desk(answer), tools=[close])
    for kept in (store, Store(f"sqlite:///{left}")):
        assert_right(mapped(tickets(1), agent, store=kept), 1)
    killed = Store(f"sqlite:///{left}")
    (row,) = killed.results("agents")
    transcript = killed.load(row.session_id).transcript
    assert [e.role for e in transcript if e.is_prompt] == ["user"]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert read[1] == "error: interrupted, the result is unknown"


SCRIPT = Path(__file__).parents[1] / "support" / "map_desk.py"


@pytest.mark.slow
def test_after_kills_every_ticket_is_decided_once_and_closed_once(tmp_path):
    url, effects = (
        f"sqlite:///{tmp_path / name}.db" for name in ("sessions", "effects")
    )
    make_effects(effects)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), url, effects, "12", "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("killed after") == 2
    assert done.stdout.endswith("ended with 0\n"), done.stderr
    store = Store(url)
    assert_decided_once(store, effects, 12)
    store.close()


def test_an_agent_that_is_saved_continues_elsewhere_in_the_same_session(store):
    agent = make_agent()
    agent.autosave = store.autosave(agent.session, session_id="s", model="m")
    agent.ask("T0000: my card")
    same = pickle.loads(pickle.dumps(agent))
    same.ask("T0000: my card again")
    assert len(store.load("s").transcript) == 4
    assert len(agent.session.transcript) == 2


def test_a_row_is_tried_again_while_its_server_fails(monkeypatch):
    monkeypatch.setattr("nbchat.agent.map_rows.RETRY_SECONDS", 0.01)
    asked: list[int] = []

    class Away(ScriptedProvider):
        """Fails for so long that all attempts of a request are used up."""

        def stream(self, request, *, stop=None):
            asked.append(1)
            if len(asked) <= 2:
                raise ConnectionFailed("the server is away")
            return (yield from super().stream(request, stop=stop))

    def make() -> Agent:
        return Agent(Away(says("fine")), attempts=1)

    (row,) = map_agents(make, ["go"]).wait().rows()
    assert (row["value"], row["error"]) == ("fine", "")
    assert len(asked) == 3


def test_a_row_is_tried_four_times_and_once_more_after_the_others(monkeypatch):
    monkeypatch.setattr("nbchat.agent.map_rows.RETRY_SECONDS", 0.01)
    asked: list[int] = []

    class Gone(ScriptedProvider):
        def stream(self, request, *, stop=None):
            asked.append(1)
            raise ConnectionFailed("the server is gone")
            yield

    def make() -> Agent:
        return Agent(Gone(), attempts=1)

    (row,) = map_agents(make, ["go"]).wait().rows()
    assert "the server is gone" in row["error"]
    assert len(asked) == 8


@pytest.mark.slow
def test_nothing_of_a_broken_stream_stays_in_a_row():
    made: list[Agent] = []

    class Breaking(ScriptedProvider):
        is_whole = False

        def stream(self, request, *, stop=None):
            if not self.is_whole:
                self.is_whole = True
                yield TextDelta("The par")
                raise ConnectionFailed("lost")
            return (yield from super().stream(request, stop=stop))

    def make() -> Agent:
        made.append(Agent(Breaking(says("fine"))))
        return made[-1]

    (row,) = map_agents(make, ["go"]).wait().rows()
    assert row["value"] == "fine"
    assert [e.content for e in made[-1].session.transcript] == ["go", "fine"]


@pytest.mark.slow
def test_a_run_loads_one_sdk_and_no_vocabulary(tmp_path: Path):
    """An SDK is 20 to 30 MB and the vocabulary 78; the server counts the tokens."""
    child = Path(__file__).parents[1] / "support" / "weigh_rows.py"
    with quick_server(calls=1) as address:
        command = [sys.executable, str(child), address, f"sqlite:///{tmp_path}/run.db"]
        output = subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert json.loads(output.stdout) == {
        "loaded": ["tiktoken"],
        "done": 8,
        "vocabularies": 0,
        "anthropic": False,
    }


class Refusing(ScriptedProvider):
    """Counts requests, all of which are refused."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.error = error

    def stream(self, request, *, stop=None):
        self.asked.append(1)
        raise self.error
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [UnknownModel("openai has no model 'gtp'"), AuthenticationFailed("check the key")],
)
def test_what_every_row_would_be_refused_for_is_one_error_of_the_call(store, error):
    provider = Refusing(error)
    with pytest.raises(ConfigError, match=str(error)):
        mapped(tickets(60), lambda: Agent(provider), store=store, name="desk")
    assert len(provider.asked) == 1
    run = mapped(tickets(60), store=store, name="desk").wait()
    assert (run.state, run.counts.done, run.counts.failed) == ("finished", 60, 0)


def test_a_budget_in_dollars_needs_a_price_before_the_first_row():
    prices = Prices(input=1_000_000, cache_read=0, cache_write=0, output=0)

    def make() -> Agent:
        return Agent(ScriptedProvider(says("fine", tokens=1)))

    with pytest.raises(
        ConfigError, match=r"price of `scripted:model` .* Budget\(tokens="
    ):
        map_agents(make, ["a", "b"], budget=Budget(dollars=5))
    budget = Budget(dollars=2, prices=prices)
    run = map_agents(make, ["a", "b", "c"], budget=budget, workers=1).wait()
    assert run.state == "budget used up"
    assert [each["dollars"] for each in run.rows()] == [1, 1]


def test_a_tool_whose_argument_has_no_type_is_refused_before_the_first_row():
    def close(ticket) -> str:
        """Close a ticket."""
        return ticket

    with pytest.raises(ConfigError, match="argument ticket of the tool close has no"):
        mapped(tickets(2), lambda: Agent(Desk(), tools=[close]))


def test_a_run_without_a_tool_that_the_server_refuses_is_refused():
    class Picky(ScriptedProvider):
        def stream(self, request, *, stop=None):
            yield ContentLeftOut(("the tool close",), "scripted:model", "bad schema")
            return (yield from super().stream(request, stop=stop))

    with pytest.raises(ConfigError, match=r"doesn't accept the tool close.*bad schema"):
        mapped(tickets(60), lambda: Agent(Picky(says("fine"))))


@pytest.mark.slow
def test_a_run_whose_first_rows_fail_alike_stops_and_the_same_call_continues(store):
    is_broken = threading.Event()
    is_broken.set()

    def broken(request: Request) -> Line:
        if not is_broken.is_set():
            return decision(request)
        text = next(e.content for e in request.history if e.is_prompt)
        return fails(RequestRefused(f"{text[:5]}: the parameter x is unknown"))

    options = {"store": store, "name": "desk", "workers": 2}
    run = mapped(tickets(60), lambda: Agent(Desk(broken)), **options).wait()
    assert run.state == "failed"
    assert run.problem.startswith("Stopped, because 10 of the first 10 rows failed")
    assert (run.counts.failed, run._failed) == (0, {})
    run = mapped(tickets(60), **options).wait()
    assert (run.state, run.counts.done, run.counts.failed) == ("finished", 60, 0)
    run = mapped(tickets(60), lambda: Agent(Desk(broken)), workers=2)
    is_broken.clear()
    assert run.resume().wait().counts.done == 60
    assert "the parameter x is unknown" not in run._repr_html_()


def test_rows_whose_server_was_away_are_asked_again_after_the_others(monkeypatch):
    monkeypatch.setattr("nbchat.agent.map_rows.RETRY_SECONDS", 0.001)
    attempts: dict[str, int] = {}

    def away(request: Request) -> Line:
        text = next(e.content for e in request.history if e.is_prompt)
        attempts[text[:5]] = attempts.get(text[:5], 0) + 1
        if text.startswith("T0002") and attempts["T0002"] <= 6:
            return fails(ConnectionFailed("the server is away"))
        return decision(request)

    run = mapped(tickets(5), lambda: Agent(Desk(away), attempts=1)).wait()
    assert (run.state, run.counts.done, run.counts.failed) == ("finished", 5, 0)
    assert attempts["T0002"] == 7


def test_failed_rows_are_named_when_the_same_call_is_run_again(store):
    rows = [*tickets(3), {"id": "X", "text": "explode"}]
    for _ in range(2):
        run = mapped(rows, store=store).wait()
        assert "1 row failed. run.retry_failed() tries them again" in run._repr_html_()


def test_a_call_of_an_idempotent_tool_runs_again_when_its_result_was_lost(store):
    sent: list[str] = []

    @tool(idempotent=True)
    def close(ticket: str) -> str:
        """Close a ticket."""
        sent.append(idempotency_key())
        return f"{ticket} is closed"

    def open_ticket(ticket: str) -> str:
        """Open a ticket."""
        sent.append(ticket)
        return "open"

    killed = Agent(
        Desk(decision_after_a_call), tools=[close, open_ticket], session=Session()
    )
    killed.autosave = store.autosave(killed.session, session_id="s", model="m")
    turn = killed.run("T0001: my card is gone")
    next(event for event in turn if isinstance(event, ToolRequested))
    killed.autosave.save()  # and the kernel is killed
    agent = Agent(Desk(decision_after_a_call), tools=[close, open_ticket])
    agent.switch(store.load("s"))
    agent.retry().result()
    assert len(sent) == 1
    results = [e for e in agent.session.transcript if e.role == "tool"]
    assert [(e.content, e.is_error) for e in results] == [("T0001 is closed", False)]


@pytest.mark.slow
def test_a_run_is_estimated_before_and_after_its_first_rows():
    run = mapped(tickets(200), start=False)
    assert run.state == "not started"
    before = run.estimate()
    assert before.rows == 200
    assert 0 < before.tokens[0] < before.tokens[1]
    assert before.dollars is None
    run.resume().wait()
    after = run.estimate()
    assert after.measured == 200
    assert after.tokens[0] < run.counts.usage.total_tokens < after.tokens[1]
    assert before.tokens[0] < run.counts.usage.total_tokens < before.tokens[1]


@pytest.mark.slow
def test_doubtful_rows_are_reviewed_first_and_corrections_are_kept(store):
    def unsure(request: Request) -> Line:
        text = next(e.content for e in request.history if e.is_prompt)
        is_first = not any(e.is_by_nbchat for e in request.history)
        return says("A card?") if "T0003" in text and is_first else decision(request)

    rows = [*tickets(5), {"id": "X", "text": "explode"}]
    run = mapped(rows, lambda: Agent(Desk(unsure)), store=store, name="desk").wait()
    review = run.review()
    assert list(review["key"][:2]) == ["X", "T0003"]
    assert list(review["doubt"][:3]) == ["failed", "repaired", ""]
    assert review.columns[-1] == "corrected"
    review.loc[1, "corrected"] = "other"
    run.correct(review).correct({"X": "card"})
    again = mapped(rows, store=store, name="desk").wait().table()
    corrected = dict(zip(again["key"], again["corrected"], strict=True))
    assert (corrected["T0003"], corrected["X"]) == ("other", "card")
    with pytest.raises(ConfigError, match="No row has the key"):
        run.correct({"Y": "card"})


def test_agreement_says_how_many_rows_are_right_by_category():
    run = mapped(tickets(6)).wait()
    labels = {each["id"]: category(each["text"]) for each in tickets(6)}
    assert run.agreement(labels).right == 6
    wrong = run.agreement(labels | {"T0000": "transfer"})
    assert (wrong.right, wrong.total) == (5, 6)
    assert wrong.by_category["transfer"] == (2, 3)
    assert repr(wrong).splitlines()[:2] == ["5 of 6 right", "transfer: 2 of 3"]


def test_labels_of_other_types_count_and_missing_ones_do_not():
    rows = pd.DataFrame({"id": [0, 1, 2], "text": ["T0: card", "T1: card", None]})
    run = mapped(rows)
    labels = pd.Series(["card", float("nan"), None], index=rows["id"])
    assert run.agreement(labels).by_category == {"card": (1, 1)}
    assert run.agreement({0: pd.NA, 2: "None"}).by_category == {"None": (0, 1)}
    with pytest.raises(ConfigError, match=r"No row has the key '0\.0'"):
        run.agreement({0.0: "card"})
    for wrong in (["card"], None, pd.DataFrame({"id": [0], "category": ["card"]})):
        with pytest.raises(ConfigError, match="dictionary or a Series"):
            run.agreement(wrong)
    for ask in (lambda **given: run.agreement(labels, **given), run.review):
        with pytest.raises(ConfigError, match="Use category or ticket"):
            ask(field="kind")


def test_a_field_of_an_open_record_can_be_compared():
    rows = [{"id": 1, "text": "T0001: card"}]
    run = mapped(rows, lambda: Agent(Desk(decision)), output=dict[str, str])
    assert run.agreement({1: "card"}, field="category").right == 1
    assert list(run.review(field="category")["key"]) == ["1"]


def test_a_review_without_rows_is_a_table_and_has_no_corrections():
    run = mapped([]).wait()
    assert list(run.review().columns[:2]) == ["key", "doubt"]
    assert run.correct(run.review()).agreement({"T0001": "card"}).total == 0


@pytest.mark.slow
def test_of_corrections_with_a_wrong_one_none_is_kept(store):
    run = mapped(tickets(2), store=store, name="desk").wait()
    wrong: list[object] = [{"X": "card"}, {"T0001": object()}, ["card"], run.table()]
    for each in wrong:
        given = {"T0000": "other"} | each if isinstance(each, dict) else each
        with pytest.raises(ConfigError):
            run.correct(given)
    assert "corrected" not in run.table()
    run.correct(pd.Series([3, 4], index=["T0000", "T0001"])).correct({"T0001": None})
    assert list(run.table()["corrected"].dropna()) == [3]


@pytest.mark.slow
def test_rows_whose_two_samples_disagree_are_reviewed_first(store):
    asked: Counter[str] = Counter()

    def unsure(request: Request) -> Line:
        text = next(e.content for e in request.history if e.is_prompt)
        asked[text[:5]] += 1
        other = text.replace("transfer", "card") if asked[text[:5]] == 1 else text
        return says(json.dumps({"category": category(other), "ticket": text[:5]}))

    def make() -> Agent:
        return Agent(Desk(unsure))

    planned = mapped(tickets(6), samples=2, start=False).estimate()
    once = mapped(tickets(6), start=False).estimate()
    assert list(planned.tokens) == [2 * each for each in once.tokens]
    options = {"store": store, "name": "desk", "workers": 2}
    run = mapped(tickets(6), make, samples=2, **options).wait()
    assert set(asked.values()) == {2}
    review = run.review()
    assert list(review["key"][:2]) == ["T0001", "T0004"]
    assert list(review["doubt"][:3]) == ["disagrees", "disagrees", ""]
    assert list(review["category"][:2]) == ["transfer", "transfer"]
    assert list(review.columns[-2:]) == ["others", "corrected"]
    assert list(review["others"][:3]) == [["card"], ["card"], ["card"]]
    assert set(run.review(field="ticket")["doubt"]) == {""}
    assert run.table()["tokens"].sum() == run.counts.usage.total_tokens
    assert mapped(tickets(6), make, samples=2, **options).counts.skipped == 6
    assert mapped(tickets(6), make, samples=3, **options).wait().counts.done == 6
    assert set(asked.values()) == {3}


class PicklingExecutor(Executor):
    """Sends work at once, and runs it at once."""

    def submit(self, function, task):
        done: Future[Result] = Future()
        done.set_result(function(pickle.loads(pickle.dumps(task))))
        return done


def processes() -> Executor:
    return ProcessPoolExecutor(1, clean_context())


@pytest.mark.parametrize(
    "kind",
    [PicklingExecutor, pytest.param(processes, marks=pytest.mark.slow)],
    ids=["at once", "processes"],
)
def test_a_row_that_cannot_be_sent_is_named_and_the_rest_continues(kind):
    locked = {"id": "L", "text": "my card", "lock": threading.Lock()}
    with kind() as executor:
        run = mapped([*tickets(2), locked, *tickets(3)[2:]], executor=executor)
    table = run.table()
    assert (run.counts.done, run.counts.failed) == (3, 1)
    assert "cannot pickle '_thread.lock'" in table["error"][2]
    assert not any(table["error"].drop(2))


@pytest.mark.slow
@pytest.mark.slow
def test_a_million_rows_are_planned_without_a_copy_and_stopped():
    frame = pd.DataFrame({"id": range(1_000_000), "text": "a card"})
    tracemalloc.start()
    try:
        run = map_agents(
            make_agent, frame, key="id", prompt="text", output=Decision, start=False
        )
        assert run.estimate().rows == 1_000_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    run.begin().stop().wait()
    assert run.state == "stopped"
    assert 0 < run.counts.over < 10_000
    assert most < 20_000_000  # the frame has 16 MB


def test_a_key_column_that_has_changed_is_named(store):
    mapped(tickets(3), store=store, name="desk")
    assert mapped(tickets(5), store=store, name="desk").problem == ""
    run = mapped(tickets(3), store=store, name="desk", key=lambda each: each["text"])
    assert run.problem.startswith("Earlier results of desk have other keys, such as T0")


@pytest.mark.slow
def test_two_runs_of_one_name_at_once_keep_each_row_once(store):
    options = {"store": store, "name": "desk", "start": False}
    runs = [mapped(tickets(30), **options) for _ in range(2)]
    for run in runs:
        run.resume()
    for run in runs:
        assert_right(run.wait(), 30)
        assert set(run.table()["note"]) == {""}


def closing_desk(
    store: Store, answers: list[str], began: threading.Event
) -> tuple[list[str], MapRun]:
    """A run of one ticket that a tool closes, and the tickets it has closed."""
    closed: list[str] = []

    def close(ticket: str) -> str:
        """Close a ticket."""
        closed.append(ticket)
        return "closed"

    def answer(request: Request) -> Line:
        if any(entry.role == "tool" for entry in request.history):
            began.set()
            seconds = 0.1 if len(answers) > 1 else 0.0
            return Line(answers.pop(0), delay_seconds=seconds)
        return calls("close", ticket="T1")

    agent = Agent(Desk(answer), tools=[close])
    return closed, map_agents(agent, ["T1"], store=store, name="desk", start=False)


def test_a_row_that_was_stopped_after_a_call_goes_on_without_calling_again(store):
    began = threading.Event()
    closed, run = closing_desk(store, ["a slow answer of many words", "done"], began)
    run.resume()
    assert began.wait(60)
    assert run.stop().wait().state == "stopped"
    assert list(run.resume().table()["value"]) == ["done"]
    assert closed == ["T1"]


@pytest.mark.slow
def test_a_row_that_another_run_works_on_runs_no_tool_here(store, monkeypatch):
    monkeypatch.setattr("nbchat.agent.map_rows.RETRY_SECONDS", 0.001)
    closed: list[str] = []
    name = map_agents(Agent(Desk()), ["T1"], name="desk").table()["session"][0]

    def answer(_request: Request) -> Line:
        texts = [("user", "T1"), ("assistant", "decided by another run")]
        save_session(store, Session(texts, session_id=name))
        return calls("close", ticket="T1")

    def close(ticket: str) -> str:
        """Close a ticket."""
        closed.append(ticket)
        return "closed"

    agent = Agent(Desk(answer), tools=[close])
    run = map_agents(agent, ["T1"], store=store, name="desk")
    row = run.table().iloc[0]
    assert (row["value"], row["error"]) == ("decided by another run", "")
    assert closed == []


def test_a_server_that_becomes_ten_times_slower_loses_no_row():
    asked: list[Request] = []

    def slowing(request: Request) -> Line:
        asked.append(request)
        seconds = 0.005 if len(asked) < 5 else 0.05
        return replace(decision(request), delay_seconds=seconds)

    run = mapped(tickets(12), lambda: Agent(Desk(slowing))).wait()
    assert_right(run, 12)
    assert len(asked) == 12
