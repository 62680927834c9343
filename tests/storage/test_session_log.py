"""The log of changes to the context, and its statistics."""

from pathlib import Path

import pytest

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.storage.session_log import monitoring, session_log, write_session_log
from nbchat.testing import ScriptedProvider, says

LONG = "The customer asks about order W100 and its parcel. " * 40


def compacted(*lines, policy: str = "single-summary") -> Agent:
    said = Session(
        [("user", LONG), ("assistant", "ok"), ("user", "b"), ("assistant", LONG)]
    )
    good = says("<summary>They asked about W100.</summary>")
    agent = Agent(
        ScriptedProvider(*(lines or (good,))),
        engine=CompactionEngine(policy=policy),
        session=said,
    )
    list(agent.compact())
    return agent


def test_a_change_is_listed_with_before_after_and_savings():
    session = compacted().session
    record = session.compaction
    before, after = record.tokens_before, record.tokens_after
    log = session_log(session, 8_000)
    assert log.startswith("# SESSION_LOG\n\n## Token Usage @ 20")
    assert (
        f"Summarized 4 messages → 1 summary (saved ~{before - after:,} tokens)" in log
    )
    assert f"- Pre-summarization: {before:,} / 8,000 ({before / 8_000:.1%})" in log
    assert f"- Post-summarization: {after:,} / 8,000 ({after / 8_000:.1%})" in log
    assert f"- Savings: {before - after:,} tokens" in log
    assert "- Compactions: 1 (0 without a model, 0 failed; 100% successful)" in log


def test_failures_and_undone_changes_are_listed():
    agent = compacted(says("no"), says("no"), says("no"), says("no"))
    assert "Failed, the history is unchanged" in session_log(agent.session)
    assert monitoring(agent.session).success_share == 0
    done = compacted()
    list(done.undo_compaction())
    assert "Undone: summarized 4 messages" in session_log(done.session)


def test_without_a_window_sizes_are_tokens():
    log = session_log(compacted().session)
    assert " / " not in log.split("## Monitoring")[0]


def test_a_session_without_changes_has_statistics_of_zero():
    log = session_log(Session([("user", "hi")]))
    assert "- Compactions: 0\n" in log
    assert "- Tokens saved: 0" in log
    assert monitoring(Session()).success_share == 1.0


def test_the_log_is_written_to_a_file_or_refused_in_one_line(tmp_path: Path):
    session = compacted().session
    write_session_log(session, tmp_path / "SESSION_LOG.md")
    assert (tmp_path / "SESSION_LOG.md").read_text() == session_log(session)
    with pytest.raises(NbchatError, match="Can't write"):
        write_session_log(session, tmp_path / "missing" / "log.md")
