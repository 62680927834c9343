"""Answers to queries of views, each on its own thread.

A query may come while a cell or a turn runs, and rendering a page of history may take a
second, during which a click on Stop must not wait. Few change anything: a key, a model.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, fields
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nbchat.agent.agent import Agent
from nbchat.agent.mcp import ServerState, tool_line
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.attachments.short_repr import comes_from
from nbchat.compaction.plan import Plan
from nbchat.compaction.summarizer.reply_validation import is_marked
from nbchat.compaction.summary_format import summary_facts, summary_text
from nbchat.compaction.triggers.context_breakdown import context_usage
from nbchat.config.api_keys import KEY_VARIABLES, Place
from nbchat.config.policy_and_models import model_of
from nbchat.conversation.entries import Compaction, Entry, Usage
from nbchat.conversation.live_variables import is_fit, type_name
from nbchat.conversation.search import LONGEST_QUERY, excerpt
from nbchat.conversation.session import Session, cost_rows
from nbchat.conversation.values import Value, ValueIndex, values
from nbchat.errors import NbchatError
from nbchat.jupyter.panel import protocol
from nbchat.jupyter.panel.previews import Previews
from nbchat.providers.connect import EMBEDDED_MODEL
from nbchat.providers.model_download import WEIGHTS, is_fetched
from nbchat.providers.model_info import ModelInfo
from nbchat.providers.sdk_provider import SdkProvider
from nbchat.rendering.banners import compaction_html
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import (
    beginning_html,
    memory_html,
    part_end,
    part_html,
    summary_text_html,
)
from nbchat.storage.saved_settings import SettingInForce

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from nbchat.chat.models import KnownModel, KnownProvider, Models
    from nbchat.jupyter.notebook_context import NotebookContext
    from nbchat.storage.branches import Branch
    from nbchat.storage.serialization import SessionInfo

logger = logging.getLogger(__name__)

BY_CODE = "The code that created this chat sets its model."

Send = Callable[[dict[str, Any]], None]

Made = TypeVar("Made", bound="DataclassInstance")

Settings = Callable[[Agent], Iterable[SettingInForce]]
"""Lists the settings for an agent's model."""

CommandList = Callable[[], Mapping[str, str]]
"""Lists commands with their arguments and help, as `/help` shows them."""


class Store(Protocol):
    """A store of sessions."""

    def count_sessions(self) -> int:
        """How many sessions there are."""

    def sessions(self, *, query: str, limit: int) -> "Sequence[SessionInfo]":
        """Sessions with any word of a query, best first; or all, last used first."""

    def load(self, session_id: str) -> Session:
        """A session with all of its messages; raises NbchatError without one."""

    def family(self, session_id: str) -> "Sequence[Branch]":
        """A session and those that share messages with it; none if it is unknown."""


