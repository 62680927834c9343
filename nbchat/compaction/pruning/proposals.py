"""Records that shorten tool outputs: of old ones together, or of one that just came."""

import uuid
from dataclasses import replace

from nbchat.compaction.policies import Policy
from nbchat.compaction.pruning.choice import Pruning, prune_text
from nbchat.history import RETRIEVAL, Compaction, prefix_hash
from nbchat.recall import TOOL_NAME
from nbchat.session import Session
from nbchat.tokens import TokenCounter


def newest_shortened(
    session: Session, policy: Policy, counter: TokenCounter
) -> Compaction | None:
    """The record that shortens the newest output before the model first sees it.

    None where the policy leaves outputs alone, and for one that should stay whole:
    small, an error, of a protected tool, or what the model has just had recalled.
    """
    place, entry = len(session.transcript) - 1, session.transcript[-1]
    if not policy.shortens_at_once or policy.verbosity == "debug":
        return None
    if entry.tool_name in (*policy.protected_tools, TOOL_NAME):
        return None
    text = prune_text(entry, counter, position=place)
    if text == entry.content:
        return None
    short = entry._replace(content=text)
    before, after = map(counter.count_entry, (entry, short))
    record = record_of(session, Pruning(((place, text),)), policy, trigger=RETRIEVAL)
    return replace(record, tokens_before=before, tokens_after=after)


def record_of(
    session: Session, pruning: Pruning, policy: Policy, *, trigger: str
) -> Compaction:
    """The record of what is seen shortened from now on, its figures to come."""
    stop = pruning.replacements[-1][0] + 1
    return Compaction(
        id=uuid.uuid4().hex[:12],
        start=pruning.replacements[0][0],
        stop=stop,
        summary="",
        trigger=trigger,
        policy=policy.name,
        prefix_hash=prefix_hash(session.transcript[:stop]),
        committed_at=len(session.transcript),
        kind="pruning",
        replacements=pruning.replacements,
    )
