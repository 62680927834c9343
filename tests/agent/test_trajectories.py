"""Ten compactions in a row over real conversations: nothing breaks, nothing is lost."""

import re

import pytest
from driving import finished
from measures import READ
from tables import every
from trajectories import Trajectory, in_turn, read_trajectories
from wire_rules import anthropic_faults, openai_faults

from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.conversation.session import Session
from nbchat.conversation.turns import open_calls, safe_cuts
from nbchat.errors import RequestRefused
from nbchat.providers import anthropic as anthropic_wire
from nbchat.providers import openai_chat as openai_wire
from nbchat.providers.base import Request
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.wire_format import legal
from nbchat.testing import Line, ScriptedProvider, fails, says

TRAJECTORIES = read_trajectories()
COMPACTIONS = 10


def compacted(session: Session, engine: CompactionEngine, provider, trigger: str):
    """One compaction, committed as the agent does it; None when there is a reason."""
    plan = engine.plan(session, trigger=trigger)
    if plan.skip:
        return None
    record = finished(engine.compact(session, provider, plan))
    session.compactions.append(record)
    return record


def naming(request: Request) -> Line:
    """A summary that names a number of what it is asked about."""
    asked = "\n".join(f"{entry.content} {entry.tool_args}" for entry in request.history)
    numbers = re.findall(r"#?\b[A-Z]?\d{4,}\b", asked.partition("</transcript>")[0])
    return says(f"<summary>It went on with {numbers[:1]}.</summary>")


def wire_faults(session: Session, system: str) -> list[str]:
    """What either API would refuse in the next request."""
    history = tuple(legal(session.history))
    if history and history[-1].role == "assistant":
        history = (*history, history[-1]._replace(role="user", content="Go on."))
    request = Request(history, system, max_output_tokens=100)
    body = openai_wire.body(request)
    said = [m for m in body["messages"] if m["role"] not in ("system", "developer")]
    return openai_faults(said) + anthropic_faults(anthropic_wire.wire_messages(request))


@pytest.mark.slow
@pytest.mark.parametrize(("run", "keep"), in_turn(TRAJECTORIES[::2], [0, 1, 4, 9]))
def test_ten_compactions_keep_the_wire_legal_and_the_transcript_whole(
    run: Trajectory, keep: int
):
    provider = ScriptedProvider(*[naming] * 99)
    engine = CompactionEngine(policy=Policy("test", keep=keep))
    session = Session()
    size = max(1, len(run.entries) // COMPACTIONS)
    done, is_due = 0, False
    for place, entry in enumerate(run.entries, 1):
        session.append(entry)
        assert wire_faults(session, run.system) == []
        is_due = is_due or place % size == 0
        if is_due and not open_calls(session.history):
            is_due = False
            record = compacted(session, engine, provider, "manual")
            done += record is not None and record.status == "done"
            assert wire_faults(session, run.system) == []
    assert tuple(session.transcript) == run.entries
    assert done >= COMPACTIONS // 3
    newest = session.compaction
    assert session.history == [newest.entry, *run.entries[newest.stop :]]


@every("run", TRAJECTORIES)
def test_any_cut_of_a_real_conversation_leaves_two_legal_parts(run: Trajectory):
    history = list(run.entries)
    for cut in safe_cuts(history):
        assert legal(history[:cut]) == history[:cut]
        assert legal(history[cut:]) == history[cut:]


@pytest.mark.slow
@pytest.mark.parametrize("run", TRAJECTORIES[::2], ids=lambda run: run.name[:40])
def test_every_real_conversation_can_be_compacted_without_any_model(run: Trajectory):
    cut = max(safe_cuts(run.entries[: len(run.entries) * 3 // 4]))
    session = Session([*run.entries[:cut], READ])
    engine = CompactionEngine(info=ModelInfo("m", window=8_000))
    gone = ScriptedProvider(fails(RequestRefused("gone")))
    before = engine.tracker.context_tokens(session)
    record = compacted(session, engine, gone, "window")
    assert record.status == "degraded"
    assert engine.tracker.context_tokens(session) < before * 0.65
    assert wire_faults(session, run.system) == []


@every("run", TRAJECTORIES[::4])
def test_a_summary_request_fits_the_smallest_windows(run: Trajectory):
    for window in (2_000, 4_000, 8_192):
        info = ModelInfo("m", window=window, output_limit=400)
        engine = CompactionEngine(info=info)
        session = Session(run.entries)
        plan = engine.plan(session)
        request = engine.create_summary_request(plan)
        text = request.history[0].content
        assert engine.tracker.counter.count(text) + request.max_output_tokens < window