class UseKey(Protocol):
    """Continues a chat with a key that a person typed."""

    def __call__(self, agent: Agent, kind: str, key: str, /) -> Place:
        """Says where the key is kept; raises NbchatError."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries of the views of one panel, with the functions that answer them."""

    previews: Previews
    commands: CommandList
    settings: Settings | None = None
    store: Callable[[], Store] | None = None
    resolver: Resolver | None = None
    use_key: UseKey | None = None
    send_key: Callable[[Agent], None] | None = None
    models: "Callable[[], Models] | None" = None
    refresh: Callable[[], None] = lambda: None
    """Shows what a question has changed of the agent."""
    servers: Callable[[], Iterable[ServerState]] | None = None
    notebook: "NotebookContext | None" = None

    def answer(self, agent: Agent, question: protocol.Question) -> protocol.Answer:
        """The answer to a question; raises NbchatError where there is none."""
        found = (
            self._of_session(agent, question)
            or self._of_typing(agent, question)
            or self._of_store(agent, question)
            or self._of_models(agent, question)
        )
        if isinstance(found, protocol.KeyUsed | protocol.ModelChosen):
            self.refresh()
        return found or protocol.Refused(BY_CODE)

    def _of_session(
        self, agent: Agent, question: protocol.Question
    ) -> protocol.Answer | None:
        found: protocol.Answer | None = None
        match question:
            case protocol.Plan(_, keep, upto):
                found = compaction_plan(agent, keep, upto)
            case protocol.Context():
                found = context_parts(agent)
            case protocol.Summary():
                found = current_summary(agent)
            case protocol.Memory():
                found = memory_view(agent)
            case protocol.Knows():
                found = notebook_known(agent, self.notebook, question)
            case protocol.History(_, query, before):
                found = history_page(agent.session, query, before=before)
            case protocol.Message(_, position, start):
                found = message_text(agent.session, position, start=start)
        return found

    def _of_typing(
        self, agent: Agent, question: protocol.Question
    ) -> protocol.Answer | None:
        found: protocol.Answer | None = None
        match question:
            case protocol.Mentions(_, text, pasted):
                found = self.previews.mentioned(agent, text, pasted)
            case protocol.Preview(_, key):
                found = self.previews.previewed(agent, key)
            case protocol.Upload(_, name, media_type, data):
                found = self.previews.uploaded(agent, name, media_type, data)
            case protocol.Paths(_, start) if self.resolver is not None:
                found = paths_list(self.resolver.folder, start)
            case protocol.Complete():
                found = completions(self.commands(), self.resolver)
            case protocol.Start():
                found = start_options(self.resolver)
        return found

    def _of_store(
        self, agent: Agent, question: protocol.Question
    ) -> protocol.Answer | None:
        found: protocol.Answer | None = None
        match question:
            case protocol.Settings() if self.settings is not None:
                found = settings_list(agent, self.settings)
            case protocol.Servers() if self.servers is not None:
                found = servers_list(self.servers())
            case protocol.Sessions(_, query) if self.store is not None:
                found = sessions_list(agent.session, query, self.store())
            case protocol.Branches() if self.store is not None:
                found = branch_switches(agent.session, self.store())
            case protocol.Export(_, session_id) if self.store is not None:
                found = session_text(agent.session, session_id, self.store())
        return found

    def _of_models(
        self, agent: Agent, question: protocol.Question
    ) -> protocol.Answer | None:
        found: protocol.Answer | None = None
        match question:
            case protocol.UseKey(_, provider, key) if self.use_key is not None:
                place = self.use_key(agent, provider, key)
                found = protocol.KeyUsed(agent.provider.name, place)
            case protocol.SendKey() if self.send_key is not None:
                self.send_key(agent)
                found = protocol.KeyUsed(agent.provider.name, "environment")
            case protocol.Models() if self.models is not None:
                found = models_page(agent, self.models(), trial())
            case protocol.AskServer() if self.models is not None:
                found = server_models(self.models(), question)
            case protocol.TestModel() if self.models is not None:
                found = model_tested(self.models(), question)
            case protocol.ChooseModel() if self.models is not None:
                found = model_chosen(agent, self.models(), question)
            case protocol.ForgetModel() if self.models is not None:
                found = protocol.ModelChosen(self.models().forget())
        return found


def answer_soon(
    queries: Queries,
    agent: Callable[[], Agent],
    question: protocol.Question,
    send: Send,
) -> None:
    """Answer a question on a new thread; the view knows its answer by the token."""
    threading.Thread(
        target=copy_context().run,  # the answer belongs to this very click
        args=(_answer, queries, agent, question, send),
        name="nbchat-answer",
        daemon=True,
    ).start()


def _answer(
    queries: Queries,
    agent: Callable[[], Agent],
    question: protocol.Question,
    send: Send,
) -> None:
    answer: protocol.Answer
    try:
        answer = queries.answer(agent(), question)
    except NbchatError as error:
        answer = protocol.Refused(str(error))
    except Exception as error:  # a fault in settings or a store that a caller passed
        logger.exception("A question of the panel could not be answered")
        answer = protocol.Refused(f"{type(error).__name__}: {error}")
    send(protocol.as_message(answer, question.token))


MOST_NAMES = 500

MOST_PATHS, MOST_SCANNED = 50, 10_000

REFERENCES = {
    "cell": "The last cell that ran, cell 3 with @cell:3, run 3 with @cell:[3]",
    "file:": "A file, by its path",
    "image:": "A picture: a path, a figure or an image",
    "error": "The last error, with its cell and values",
}
"""Kinds of `@` mentions besides variables."""


