"""The commands of a chat, such as /compact and /undo, and what each of them does."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import not_mentioned
from nbchat.chat.runner import ChatEvent, CommandReplied
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.markup import summary_text
from nbchat.compaction.policies import PRESETS
from nbchat.compaction.triggers.context_breakdown import ContextUsage
from nbchat.config.factory import recorder
from nbchat.config.layers import refuse_locked
from nbchat.config.live_changes import LiveSettings
from nbchat.config.preferences import scopes_of
from nbchat.config.settings import NbChat
from nbchat.conversation.costs import cost_rows, usage_text
from nbchat.conversation.entries import Entry
from nbchat.conversation.events import Branched, Event, SavingFailed
from nbchat.conversation.session import Session
from nbchat.conversation.turns import attachments_start, count_messages
from nbchat.errors import ConfigError, NbchatError, SessionTaken, StoreError
from nbchat.providers.connect import KINDS
from nbchat.rendering.banners import compaction_text
from nbchat.storage.recorder import Recorder
from nbchat.storage.session_log import session_log, write_session_log
from nbchat.storage.store import SessionStore

Stop = threading.Event | None

Reply = str | Iterable[ChatEvent]
"""What a command returns: a text, or the events of what it does."""

Command = Callable[[Agent, str, Stop], Reply]

_AMOUNT = re.compile(r"(keep|upto)=(\d{1,9})(?:\s+|$)")


class Commands:
    """The commands of one chat."""

    def __init__(
        self, store: SessionStore, settings: LiveSettings | NbChat | None = None
    ) -> None:
        """Sessions are kept in `store`.

        Without `settings` they are read when a command first needs them.
        """
        if not isinstance(settings, LiveSettings):
            settings = LiveSettings(store, settings)
        self._store, self._live_settings = store, settings
        self.table: dict[str, tuple[Command, str]] = {
            "help": (self._help, "list the commands"),
            **CONTEXT_COMMANDS,
            **self._session_commands(),
            **self._settings_commands(),
        }

    def __call__(
        self, agent: Agent, line: str, stop: Stop = None
    ) -> Iterable[ChatEvent]:
        """Run `/name argument`; raises NbchatError if that is not possible.

        Setting `stop` ends what the command has the model do.
        """
        name, *argument = line.strip().removeprefix("/").split(maxsplit=1) or [""]
        if name not in self.table:
            known = ", ".join(f"/{each}" for each in self.table)
            raise ConfigError(f"unknown command: /{name}. Choose one of: {known}")
        reply = self.table[name][0](agent, "".join(argument), stop)
        return [CommandReplied(reply)] if isinstance(reply, str) else reply

    @property
    def help_lines(self) -> dict[str, str]:
        """The arguments of each command and its help, separated by two spaces."""
        return {name: text for name, (_, text) in self.table.items()}

    def branch(
        self,
        agent: Agent,
        position: int,
        text: str,
        *,
        attached: Sequence[Entry] | None = None,
        stop: Stop = None,
    ) -> Iterator[ChatEvent]:
        """Continue from the message at `position`, in a new session.

        A blank `text` sends the message again. `attached` replaces what the message
        mentioned; None keeps all of its attachments.
        """
        old = agent.session
        kept = old.branch(position)  # refuses a position without a message
        prompt = text if text.strip() else old.transcript[position].content
        if attached is not None:
            start = attachments_start(old.transcript, position)
            kept = old.branch(position, start)
            attachments = old.transcript[start:position]
            others = not_mentioned(old.transcript[position], attachments)
            attached = [*others, *attached]
        unsaved = self._save(agent)
        self._switch(agent, kept)
        turn = agent.run(prompt, stop=stop, attached=attached or ())
        return _branched(old, unsaved, turn)

    def _session_commands(self) -> dict[str, tuple[Command, str]]:
        return {
            "again": (
                self._again,
                "[text]  answer the last message again, or send another text instead",
            ),
            "branch": (
                self._branch,
                "position text  continue from an earlier message with another text",
            ),
            "log": (_log, "[file]  show or save the log of compactions, as Markdown"),
            "import": (self._import, "id  continue from another session's summary"),
            "new": (self._new, "start another session; this one is kept"),
            "sessions": (self._sessions, "list the sessions"),
            "resume": (self._resume, "id  continue a session"),
            "delete": (self._delete, "id  delete a session permanently"),
        }

    def _settings_commands(self) -> dict[str, tuple[Command, str]]:
        return {
            "model": (self._model, "[provider:name]  show or change the model"),
            "policy": (self._policy, "[name]  show or change how this chat compacts"),
            "settings": (
                self._settings,
                "list the settings, and where each value comes from",
            ),
            "set": (self._set, "name value [for model or provider]  store a setting"),
        }

    def _help(self, _agent: Agent, _argument: str, _stop: Stop) -> str:
        return "\n".join(f"/{name} {text}" for name, text in self.help_lines.items())

    def _new(self, agent: Agent, _argument: str, _stop: Stop) -> Reply:
        unsaved = self._save(agent)
        self._switch(agent, Session())
        reply = "started a new session; /sessions lists the earlier ones"
        return [CommandReplied(reply), *unsaved]

    def _sessions(self, _agent: Agent, _argument: str, _stop: Stop) -> str:
        found = self._store.sessions()
        lines = [f"{s.id}  {s.used_at[:16]}  {s.messages:4}  {s.title}" for s in found]
        return "\n".join(lines) or "there are no sessions yet"

    def _resume(self, agent: Agent, session_id: str, _stop: Stop) -> Reply:
        unsaved = self._save(agent)
        self._switch(agent, self._store.load(session_id))
        return [CommandReplied(f"resumed {agent.session!r}"), *unsaved]

    def _delete(self, agent: Agent, session_id: str, _stop: Stop) -> str:
        if session_id == agent.session.session_id:
            raise NbchatError(
                "the current session cannot be deleted; start another with /new first"
            )
        self._store.delete(session_id)
        return f"session {session_id} was deleted"

    def _save(self, agent: Agent) -> list[Event]:
        """Save the whole session before another one starts; an error is an event.

        It may never have been saved, or not while its store was out of order. That
        another kernel took it over was reported when it happened.
        """
        with agent.alone():
            keeper = agent.recorder
            if not agent.session.session_id:
                keeper = self._recorder(agent, agent.session)
            try:
                if keeper is not None:
                    keeper.save()
            except SessionTaken:
                return []
            except StoreError as error:
                return [SavingFailed(str(error))]
        return []

    def _switch(self, agent: Agent, session: Session) -> None:
        """Continue in another session, which is saved in this store."""
        agent.switch(session, self._recorder(agent, session))

    def _recorder(self, agent: Agent, session: Session) -> Recorder:
        folder = self._live_settings.config.log_folder
        return recorder(self._store, session, agent, log_folder=folder)

    def _again(self, agent: Agent, text: str, stop: Stop) -> Reply:
        if agent.can_retry and not text:
            return agent.retry(stop=stop)
        return self.branch(agent, agent.session.last_prompt, text, stop=stop)

    def _branch(self, agent: Agent, argument: str, stop: Stop) -> Reply:
        position, _, text = argument.partition(" ")
        if not position.isdecimal():
            raise NbchatError(
                "/branch takes the position of one of your messages and a text, not "
                f"{position!r}; /recall and the history show the positions"
            )
        return self.branch(agent, int(position), text, stop=stop)

    def _import(self, agent: Agent, session_id: str, _stop: Stop) -> Reply:
        return agent.import_summary(self._store.load(session_id))

    def _model(self, agent: Agent, name: str, _stop: Stop) -> str:
        if name:
            self._live_settings.use_model(agent, name)
        return agent.provider.name

    def _policy(self, agent: Agent, name: str, _stop: Stop) -> str:
        """Choose for this chat alone; `/set policy` stores it."""
        if name:
            self._live_settings.use_policy(agent, name)
        engine = agent.engine
        others = ", ".join(each for each in PRESETS if each != engine.policy.name)
        due = engine.should_compact(agent.session).reason
        return f"{engine.policy.name}: {due}\nothers: {others}"

    def _settings(self, agent: Agent, _argument: str, _stop: Stop) -> str:
        rows = self._live_settings.listed(agent.provider.name)
        lines = (f"{r.name:24}{r.value or '-':20}{r.origin}" for r in rows)
        return "\n".join(lines)

    def _set(self, agent: Agent, argument: str, _stop: Stop) -> str:
        name, text, scope = _setting_of(argument, agent.provider.name)
        if not text:
            raise NbchatError(
                "/set takes a name, a value and optionally a provider or model: "
                f"/set keep 5 for {agent.provider.name}"
            )
        return self._live_settings.set(agent, name, text, scope)


def _branched(
    old: Session, unsaved: Iterable[Event], turn: Iterator[Event]
) -> Iterator[ChatEvent]:
    yield from unsaved
    yield Branched(old.session_id)
    yield from turn


def _setting_of(argument: str, model: str) -> tuple[str, str, str]:
    """Name, value and scope of a setting; the value may contain a "for" too."""
    name, _, text = argument.strip().partition(" ")
    value, _, scope = text.rpartition(" for ")
    scope = scope.strip()
    is_provider = scope in KINDS or scope in scopes_of(model)
    if value and " " not in scope and (is_provider or ":" in scope):
        return name, value.strip(), scope
    return name, text.strip(), ""


def _log(agent: Agent, file: str, _stop: Stop) -> str:
    window = agent.engine.tracker.info.window
    if not file:
        return session_log(agent.session, window)
    write_session_log(agent.session, Path(file), window)
    return f"written to {Path(file).resolve()}"


def _context(agent: Agent, _argument: str, _stop: Stop) -> str:
    engine, session = agent.engine, agent.session
    plan = engine.plan(session)
    usage = agent.context_usage()
    input_tokens, threshold = engine.input_tokens, engine.context_token_threshold
    rows = {
        "model": agent.provider.name,
        "policy": engine.policy.name,
        "context": _context_size(usage) + _trigger(engine),
        **{f"  {name}": f"{tokens:,} tokens" for name, tokens in usage.parts.items()},
        "since compaction": _of(input_tokens, threshold, "input tokens"),
        "automatic": engine.should_compact(session).reason,
        "history": _history_size(session),
        "last compaction": _last_compaction(session),
        "pinned": f"{len(session.pins)} rules; /pin lists them",
        **_costs(session),
        "compact now": plan.skip or f"would leave about {plan.tokens_after:,} tokens",
    }
    return "\n".join(f"{name:16} {text}" for name, text in rows.items())


def _history_size(session: Session) -> str:
    sent, total = count_messages(session.history), count_messages(session.transcript)
    made = len(session.active_compactions)
    return f"{sent} of {total} messages are sent to the model, {made} compactions"


def _costs(session: Session) -> dict[str, str]:
    """The tokens used, also by model and by compactions if there are several."""
    found = cost_rows(session)
    parts = {f"  {each.label or 'unknown'}": usage_text(each.usage) for each in found}
    total = {"tokens used": usage_text(session.usage)}
    return {**total, **parts} if len(found) > 1 else total


def _context_size(usage: ContextUsage) -> str:
    size = _of(usage.total, usage.window, "tokens")
    return size if usage.share is None else f"{size} ({usage.share:.1%})"


def _trigger(engine: CompactionEngine) -> str:
    """The size at which it compacts, even while compaction is paused."""
    guard = engine.tracker.limits.guard
    if guard is None or engine.policy.meter == "off":
        return ""
    return f"; compacts at {guard:,}"


def _last_compaction(session: Session) -> str:
    """The state of the newest compaction, with the reason if it is not active."""
    if not session.compactions:
        return "none"
    newest = session.compactions[-1]
    return f"{compaction_text(newest)}, at {newest.created_at[:19]}"


def _of(amount: int, limit: int | None, unit: str) -> str:
    return f"{amount:,} {unit}" + (f" of {limit:,}" if limit else "")


def _compact(agent: Agent, argument: str, stop: Stop) -> Reply:
    focus, keep, upto = _focus_and_amount(argument)
    return agent.compact(focus=focus, keep=keep, upto=upto, stop=stop)


def _plan(agent: Agent, argument: str, _stop: Stop) -> str:
    _, keep, upto = _focus_and_amount(argument)
    plan = agent.engine.plan(agent.session, keep=keep, upto=upto)
    if plan.skip:
        return f"cannot compact now: {plan.skip}"
    transcript = agent.session.transcript
    compacted = count_messages(transcript[plan.start : plan.stop])
    note = f" ({plan.note})" if plan.note else ""
    return (
        f"{compacted} messages would be compacted into a summary, "
        f"{count_messages(transcript[plan.stop :])} would stay as they are: "
        f"{plan.tokens_before:,} → about {plan.tokens_after:,} tokens{note}"
    )


def _focus_and_amount(argument: str) -> tuple[str, int | None, int | None]:
    """The focus, and the number of a `keep=N` or of an `upto=N` before it."""
    found = _AMOUNT.match(argument)
    if found is None:
        return argument, None, None
    focus, number = argument[found.end() :], int(found[2])
    return (focus, number, None) if found[1] == "keep" else (focus, None, number)


def _recall(agent: Agent, query: str, _stop: Stop) -> str:
    return agent.session.recall(query).text()


def _undo(agent: Agent, _argument: str, _stop: Stop) -> Reply:
    return agent.undo_compaction()


def _redo(agent: Agent, _argument: str, _stop: Stop) -> Reply:
    return agent.redo_compaction()


def _edit(agent: Agent, text: str, _stop: Stop) -> Reply:
    if text:
        return agent.edit_compaction(text)
    compaction = agent.session.compaction
    return summary_text(compaction.summary) if compaction else "no summary to edit"


def _regenerate(agent: Agent, focus: str, stop: Stop) -> Reply:
    return agent.regenerate_compaction(focus=focus, stop=stop)


def _pin(agent: Agent, text: str, _stop: Stop) -> Reply:
    if text:
        return agent.pin(text)
    lines = [f"{n}  {each}" for n, each in enumerate(agent.session.pins, 1)]
    return "\n".join(lines) or "nothing is pinned"


def _unpin(agent: Agent, number: str, _stop: Stop) -> Reply:
    if not number.isdecimal():
        raise NbchatError(f"/unpin takes a number that /pin lists, not {number!r}")
    return agent.unpin(int(number))


def _exclude(agent: Agent, position: str, _stop: Stop) -> Reply:
    return agent.exclude(_position("/exclude", position))


def _include(agent: Agent, position: str, _stop: Stop) -> Reply:
    return agent.include(_position("/include", position))


def _position(command: str, text: str) -> int:
    if not text.isdecimal():
        raise NbchatError(
            f"{command} takes the position of a message, not {text!r}; /recall and the "
            "history show the positions"
        )
    return int(text)


def _checkpoint(agent: Agent, text: str, _stop: Stop) -> Reply:
    return agent.checkpoint(text)


def _threshold(agent: Agent, tokens: str, _stop: Stop) -> str:
    policy = agent.engine.policy
    if policy.meter != "cumulative":
        return (
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
        return "no threshold: the model's window is not known"
    return f"compacts at {threshold:,} input tokens"


CONTEXT_COMMANDS: dict[str, tuple[Command, str]] = {
    "context": (_context, "show what the context contains, and when it is compacted"),
    "compact": (
        _compact,
        "[keep=N|upto=N] [focus]  compact now; keep the newest N tokens, or up to #N",
    ),
    "summarize": (_compact, "[keep=N|upto=N] [focus]  the same as /compact"),
    "plan": (
        _plan,
        "[keep=N|upto=N]  show what a compaction would do; calls no model",
    ),
    "recall": (_recall, "text or position  search all messages, compacted ones too"),
    "undo": (_undo, "undo the last compaction"),
    "redo": (_redo, "redo the compaction that was undone last"),
    "edit": (_edit, "[text]  show the summary, or replace it with your own"),
    "regenerate": (_regenerate, "[focus]  write the summary again"),
    "pin": (_pin, "[text]  list the pinned rules, or pin one; compactions keep them"),
    "unpin": (_unpin, "number  remove a pinned rule"),
    "exclude": (
        _exclude,
        "position  exclude a message from the context; nothing is deleted",
    ),
    "include": (_include, "position  include an excluded message again"),
    "checkpoint": (
        _checkpoint,
        "text  keep the state of the work word for word, until the next checkpoint",
    ),
    "threshold": (_threshold, "[tokens]  show or set when to compact"),
}
"""Commands that need the agent alone, with their arguments and help."""
