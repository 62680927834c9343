"""Commands about the conversation and its context, which need the agent alone."""

import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from nbchat.agent.agent import Agent
from nbchat.chat.chat_events import ChatEvent, CommandReplied
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.summary_entry import rules_of
from nbchat.compaction.summary_format import summary_text
from nbchat.compaction.triggers.context_breakdown import (
    LABELS,
    ContextUsage,
    context_state,
)
from nbchat.config.layers import refuse_locked
from nbchat.conversation.session import Session, cost_rows, usage_text
from nbchat.conversation.turns import count_messages
from nbchat.errors import NbchatError
from nbchat.rendering.banners import compaction_text
from nbchat.storage.session_log import session_log, write_session_log

Stop = threading.Event | None

Reply = str | CommandReplied | Iterable[ChatEvent]
"""The return value of a command: a text, a table, or the events of what it does."""

Command = Callable[[Agent, str, Stop], Reply]

UNPIN = "/unpin needs the number of a rule. /pin lists them."
EXCLUDE, INCLUDE = (
    f"{command} needs the number of a message. /recall shows the numbers."
    for command in ("/exclude", "/include")
)
THRESHOLD = "/threshold needs a number of tokens, such as /threshold 50000."
PLAN = "/plan takes keep=N or upto=N, such as /plan keep=2000."
RECALL = "/recall needs words to look for, or the number of a message."

_AMOUNT = re.compile(r"(keep|upto)=(\d{1,9})(?:\s+|$)")


def _log(agent: Agent, file: str, _stop: Stop) -> str:
    window = agent.engine.tracker.info.window
    if not file:
        return session_log(agent.session, window)
    write_session_log(agent.session, Path(file), window)
    return f"Saved to {Path(file).resolve()}."


def _context(agent: Agent, _argument: str, _stop: Stop) -> CommandReplied:
    engine, session = agent.engine, agent.session
    plan = engine.plan(session)
    usage = agent.context_usage()
    input_tokens, threshold = engine.input_tokens, engine.tracker.due_at(session)
    rows = {
        "Model": agent.provider.name,
        "Policy": engine.policy.name,
        "Context": _context_size(usage) + _trigger(engine),
        **{
            f"  {LABELS[part]}": f"{tokens:,} tokens"
            for part, tokens in usage.parts_of_total.items()
        },
        "  answer": f"about {usage.response:,} tokens expected",
        "Since compaction": _of(input_tokens, threshold, "input tokens"),
        "Next compaction": engine.should_compact(session).reason,
        "Messages": _history_size(session, engine),
        "Last compaction": _last_compaction(session),
        "Pinned rules": f"{len(session.pins)}",
        **_costs(session),
        "Compact now": plan.skip or f"Leaves about {plan.tokens_after:,} tokens.",
    }
    text = "\n".join(f"{name:18} {text}" for name, text in rows.items())
    return CommandReplied(text, ("Context", "Now"), tuple(rows.items()))


def _history_size(session: Session, engine: CompactionEngine) -> str:
    state, total = context_state(session, engine.tracker), session.transcript
    return (
        f"{state.message_count} of {count_messages(total)} sent to the model"
        f"{', with a summary' if state.summary_count else ''}"
    )


def _costs(session: Session) -> dict[str, str]:
    """The tokens used, also by model and by compactions if there are several."""
    found = cost_rows(session)
    parts = {f"  {each.label or 'unknown'}": usage_text(each.usage) for each in found}
    total = {"Tokens used": usage_text(session.usage)}
    return {**total, **parts} if len(found) > 1 else total


def _context_size(usage: ContextUsage) -> str:
    size = _of(usage.total, usage.window, "tokens")
    return size if usage.share is None else f"{size} ({usage.share:.1%})"


def _trigger(engine: CompactionEngine) -> str:
    """The size at which it compacts, even while compaction is paused."""
    guard = engine.tracker.limits.guard
    if guard is None or engine.policy.meter == "off":
        return ""
    return f", compacts at {guard:,}"


def _last_compaction(session: Session) -> str:
    """The state of the newest compaction, with the reason if it is not active."""
    if not session.compactions:
        return "None yet"
    newest = session.compactions[-1]
    return f"{compaction_text(newest)}, at {newest.created_at[:19]}"


def _of(amount: int, limit: int | None, unit: str) -> str:
    return f"{amount:,}" + (f" of {limit:,}" if limit else "") + f" {unit}"


def _compact(agent: Agent, argument: str, stop: Stop) -> Reply:
    focus, keep, upto = _focus_and_amount(argument)
    return agent.compact(focus=focus, keep=keep, upto=upto, stop=stop)


def _plan(agent: Agent, argument: str, _stop: Stop) -> str:
    other, keep, upto = _focus_and_amount(argument)
    if other:
        raise NbchatError(PLAN)
    plan = agent.engine.plan(agent.session, keep=keep, upto=upto)
    if plan.skip:
        return f"Can't compact now. {plan.skip}"
    transcript = agent.session.transcript
    compacted = count_messages(transcript[plan.start : plan.stop])
    note = f" {plan.note}" if plan.note else ""
    return (
        f"A summary would replace {compacted} messages, and "
        f"{count_messages(transcript[plan.stop :])} would stay: "
        f"{plan.tokens_before:,} → about {plan.tokens_after:,} tokens.{note}"
    )


