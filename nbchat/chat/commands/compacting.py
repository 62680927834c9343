"""Commands about the context: what it holds, what is folded, what is kept."""

import re

from nbchat.agent.agent import Agent
from nbchat.chat.commands.result import Command, CommandResult, Stop
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.markup import story
from nbchat.compaction.policies import PRESETS
from nbchat.compaction.triggers.context_breakdown import ContextUsage
from nbchat.config.settings import refuse_locked
from nbchat.conversation.costs import cost_rows, usage_text
from nbchat.conversation.session import Session
from nbchat.errors import NbchatError
from nbchat.rendering.banners import compaction_text

_KEEP = re.compile(r"keep=(\d{1,9})(?:\s+|$)")


def _context(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    engine, session = agent.engine, agent.session
    plan = engine.plan(session)
    held = agent.context_usage()
    rows = {
        "model": agent.provider.name,
        "policy": engine.policy.name,
        "context": _context_size(held) + _trigger(engine),
        **{f"  {name}": f"{tokens:,} tokens" for name, tokens in held.parts.items()},
        "since compaction": _of(
            engine.input_tokens, engine.context_token_threshold, "input tokens"
        ),
        "automatic": engine.should_compact(session).reason,
        "history": f"{len(session.history)} entries of {len(session.transcript)} ever "
        f"said, {len(session.active_compactions)} compactions",
        "last compaction": _last(session),
        "pinned": f"{len(session.pins)} rules; /pin lists them",
        **_spent(session),
        "compact now": plan.skip or f"would leave about {plan.tokens_after:,} tokens",
    }
    return CommandResult("\n".join(f"{name:16} {text}" for name, text in rows.items()))


def _spent(session: Session) -> dict[str, str]:
    """What was used; where by several, also by each model and by compactions."""
    found = cost_rows(session)
    parts = {f"  {each.label or 'unknown'}": usage_text(each.usage) for each in found}
    total = {"tokens used": usage_text(session.usage)}
    return {**total, **parts} if len(found) > 1 else total


def _context_size(held: ContextUsage) -> str:
    size = _of(held.total, held.window, "tokens")
    return size if held.share is None else f"{size} ({held.share:.1%})"


def _trigger(engine: CompactionEngine) -> str:
    """At what size it compacts, whether or not it rests now."""
    guard = engine.tracker.limits.guard
    if guard is None or engine.policy.meter == "off":
        return ""
    return f"; compacts at {guard:,}"


def _last(session: Session) -> str:
    """What became of the newest compaction, and why, when it is not in force."""
    if not session.compactions:
        return "none"
    newest = session.compactions[-1]
    return f"{compaction_text(newest)}, at {newest.created_at[:19]}"


def _of(amount: int, limit: int | None, unit: str) -> str:
    return f"{amount:,} {unit}" + (f" of {limit:,}" if limit else "")


def _compact(agent: Agent, argument: str, stop: Stop) -> CommandResult:
    focus, keep = _kept(argument)
    return CommandResult(events=agent.compact(focus=focus, keep=keep, stop=stop))


def _plan(agent: Agent, argument: str, _stop: Stop) -> CommandResult:
    _, keep = _kept(argument)
    plan = agent.engine.plan(agent.session, keep=keep)
    if plan.skip:
        return CommandResult(f"nothing would be compacted: {plan.skip}")
    note = f" ({plan.note})" if plan.note else ""
    return CommandResult(
        f"{plan.stop - plan.start} entries would be folded into a summary, "
        f"{len(agent.session.transcript) - plan.stop} would stay as they are: "
        f"{plan.tokens_before:,} → about {plan.tokens_after:,} tokens{note}"
    )


def _kept(argument: str) -> tuple[str, int | None]:
    """The focus, and the newest tokens to keep if `keep=N` stands before it."""
    found = _KEEP.match(argument)
    if found is None:
        return argument, None
    return argument[found.end() :], int(found[1])


def _recall(agent: Agent, query: str, _stop: Stop) -> CommandResult:
    return CommandResult(agent.session.recall(query).text())


def _undo(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.undo_compaction())


def _redo(agent: Agent, _argument: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.redo_compaction())


def _edit(agent: Agent, text: str, _stop: Stop) -> CommandResult:
    if text:
        return CommandResult(events=agent.edit_compaction(text))
    compaction = agent.session.compaction
    return CommandResult(
        story(compaction.summary) if compaction else "there is no summary to edit"
    )


def _regenerate(agent: Agent, focus: str, stop: Stop) -> CommandResult:
    return CommandResult(events=agent.regenerate_compaction(focus=focus, stop=stop))


def _pin(agent: Agent, text: str, _stop: Stop) -> CommandResult:
    if text:
        return CommandResult(events=agent.pin(text))
    lines = [f"{n}  {each}" for n, each in enumerate(agent.session.pins, 1)]
    return CommandResult("\n".join(lines) or "nothing is pinned")


def _unpin(agent: Agent, number: str, _stop: Stop) -> CommandResult:
    if not number.isdecimal():
        raise NbchatError(f"/unpin takes a number that /pin lists, not {number!r}")
    return CommandResult(events=agent.unpin(int(number)))


def _exclude(agent: Agent, place: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.exclude(_place("/exclude", place)))


def _include(agent: Agent, place: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.include(_place("/include", place)))


def _place(command: str, text: str) -> int:
    if not text.isdecimal():
        raise NbchatError(
            f"{command} takes the place of a message, as /recall and the history show "
            f"it, not {text!r}"
        )
    return int(text)


def _checkpoint(agent: Agent, text: str, _stop: Stop) -> CommandResult:
    return CommandResult(events=agent.checkpoint(text))


def policy_text(agent: Agent) -> str:
    """The policy in force, when it compacts next, and which others there are."""
    engine = agent.engine
    others = ", ".join(each for each in PRESETS if each != engine.policy.name)
    due = engine.should_compact(agent.session).reason
    return f"{engine.policy.name}: {due}\nothers: {others}"


def _threshold(agent: Agent, tokens: str, _stop: Stop) -> CommandResult:
    policy = agent.engine.policy
    if policy.meter != "cumulative":
        return CommandResult(
            f"the policy {policy.name!r} has no threshold: its meter is {policy.meter}"
        )
    if tokens:
        try:
            wanted = int(tokens.replace(",", "").replace("_", ""))
        except ValueError:
            raise NbchatError(
                f"/threshold takes a number of tokens, not {tokens!r}"
            ) from None
        refuse_locked(context_token_threshold=wanted)
        agent.engine.tracker.set_threshold(wanted)
    threshold = agent.engine.context_token_threshold
    if threshold is None:
        return CommandResult("no threshold: the model's window is not known")
    return CommandResult(f"compacts at {threshold:,} input tokens")


TABLE: dict[str, tuple[Command, str]] = {
    "context": (_context, "what the context holds, and when it is compacted"),
    "compact": (_compact, "[keep=N] [focus]  compact now; keep the newest N tokens"),
    "summarize": (_compact, "[keep=N] [focus]  the same"),
    "plan": (_plan, "[keep=N]  what a compaction would do now; calls no model"),
    "recall": (_recall, "text or number  what was said, folded or not"),
    "undo": (_undo, "take back the last compaction"),
    "redo": (_redo, "bring back what was undone last"),
    "edit": (_edit, "[text]  show the summary, or put your own in its place"),
    "regenerate": (_regenerate, "[focus]  have the summary written anew"),
    "pin": (_pin, "[text]  list the rules, or add one no compaction touches"),
    "unpin": (_unpin, "number  let a rule go"),
    "exclude": (_exclude, "place  keep a message from the model; nothing is deleted"),
    "include": (_include, "place  let the model see it again"),
    "checkpoint": (_checkpoint, "text  keep the state of the work, until the next one"),
    "threshold": (_threshold, "[tokens]  show or set when to compact"),
}
"""Each command with what it takes and does."""
