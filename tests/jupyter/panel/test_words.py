"""The panel's words: one for each thing, and none of its own making."""

import re
from pathlib import Path

import pytest

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import PRESETS
from nbchat.conversation.entries import Compaction, Entry
from nbchat.conversation.session import Session
from nbchat.jupyter.panel import frontend
from nbchat.jupyter.panel.queries import context_parts
from nbchat.rendering.banners import divider_html
from nbchat.testing import ScriptedProvider

MODULES = sorted((Path(frontend.__file__).parent / "src").glob("*.js"))

JARGON = re.compile(
    r"(?<!\.)\b(folds?|folded|summarize\w*|summarization|leave out|omitted|entries"
    r"|at the latest|the guard|the mark|meter stands|as it says)\b",
    re.IGNORECASE,
)
"""What is said otherwise: compact, exclude, message, reach a size; not `Object.entries`."""

COMMENT = re.compile(r"^\s*//.*$|/\*\*[\s\S]*?\*/", re.MULTILINE)

TEXT = re.compile(r'"([^"\n]* [^"\n]*)"|`([^`]* [^`]*)`')
"""A string of several words: what a person reads, not what the program compares."""


@pytest.mark.slow
def test_the_front_end_says_compact_exclude_and_message() -> None:
    texts = [
        (file.name, "".join(found))
        for file in MODULES
        for found in TEXT.findall(COMMENT.sub("", file.read_text(encoding="utf-8")))
    ]
    assert len(texts) > 200
    assert [each for each in texts if JARGON.search(each[1])] == []


@pytest.mark.parametrize("policy", [*PRESETS])
def test_what_is_said_of_a_compaction_has_no_jargon(policy: str) -> None:
    said = [Entry("user", "Hello? " * 500), Entry("assistant", "Yes. " * 500)] * 3
    record = Compaction("c", 0, 4, "<summary>Hello.</summary>", committed_at=4)
    session = Session(said, compactions=[record])
    provider = ScriptedProvider(window=8_000)
    agent = Agent(provider, session=session, engine=CompactionEngine(policy=policy))
    assert not JARGON.search(context_parts(agent).outlook)
    assert not JARGON.search(divider_html(record))
