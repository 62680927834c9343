"""Cases of CompactBench, and what the model sees of one after a compaction."""

import gzip
from collections.abc import Iterator
from pathlib import Path

from compactbench.contracts import EvaluationItem, GeneratedCase
from compactbench.dsl import DifficultyLevel, TemplateDefinition, parse_template_string
from compactbench.engine import EngineError, generate_case
from compactbench.scoring import run_check

from nbchat.agent.agent import Agent
from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.testing import ScriptedProvider, says

DATA = Path(__file__).parents[1] / "data" / "compactbench.yaml.gz"

EMPTY_STORY = "<summary>\nThey talked about a project.\n</summary>"
"""A summary that keeps nothing."""

QUOTED = ("forbidden_behavior_retention", "locked_decision_retention")
"""The kinds of checks for which a rule or a decision must be readable."""


def templates() -> list[TemplateDefinition]:
    """The templates, in the order of their names."""
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        return [parse_template_string(text) for text in file.read().split("\n---\n")]


def cases(template: TemplateDefinition, seeds: int) -> Iterator[GeneratedCase]:
    """The cases of a template, at each difficulty it has."""
    for difficulty in DifficultyLevel:
        for seed in range(seeds):
            try:
                yield generate_case(template, seed, difficulty)
            except EngineError:
                break  # the template has no such difficulty


def history_after(case: GeneratedCase, policy: str) -> str:
    """What the model sees after all turns of a case were compacted."""
    entries = [Entry(turn.role.value, turn.content) for turn in case.transcript.turns]
    session = Session([*entries, Entry("assistant", "All right.")])
    agent = Agent(
        ScriptedProvider(*[says(EMPTY_STORY)] * 6),
        session=session,
        engine=CompactionEngine(policy=policy),
    )
    list(agent.compact(keep=0))
    assert session.compaction is not None, case.case_id
    return "\n".join(entry.content for entry in session.history)


def group_of(case: GeneratedCase, item: EvaluationItem) -> str:
    """What a check is about: rules, decisions, references, others, or replaced.

    Empty for checks of an answer, which no model gives here.
    """
    is_override = case.template_key.startswith("decision_override")
    if item.expected["check"] != "contains_normalized":
        return "replaced" if is_override else ""
    if item.item_type not in QUOTED:
        return "others"
    if is_override:
        return "decisions"
    return "rules" if case.template_key.startswith("buried") else "references"


def passed(item: EvaluationItem, view: str) -> bool:
    """True if a check passes on what the model sees."""
    return run_check(item.expected, view) == 1