def _focus_and_amount(argument: str) -> tuple[str, int | None, int | None]:
    """The focus, and the number of a `keep=N` or of an `upto=N` before it."""
    found = _AMOUNT.match(argument)
    if found is None:
        return argument, None, None
    focus, number = argument[found.end() :], int(found[2])
    return (focus, number, None) if found[1] == "keep" else (focus, None, number)


def _recall(agent: Agent, query: str, _stop: Stop) -> str:
    if not query:
        raise NbchatError(RECALL)
    return agent.session.recall(query).text()


def _edit(agent: Agent, text: str, _stop: Stop) -> Reply:
    if text:
        return agent.edit_compaction(text)
    compaction = agent.session.compaction
    return (
        summary_text(compaction.summary)
        if compaction
        else "There's no summary to edit."
    )


def _pin(agent: Agent, text: str, _stop: Stop) -> Reply:
    if text:
        return agent.pin(text)
    lines = [f"{n}  {each}" for n, each in enumerate(agent.session.pins, 1)]
    return "\n".join(lines) or "No rules are pinned."


NO_RULES = (
    "No rules yet. When the conversation is compacted, the model quotes the rules in "
    "your messages, and they're listed here. To add one now, use /pin."
)


def _rules(agent: Agent, argument: str, _stop: Stop) -> Reply:
    """List the rules that a summary quotes of the person, drop one or keep one."""
    session = agent.session
    found = rules_of(session)
    rules, dropped = [rule.text for rule in found], session.dropped_rules
    if not argument:
        where = [f"#{rule.position}" for rule in found] + ["dropped"] * len(dropped)
        lines = [
            f"{number}  {' '.join(text.split())}  ({place})"
            for number, (text, place) in enumerate(
                zip([*rules, *dropped], where, strict=True), 1
            )
        ]
        return "\n".join(lines) or NO_RULES
    verb, _, number = argument.partition(" ")
    if verb not in ("drop", "keep") or not number.isdecimal():
        raise NbchatError("Use /rules, /rules drop N or /rules keep N.")
    at = int(number) - 1
    if not 0 <= at < len(rules) + len(dropped):
        raise NbchatError(f"There's no rule {number}. /rules lists them.")
    if (verb == "drop") != (at < len(rules)):
        state = "dropped" if verb == "drop" else "kept"
        raise NbchatError(f"Rule {number} is already {state}.")
    if verb == "drop":
        return agent.drop_rules([*dropped, rules[at]])
    kept = dropped[at - len(rules)]
    return agent.drop_rules(each for each in dropped if each != kept)


def _number(text: str, needed: str) -> int:
    if not text.isdecimal():
        raise NbchatError(needed)
    return int(text)


def _threshold(agent: Agent, tokens: str, _stop: Stop) -> str:
    policy = agent.engine.policy
    if policy.meter != "cumulative":
        return (
            f"The policy {policy.name} has no threshold of input tokens. /policy "
            "changes the policy."
        )
    if tokens:
        wanted = _number(tokens.replace(",", "").replace("_", ""), THRESHOLD)
        refuse_locked(context_token_threshold=wanted)
        agent.engine.tracker.set_threshold(wanted)
    threshold = agent.engine.context_token_threshold
    if threshold is None:
        return "No threshold. This policy goes by the size of the context alone."
    if agent.engine.tracker.limits.set_threshold is None:
        return f"Compacts at {threshold:,} input tokens, or later where that's cheaper."
    return f"Compacts at {threshold:,} input tokens."


CONTEXT_COMMANDS: dict[str, tuple[Command, str]] = {
    "context": (_context, "Show what's in the context and when it's compacted"),
    "compact": (
        _compact,
        "[keep=N|upto=N] [focus]  Compact now: keep N tokens, or up to message N",
    ),
    "summarize": (_compact, "[keep=N|upto=N] [focus]  Same as /compact"),
    "plan": (
        _plan,
        "[keep=N|upto=N]  Preview a compaction without running it",
    ),
    "recall": (
        _recall,
        "text or N  Search all messages, or show message N",
    ),
    "log": (_log, "[file]  Show the log of compactions, or save it as Markdown"),
    "undo": (
        lambda agent, _argument, _stop: agent.undo_compaction(),
        "Undo the last compaction",
    ),
    "redo": (
        lambda agent, _argument, _stop: agent.redo_compaction(),
        "Redo the last compaction you undid",
    ),
    "edit": (_edit, "[text]  Show the summary, or replace it with your own"),
    "regenerate": (
        lambda agent, focus, stop: agent.regenerate_compaction(focus=focus, stop=stop),
        "[focus]  Write the summary again",
    ),
    "pin": (_pin, "[text]  List the pinned rules, or pin one that compactions keep"),
    "unpin": (
        lambda agent, number, _stop: agent.unpin(_number(number, UNPIN)),
        "number  Unpin a rule",
    ),
    "rules": (
        _rules,
        "[use|ignore|drop N|keep N]  List your rules and the project's",
    ),
    "exclude": (
        lambda agent, number, _stop: agent.exclude(_number(number, EXCLUDE)),
        "N  Hide message N from the model without deleting it",
    ),
    "include": (
        lambda agent, number, _stop: agent.include(_number(number, INCLUDE)),
        "N  Show the model a hidden message again",
    ),
    "checkpoint": (
        lambda agent, text, _stop: agent.checkpoint(text),
        "text  Keep a note on the work word for word until the next checkpoint",
    ),
    "threshold": (_threshold, "[tokens]  Show or set when to compact"),
}
"""Commands that need the agent alone, with their arguments and help."""