FIX = "@error\n\nWhat went wrong here, and how do I fix it?"
"""The message of `%chat fix`."""

MOST_SUGGESTIONS = 3

SHAPED = ("DataFrame", "Series", "ndarray")
"""Types whose shape is shown beside the name."""


def settings_list(agent: Agent, settings: Settings) -> protocol.SettingsList:
    """The settings, and the names of the scopes a change can have."""
    model = agent.provider.name
    shown = tuple(_as(protocol.Setting, each) for each in settings(agent))
    return protocol.SettingsList(shown, provider=model.partition(":")[0], model=model)


def servers_list(servers: Iterable[ServerState]) -> protocol.ServersList:
    """The MCP servers that are configured, with the tools of those connected."""
    return protocol.ServersList(tuple(map(_server, servers)))


def _server(server: ServerState) -> protocol.Server:
    tools = server.tools or ()
    shown = (protocol.ServerTool(each.name, tool_line(each)) for each in tools)
    is_connected = server.tools is not None
    return _as(protocol.Server, server, tools=tuple(shown), is_connected=is_connected)


def completions(
    commands: Mapping[str, str], resolver: Resolver | None
) -> protocol.Completions:
    """Completions after `/` and `@`: commands with help, names with types, no values.

    Kinds of references come first, then variables, the newest first.
    """
    names = {} if resolver is None else {**REFERENCES, **_variables(resolver)}
    return protocol.Completions(
        commands=tuple(_command(*pair) for pair in commands.items()),
        names=tuple(protocol.Completion(*pair) for pair in names.items()),
    )


def paths_list(folder: Path, start: str) -> protocol.PathsList:
    """Paths that begin with `start`, folders first; hidden ones only when asked for."""
    above, _, letters = start.replace("\\", "/").rpartition("/")
    found = []
    with suppress(OSError, ValueError), os.scandir(folder / above) as entries:
        for each in islice(entries, MOST_SCANNED):
            is_meant = each.name.lower().startswith(letters.lower())
            if is_meant and (letters or not each.name.startswith(".")):
                found.append((not each.is_dir(), each.name.casefold(), each.name))
    parent = f"{above}/" if "/" in start else ""
    return protocol.PathsList(
        tuple(
            protocol.Completion(f"{parent}{name}{'' if is_file else '/'}", "")
            for is_file, _, name in sorted(found)[:MOST_PATHS]
        )
    )


def _command(name: str, line: str) -> protocol.Command:
    arguments, _, text = line.rpartition("  ")
    return protocol.Command(name, arguments, text)


def _variables(resolver: Resolver) -> dict[str, str]:
    values = resolver.variables()
    names = [n for n in values if is_fit(n, values[n]) and n.isidentifier()]
    return {name: _type(values[name]) for name in names[: -MOST_NAMES - 1 : -1]}


def _type(value: Any) -> str:
    """The type of a value, and the shape of a table or an array."""
    kind = type_name(type(value)).removeprefix("builtins.")
    is_shaped = comes_from(type(value), "pandas", "polars", "numpy")
    if not is_shaped or type(value).__name__ not in SHAPED:
        return kind
    shape = " x ".join(f"{size:,}" for size in value.shape)
    return f"{kind}, {shape}" if shape else kind


def start_options(resolver: Resolver | None) -> protocol.StartOptions:
    """Providers with their keys' variables, the trial model, and suggestions."""
    return protocol.StartOptions(
        providers=tuple(
            protocol.ProviderKey(kind, variable, model_of(kind))
            for kind, variable in KEY_VARIABLES.items()
            if model_of(kind)
        ),
        trial=trial(),
        suggestions=tuple(suggestions(resolver) if resolver else ()),
    )


def trial() -> protocol.Trial:
    """The small model that runs without a key, and what it takes to have it."""
    name = EMBEDDED_MODEL.partition(":")[2]
    return protocol.Trial(
        model=EMBEDDED_MODEL,
        megabytes=0 if is_fetched(name) else WEIGHTS[name].megabytes,
        is_installed=find_spec("xllamacpp") is not None,
    )


