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
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbchat.agent.agent import Agent
from nbchat.agent.mcp import ServerState, tool_line
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.attachments.short_repr import comes_from, is_frame
from nbchat.chat.models import Models
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
from nbchat.conversation.turns import count_messages
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
from nbchat.storage.branches import one_per_family, switches
from nbchat.storage.export import exported
from nbchat.storage.saved_settings import SettingInForce
from nbchat.storage.store import SessionStore

if TYPE_CHECKING:
    from nbchat.chat.commands import Commands
    from nbchat.chat.live_changes import LiveSettings
    from nbchat.jupyter.notebook_context import NotebookContext

logger = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries of the views of one panel, and what answers them."""

    previews: Previews
    commands: "Callable[[], Commands]"
    """The chat's commands, with their settings and store; opened when first used."""
    resolver: Resolver | None = None
    refresh: Callable[[], None] = lambda: None
    """Shows what a question has changed of the agent."""
    notebook: "NotebookContext | None" = None

    def answer(self, agent: Agent, question: protocol.Question) -> protocol.AnyAnswer:
        """The answer to a question; raises NbchatError where there is none."""
        found = ANSWERS[type(question)](self, agent, question)
        if isinstance(found, protocol.KeyUsed | protocol.ModelChosen):
            self.refresh()
        return found

    @property
    def folder(self) -> Path:
        """The folder to which paths are relative."""
        return self.resolver.folder if self.resolver else Path.cwd()

    @property
    def store(self) -> SessionStore:
        """The store of the sessions."""
        return self.commands().store

    @property
    def settings(self) -> "LiveSettings":
        """The settings of the chat."""
        return self.commands().live_settings

    @property
    def models(self) -> Models:
        """The models that the chat can use."""
        return Models(self.settings)


ANSWERS: dict[type, Callable[[Queries, Agent, Any], protocol.AnyAnswer]] = {
    protocol.Plan: lambda _, agent, q: compaction_plan(agent, q.keep, q.upto),
    protocol.Context: lambda _, agent, _q: context_parts(agent),
    protocol.Summary: lambda _, agent, _q: current_summary(agent),
    protocol.Memory: lambda _, agent, _q: memory_view(agent),
    protocol.Knows: lambda its, agent, q: notebook_known(agent, its.notebook, q),
    protocol.History: lambda _, agent, q: history_page(
        agent.session, q.query, before=q.before
    ),
    protocol.Message: lambda _, agent, q: message_text(
        agent.session, q.position, start=q.start
    ),
    protocol.Mentions: lambda its, agent, q: its.previews.mentioned(
        agent, q.text, q.pasted
    ),
    protocol.Preview: lambda its, agent, q: its.previews.previewed(agent, q.key),
    protocol.Upload: lambda its, agent, q: its.previews.uploaded(
        agent, q.name, q.media_type, q.data
    ),
    protocol.Paths: lambda its, _, q: paths_list(its.folder, q.start),
    protocol.Complete: lambda its, _, _q: completions(
        its.commands().help_lines, its.resolver
    ),
    protocol.Start: lambda its, _, _q: start_options(its.resolver),
    protocol.Settings: lambda its, agent, _q: settings_list(
        agent, its.settings.listed(agent)
    ),
    protocol.Servers: lambda its, _, _q: servers_list(its.commands().servers.listed()),
    protocol.Sessions: lambda its, agent, q: sessions_list(
        agent.session, q.query, its.store
    ),
    protocol.Branches: lambda its, agent, _q: branch_switches(agent.session, its.store),
    protocol.Export: lambda its, agent, q: session_text(
        agent.session, q.session, its.store
    ),
    protocol.UseKey: lambda its, agent, q: key_used(
        agent, its.settings.use_key(agent, q.provider, q.key)
    ),
    protocol.SendKey: lambda its, agent, _q: key_sent(agent, its.settings),
    protocol.Models: lambda its, agent, _q: models_page(agent, its.models, trial()),
    protocol.AskServer: lambda its, _, q: its.models.served(
        q.provider, q.address, q.key, sends_key=q.sends_key
    ),
    protocol.TestModel: lambda its, _, q: its.models.test(q.model, q.address),
    protocol.ChooseModel: lambda its, agent, q: model_chosen(agent, its.models, q),
    protocol.ForgetModel: lambda its, _, _q: protocol.ModelChosen(its.models.forget()),
}
"""The answer to each question: of the queries, the agent that is asked, and it."""


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
    answer: protocol.AnyAnswer
    try:
        answer = queries.answer(agent(), question)
    except NbchatError as error:
        answer = protocol.Refused(str(error))
    except Exception as error:  # a fault in what a caller passed
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


def settings_list(
    agent: Agent, listed: Iterable[SettingInForce]
) -> protocol.SettingsList:
    """The settings, and the names of the scopes a change can have."""
    model = agent.provider.name
    return protocol.SettingsList(
        tuple(listed), provider=model.partition(":")[0], model=model
    )


def servers_list(servers: Iterable[ServerState]) -> protocol.ServersList:
    """The MCP servers that are configured, with the tools of those connected."""
    return protocol.ServersList(tuple(map(_server, servers)))


def _server(server: ServerState) -> protocol.Server:
    tools = server.tools or ()
    shown = (protocol.ServerTool(each.name, tool_line(each)) for each in tools)
    return protocol.Server(
        server.name,
        server.address,
        server.origin,
        server.problem,
        server.tools is not None,
        tuple(shown),
    )


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
    return [(n, _size(frame)) for n, frame in frames.items() if is_frame(frame)]


def _size(frame: Any) -> str:
    rows, columns = frame.shape
    return f"{rows:,} x {columns:,}"


def models_page(
    agent: Agent, models: Models, trial: protocol.Trial
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
        providers=tuple(models.providers()),
        trial=trial,
    )


def key_used(agent: Agent, place: Place) -> protocol.KeyUsed:
    """A key is in use; `place` is where it is kept."""
    return protocol.KeyUsed(agent.provider.name, place)


def key_sent(agent: Agent, settings: "LiveSettings") -> protocol.KeyUsed:
    """Send the provider's key to the chat's server, in this kernel."""
    settings.send_key(agent)
    return key_used(agent, "environment")


def model_chosen(
    agent: Agent, models: Models, chosen: protocol.ChooseModel
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
        kept=count_messages(session.transcript[record.stop :]),
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


def sessions_list(
    session: Session, query: str, store: SessionStore
) -> protocol.SessionsList:
    """Sessions with any word of a query, the best first; or all, last used first.

    A conversation with branches is listed once.
    """
    current = session.session_id
    most = 4 * MOST_SESSIONS  # of which some are branches of others
    listed = store.sessions(query=query[:LONGEST_QUERY], limit=most)
    found = one_per_family(listed, current=current)
    is_cut = len(listed) == most and not query.strip()
    return protocol.SessionsList(
        tuple(found[:MOST_SESSIONS]),
        current,
        total=store.count_sessions() if is_cut else len(found),
    )


def branch_switches(session: Session, store: SessionStore) -> protocol.BranchSwitches:
    """The messages that have several versions, each in a branch."""
    current = session.session_id
    found = switches(store.family(current), current) if current else ()
    return protocol.BranchSwitches(found)


def session_text(
    session: Session, session_id: str, store: SessionStore
) -> protocol.SessionText:
    """A session as Markdown, to copy or to save; the current one as it is now."""
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