def suggestions(resolver: Resolver) -> list[protocol.Suggestion]:
    """Up to three questions about the last error, the newest table, the last cell."""
    found = []
    if resolver.error():
        found.append(protocol.Suggestion("Explain the last error", FIX))
    for name, size in _frames(resolver)[:2]:
        found += [
            protocol.Suggestion(
                f"Describe {name} ({size})",
                f"Describe @{name}: what does it contain, and what is unusual in it?",
            ),
            protocol.Suggestion(
                f"Plot {name}", f"Write code that plots what matters most in @{name}."
            ),
        ]
    if resolver.cell(None) is not None:
        text = "@cell\n\nExplain what this cell does, and what could be better."
        found.append(protocol.Suggestion("Explain the last cell", text))
    return found[:MOST_SUGGESTIONS]


def _frames(resolver: Resolver) -> list[tuple[str, str]]:
    """Data frames of the notebook, the newest first, each with its size."""
    values = resolver.variables()
    names = [name for name in values if is_fit(name, values[name])]
    frames: dict[str, Any] = {n: values[n] for n in reversed(names)}
    return [(n, _size(frame)) for n, frame in frames.items() if _is_frame(frame)]


def _is_frame(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "DataFrame" and comes_from(kind, "pandas", "polars")


def _size(frame: Any) -> str:
    rows, columns = frame.shape
    return f"{rows:,} x {columns:,}"


MOST_MODELS = 5_000
"""Names of one server that reach the page; the largest known one has 3,000."""


def models_page(
    agent: Agent, models: "Models", trial: protocol.Trial
) -> protocol.ModelsPage:
    """The chat's model, and all that can be chosen; asks no server."""
    provider, info = agent.provider, agent.engine.tracker.info
    own = provider if isinstance(provider, SdkProvider) else None
    return protocol.ModelsPage(
        model=provider.name,
        address=own.endpoint.url if own is not None and own.own_address else "",
        origin=models.origin(agent),
        always=models.for_new_chats,
        window=info.window,
        is_assumed=info.is_assumed,
        is_locked=models.is_locked,
        providers=tuple(map(_provider, models.providers())),
        trial=trial,
    )


def server_models(models: "Models", asked: protocol.AskServer) -> protocol.ServerModels:
    """Models that a server lists."""
    found = models.served(
        asked.provider, asked.address, asked.key, sends_key=asked.sends_key
    )
    rows = tuple(map(_model_row, found.models[:MOST_MODELS]))
    return _as(protocol.ServerModels, found, provider=found.kind, models=rows)


def model_tested(models: "Models", asked: protocol.TestModel) -> protocol.ModelTested:
    """How a model answered one short request."""
    return _as(protocol.ModelTested, models.test(asked.model, asked.address))


def model_chosen(
    agent: Agent, models: "Models", chosen: protocol.ChooseModel
) -> protocol.ModelChosen:
    """Use a model from now on."""
    text = models.choose(
        agent,
        chosen.model.strip(),
        chosen.address,
        always=chosen.always,
        unlisted=chosen.unlisted,
    )
    return protocol.ModelChosen(text)


def _provider(known: "KnownProvider") -> protocol.ModelProvider:
    models = tuple(map(_model_row, known.models))
    return _as(protocol.ModelProvider, known, models=models)


def _model_row(known: "KnownModel") -> protocol.ModelRow:
    return protocol.ModelRow(known.name, known.window, *known.dollars or (None, None))


SEARCHED_TOGETHER = 50
"""Messages that are searched for a value before each of them is."""


def context_parts(agent: Agent) -> protocol.ContextParts:
    """Tokens of each part, what is free and what limits it, and all costs.

    Parts are estimates and the server may count more: they are shown in proportion, so
    that they add up to the size on the meter.
    """
    session, engine = agent.session, agent.engine
    held = context_usage(session, engine.tracker, agent.system, agent.tools)
    reserve, free = _free(engine.tracker.info, held.total)
    return protocol.ContextParts(
        parts=tuple(protocol.Part(*part) for part in held.parts_of_total.items()),
        total=held.total,
        window=engine.tracker.info.window,
        is_assumed=engine.tracker.info.is_assumed,
        reserve=reserve,
        free=free,
        limit=None if engine.policy.meter == "off" else held.limit,
        policy=engine.policy.name,
        outlook=engine.tracker.outlook(session),
        costs=_costs(session),
    )


def notebook_known(
    agent: Agent, notebook: "NotebookContext | None", asked: protocol.Knows
) -> protocol.Known:
    """The notebook context after the person's changes to it."""
    if notebook is None:
        return protocol.Known(text="", tokens=0, parts=(), asks_for="", is_off=True)
    name, tracker = agent.provider.name, agent.engine.tracker
    if asked.left_out is not None:
        notebook.left_out = set(asked.left_out)
    if asked.agrees:
        notebook.confirm(name)
    is_off, is_agreed = notebook.mode() == "off", notebook.is_confirmed(name)
    parts = () if is_off else notebook.parts()
    text = notebook.block(parts, window=tracker.info.window, counter=tracker.counter)
    shown = (protocol.KnownPart(e.name, e.label, e.total, e.is_on) for e in parts)
    return protocol.Known(
        text=text,
        tokens=tracker.counter.count(text),
        parts=tuple(shown),
        asks_for="" if is_agreed else name.partition(":")[0],
        is_off=is_off,
    )


def compaction_plan(
    agent: Agent, keep: int | None, upto: int | None = None
) -> protocol.Planned:
    """Dry run of a compaction by hand; `skip` says why there would be none.

    `keep` is how many tokens of the newest messages stay word for word, `upto` the
    position of the last message to compact.
    """
    session = agent.session
    plan = agent.engine.plan(session, keep=keep, upto=upto)
    total, current = len(session.transcript), session.compaction
    start = current.stop if current else 0
    stop = start if plan.skip else plan.stop
    before = agent.engine.tracker.context_tokens(session)
    return protocol.Planned(
        messages=total,
        summarized=start,
        compacted=stop - start,
        kept=total - stop,
        tokens_before=before,
        tokens_after=before if plan.skip else max(0, plan.tokens_after),
        skip=plan.skip,
        warning=_warning(plan, least_tokens=agent.engine.policy.least_tokens),
    )


def current_summary(agent: Agent) -> protocol.SummaryText:
    """The text of the summary, to be edited, and the facts kept by code."""
    compaction = agent.session.compaction
    if compaction is None:
        raise NbchatError("There's no summary to edit.")
    facts = "\n".join(summary_facts(compaction.summary))
    return protocol.SummaryText(summary_text(compaction.summary), facts)


def _free(info: ModelInfo, used: int) -> tuple[int | None, int | None]:
    """Tokens reserved for the answer, and free beside it; None for unknown windows."""
    if info.window is None:
        return None, None
    left = max(info.window - used, 0)
    reserve = min(info.output_reserve, left)
    return reserve, left - reserve


def _costs(session: Session) -> tuple[protocol.Cost, ...]:
    """A row for each model's answers, for all compactions, and for the sum."""
    rows = [
        _cost(each.label or "answers", each.usage, each.requests)
        for each in cost_rows(session)
    ]
    total = (_cost("Total", session.usage),) if len(rows) > 1 else ()
    return (*rows, *total)


def _cost(label: str, usage: Usage, requests: int | None = None) -> protocol.Cost:
    return protocol.Cost(
        label=label,
        requests=requests,
        input=usage.input_tokens,
        cached=usage.cache_read_tokens,
        output=usage.output_tokens,
        is_estimated=usage.is_estimated,
        dollars=usage.dollars_text,
    )


def _warning(plan: Plan, *, least_tokens: int) -> str:
    if plan.skip or plan.tokens_covered >= least_tokens:
        return ""
    return (
        f"Only {plan.tokens_covered:,} tokens would be compacted. The summary may be "
        "as long as that, so this may fail or save nothing."
    )


def memory_view(agent: Agent) -> protocol.MemoryView:
    """The summary, the facts and the messages they come from.

    The position of a value is that of the first covered message that contains it, in
    any notation; null if none does.
    """
    session, record = agent.session, agent.session.compaction
    if record is None:
        raise NbchatError("Nothing is compacted, so the model sees all messages.")
    story = summary_text(record.summary)
    found = [each for each in values(story) if not is_marked(story, each.stop)]
    covered = session.transcript[: record.stop]
    positions = _positions(found, covered)
    return protocol.MemoryView(
        html=summary_text_html(story),
        values=tuple(
            protocol.MemoryValue(value.text, position)
            for value, position in zip(found, positions, strict=True)
        ),
        facts=_memory_html(record),
        covered=record.stop,
        kept=len(session.transcript) - record.stop,
    )


def _memory_html(record: Compaction) -> str:
    """The lines that code copied; of a record without them the text of its memory."""
    text = "\n".join(summary_facts(record.summary))
    return memory_html(record.memory) or (part_html("Facts", text) if text else "")


def _positions(wanted: Sequence[Value], entries: Sequence[Entry]) -> list[int | None]:
    """The first entry that contains each value."""
    places: dict[Value, int] = {}
    texts = list(map(_text, entries))
    for first in range(0, len(texts), SEARCHED_TOGETHER):
        some = texts[first : first + SEARCHED_TOGETHER]
        index = ValueIndex("\n".join(some))
        here = {each for each in wanted if each not in places and index.has(each)}
        for position, text in enumerate(some if here else (), first):
            index = ValueIndex(text)
            found = {value for value in here if index.has(value)}
            places |= dict.fromkeys(found, position)
            here -= found
    return [places.get(value) for value in wanted]


def _text(entry: Entry) -> str:
    is_text = entry.is_prompt or entry.is_by_nbchat
    return f"{entry.attachment_text}\n{'' if is_text else entry.tool_args}"


PAGE_ENTRIES = 100

PAGE_CHARACTERS = 500_000
"""Of HTML, after which a page ends early: a message of some megabytes stalls a view."""

TEXT_STEP = (100_000, 2_000)
"""Characters and lines of a long message that are shown in one step."""

EXCERPT_CHARACTERS = 1_500
"""Of a long message that a search found, the part that is shown."""

MOST_SESSIONS = 200
"""Listed at once; a search finds the others."""

LABELS = {"user": "You", "assistant": "Assistant", "thinking": "Thinking"}


def history_page(
    session: Session, query: str = "", *, before: int | None = None
) -> protocol.HistoryPage:
    """The newest messages; or those with any word of a query, the best first.

    `before` is the index at which the page below begins. Without a query the
    compactions are listed where they happened. A search has one page.
    """
    if query := " ".join(query[:LONGEST_QUERY].split()):
        return _found_page(session, query)
    entries = session.transcript[:]
    matches = [index for index, entry in enumerate(entries) if _is_shown(entry)]
    end = len(entries) + 1 if before is None else before
    earlier = [index for index in matches if index < end]
    shown = _page(entries, reversed(earlier[-PAGE_ENTRIES:]))
    has_more = len(shown) < len(earlier)
    start = min(shown) if has_more else 0
    items = tuple(_items(session, shown, range(start, end)))
    return protocol.HistoryPage(items, total=len(matches), has_more=has_more)


def _found_page(session: Session, query: str) -> protocol.HistoryPage:
    """The messages that a search found, of long ones the part that matches best."""
    entries = session.transcript[:]
    found = [each for each in session.search(query) if _is_shown(entries[each])]
    shown = _page(entries, found[:PAGE_ENTRIES], query)
    items = {item.position: item for item in _items(session, shown)}
    best_first = tuple(items[index] for index in shown)
    return protocol.HistoryPage(best_first, total=len(found), has_more=False)


def message_text(
    session: Session, position: int, *, start: int | None = None
) -> protocol.MessageText:
    """The text of a message or an answer exactly as it was written.

    With `start` the part that begins there.
    """
    entries = session.transcript[position : position + 1]
    if not any(entry.is_prompt or entry.is_answer for entry in entries):
        raise NbchatError("Only messages and answers can be copied.")
    try:
        entries[0].content.encode()
    except UnicodeEncodeError:
        raise NbchatError(
            "This text has characters that the panel can't show."
        ) from None
    text = entries[0].content
    if start is None:
        return protocol.MessageText(text, end=len(text))
    end = part_end(text, start, TEXT_STEP)
    return protocol.MessageText(text[start:end], end=end)


def sessions_list(session: Session, query: str, store: Store) -> protocol.SessionsList:
    """Sessions with any word of a query, the best first; or all, last used first.

    A conversation with branches is listed once.
    """
    # Late: the store loads while the panel can be seen already.
    from nbchat.storage.branches import one_per_family  # noqa: PLC0415

    current = session.session_id
    most = 4 * MOST_SESSIONS  # of which some are branches of others
    listed = store.sessions(query=query[:LONGEST_QUERY], limit=most)
    found = one_per_family(listed, current=current)
    rows = tuple(
        _as(protocol.SessionRow, each, session=each.id, is_current=each.id == current)
        for each in found[:MOST_SESSIONS]
    )
    is_cut = len(listed) == most and not query.strip()
    return protocol.SessionsList(
        rows, total=store.count_sessions() if is_cut else len(found)
    )


def branch_switches(session: Session, store: Store) -> protocol.BranchSwitches:
    """The messages that have several versions, each in a branch."""
    from nbchat.storage.branches import switches  # noqa: PLC0415  # late, as above

    current = session.session_id
    found = switches(store.family(current), current) if current else ()
    shown = (
        protocol.Switch(each.position, each.number, tuple(each.sessions))
        for each in found
    )
    return protocol.BranchSwitches(tuple(shown))


def session_text(
    session: Session, session_id: str, store: Store
) -> protocol.SessionText:
    """A session as Markdown, to copy or to save; the current one as it is now."""
    # Late: the store loads while the panel can be seen already.
    from nbchat.storage.export import exported  # noqa: PLC0415

    is_current = session_id == session.session_id
    found = session if is_current else store.load(session_id)
    return protocol.SessionText(exported(found, "md"))


def _is_shown(entry: Entry) -> bool:
    """True if an entry has anything to show."""
    return entry.role != "thinking" or bool(entry.content)


def _page(
    entries: Sequence[Entry], indices: Iterable[int], query: str = ""
) -> dict[int, str]:
    """The first entries that make a page: their HTML by index."""
    page: dict[int, str] = {}
    size = 0
    for index in indices:
        page[index] = beginning_html(_excerpt(entries[index], query))
        size += len(page[index])
        if size > PAGE_CHARACTERS:
            break
    return page


def _excerpt(entry: Entry, query: str) -> Entry:
    """An entry; of a long one that was searched for, the part that matches best."""
    text = entry.content
    if not query or len(text) <= EXCERPT_CHARACTERS or entry.is_attachment:
        return entry
    return entry._replace(content=excerpt(text, query, EXCERPT_CHARACTERS))


def _items(
    session: Session, shown: dict[int, str], with_compactions: Sequence[int] = ()
) -> Iterator[protocol.HistoryItem]:
    """A page, oldest first, each message with how the model sees it."""
    seen_as = _visibility(session)
    for index, part in timeline(session):
        if isinstance(part, Compaction):
            if index in with_compactions:
                yield protocol.HistoryItem(None, "", "whole", compaction_html(part))
        elif index in shown:
            yield protocol.HistoryItem(
                index, _label(part), seen_as(index), shown[index]
            )


def _visibility(session: Session) -> Callable[[int], protocol.Seen]:
    """How the model sees the message at an index."""
    covered = session.compaction.stop if session.compaction else 0
    excluded, hidden = session.excluded, session.hidden_positions

    def seen_as(index: int) -> protocol.Seen:
        if index in excluded:
            return "excluded"
        if index < covered:
            return "summarized"
        return "shortened" if index in hidden else "whole"

    return seen_as


def _label(entry: Entry) -> str:
    if entry.is_call:
        return "Call"
    if entry.role == "tool":
        return f"Result of {entry.tool_name}".removesuffix(" of ")
    if entry.is_by_nbchat:
        return "nbchat to the model"
    return LABELS.get(entry.role, entry.role.capitalize())


def _as(kind: type[Made], found: object, **others: Any) -> Made:
    """A part of an answer from an object with fields of the same names."""
    names = [each.name for each in fields(kind) if each.name not in others]
    return kind(**{name: getattr(found, name) for name in names}, **others)
