"""Value types: an entry of a conversation, token usage, a compaction record."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from html import escape
from itertools import chain
from math import floor, log10
from typing import Any, Literal, NamedTuple, Self

Status = Literal["running", "done", "degraded", "failed", "undone"]
Kind = Literal["summary", "pruning"]
Revision = Literal["", "edited", "regenerated"]
Texts = tuple[str, ...]
Span = tuple[int, int]
"""Where a part of a text begins and ends."""

RETRIEVAL = "retrieval"
"""Trigger of a pruning made when an output arrived."""

BY_MODEL = "model"
"""Trigger of a compaction that the model asked for, with its tool `compact`."""

EXCLUDED = "excluded"
"""Trigger of a pruning by which the user excluded a message."""

EXCLUDED_TEXT = "[excluded by the user]"
"""The text that the model sees instead of an excluded message."""

INCOMPLETE = '{"incomplete": true}'
REQUESTED = '{"by": "nbchat"}'
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")
"""Media types whose content is text."""

FAILED = '{"is_error": true}'
DENIED = "error: denied by the user"
"""Output of a call that the user denied."""

WHOLE_CENTS = 0.1
"""Dollars from which an amount is shown with two decimals."""


class Entry(NamedTuple):
    """One part of a conversation; equals the plain tuple of its five strings.

    | role | content | tool_id | tool_name | tool_args |
    |---|---|---|---|---|
    | user | text | | | `{"pasted": [[0, 120]]}`, if parts were pasted; |
    | | | | | `{"cell": true}` of a cell |
    | user (by nbchat) | a request to answer again | | | `{"by": "nbchat"}` |
    | user (image, file) | caption | | image, file | JSON: media_type, data, name |
    | user (rules of a file) | label | | file | the same, and `rules`: a digest |
    | user (a tool's picture) | caption | call id | image | as of an image |
    | assistant | text | | | `{"incomplete": true}` when cut short |
    | assistant (a call) | | call id | tool | arguments, JSON |
    | tool | output | call id | tool | `{"is_error": true}` when it failed |
    | thinking | what may be shown | | provider | that provider's block, JSON |
    | summary | `<summary>...</summary>` and the facts | | | |
    """

    role: str
    content: str
    tool_id: str = ""
    tool_name: str = ""
    tool_args: str = ""

    @property
    def is_call(self) -> bool:
        """True if this is a tool call of the assistant."""
        return self.role == "assistant" and bool(self.tool_name)

    @property
    def arguments(self) -> dict[str, Any]:
        """`tool_args` as a dictionary; empty when it is not a JSON object."""
        try:
            value = json.loads(self.tool_args or "{}")
        except (ValueError, RecursionError):  # a hundred thousand brackets
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def is_answer(self) -> bool:
        """True if this is text of the assistant, not a call."""
        return self.role == "assistant" and not self.tool_name

    @property
    def is_prompt(self) -> bool:
        """True if this is text that the user typed, not an attachment."""
        return self.is_of_user and not self.tool_name

    @property
    def is_by_nbchat(self) -> bool:
        """True if nbchat asks the model here to answer again; no person wrote it."""
        return self.role == "user" and self.tool_args == REQUESTED

    @property
    def is_of_user(self) -> bool:
        """True if the user wrote or attached this."""
        is_user = self.role == "user"
        return is_user and not (self.is_by_nbchat or self.is_tool_picture)

    @property
    def is_tool_picture(self) -> bool:
        """True if this is a picture that a tool returned; it follows the result."""
        return self.role == "user" and bool(self.tool_id)

    @property
    def is_returned(self) -> bool:
        """True if a tool returned this: its result, or a picture."""
        return self.role == "tool" or self.is_tool_picture

    @property
    def is_attachment(self) -> bool:
        """True if this is an image or a file, attached or returned by a tool."""
        return self.role == "user" and bool(self.tool_name)

    @property
    def is_rules(self) -> bool:
        """True if this is the rules of a file, or says that those no longer hold."""
        is_file = self.role == "user" and self.tool_name == "file"
        may_be = is_file and '"rules"' in self.tool_args
        return may_be and isinstance(self.arguments.get("rules"), str)

    @property
    def can_be_excluded(self) -> bool:
        """True if the user may exclude it from the context: calls have to stay."""
        return self.is_answer or self.role in ("user", "tool")

    def with_content(self, content: str) -> "Entry":
        """The entry with other content, without what belongs to the old one.

        That is an attachment, a signed block, or where pasted parts are.
        """
        if self.role in ("user", "thinking") and not self.is_by_nbchat:
            return Entry(self.role, content, self.tool_id)
        return self._replace(content=content)

    @property
    def pasted(self) -> tuple[Span, ...]:
        """Where the parts of a person's message are that were pasted, in order."""
        if not (self.is_prompt and self.tool_args):
            return ()
        given, spans, end = self.arguments.get("pasted"), list[Span](), 0
        for span in given if isinstance(given, list) else []:
            match span:
                case [int() as start, int() as stop] if end <= start < stop:
                    spans.append((start, stop))
                    end = stop
        return tuple(spans)

    @property
    def is_text_file(self) -> bool:
        """True if this is a file whose text is sent to the model."""
        media_type = self.arguments.get("media_type", "text/plain")
        is_file = self.is_attachment and self.tool_name != "image"
        has_text = isinstance(self.arguments.get("data"), str)
        return is_file and has_text and str(media_type).startswith(TEXT_TYPES)

    @property
    def attachment_text(self) -> str:
        """The caption of an attachment and its text; an image has only a caption."""
        media_type = str(self.arguments.get("media_type", "text/plain"))
        content = f"[a file of type {media_type}, which is not text]"
        if self.tool_name == "image":
            is_shown = bool(self.arguments.get("data"))
            content = "" if is_shown else "[an image that cannot be read]"
        elif self.is_text_file:
            content = self.arguments["data"]
        return "\n\n".join(filter(None, (self.content, content)))

    @property
    def is_error(self) -> bool:
        """True if this is a tool's result that reports an error."""
        return self.role == "tool" and self.arguments.get("is_error") is True

    @property
    def is_denied(self) -> bool:
        """True if this is the result of a call that the user denied."""
        return self.is_error and self.content.startswith(DENIED)

    @property
    def is_incomplete(self) -> bool:
        """True if this is an answer that broke off or was stopped."""
        return self.role == "assistant" and self.tool_args == INCOMPLETE


def failed_result(call: Entry, reason: str) -> Entry:
    """The result of a call that failed."""
    return Entry("tool", f"error: {reason}", call.tool_id, call.tool_name, FAILED)


def denied_result(call: Entry, reason: str = "") -> Entry:
    """The result of a call that the user denied, with their reason if they gave one."""
    text = f"{DENIED}: {reason}" if reason else DENIED
    return Entry("tool", text, call.tool_id, call.tool_name, FAILED)


@dataclass(frozen=True, slots=True, repr=False)
class Usage:
    """Tokens of one or more replies; `input_tokens` counts the whole request.

    The cache figures are parts of `input_tokens`, not additions to it: providers that
    report them beside it (Anthropic, llama.cpp's Anthropic endpoint) are normalised.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    is_estimated: bool = False
    dropped_tokens: int = 0
    """Billed tokens outside the context: hidden reasoning, and the rounds before the
    last one if the server compacted within a reply."""
    dollars: float = 0.0
    """Cost of the tokens whose price is known."""
    priced_tokens: int = 0
    """Number of tokens whose price is known."""
    model: str = ""
    """The model, such as `openai:gpt-6-luna`; empty if unknown, and in sums."""
    cache_loss: str = ""
    """How much of the prompt cache was lost, and why; empty in sums."""

    def __repr__(self) -> str:
        """The figures that are not zero."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        given = (f"{name}={value!r}" for name, value in values.items() if value)
        return f"Usage({', '.join(given)})"

    def _repr_html_(self) -> str:
        rows = {
            "Input tokens": f"{self.input_tokens:,}",
            "of these cached": f"{self.cache_read_tokens:,}",
            "Output tokens": f"{self.output_tokens:,}",
            "Model": self.model,
            "Cost": self.dollars_text,
        }
        title = "Usage (estimated)" if self.is_estimated else "Usage"
        return html_table(title, {name: text for name, text in rows.items() if text})

    def __add__(self, other: Self) -> "Usage":
        """Sums of all figures; an estimate stays an estimate."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.is_estimated or other.is_estimated,
            self.dropped_tokens + other.dropped_tokens,
            self.dollars + other.dollars,
            self.priced_tokens + other.priced_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """All billed tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def context_tokens(self) -> int:
        """Tokens in the context at the end of the reply."""
        return self.total_tokens - self.dropped_tokens

    @property
    def is_priced(self) -> bool:
        """True if `dollars` is the whole cost."""
        return self.priced_tokens >= self.total_tokens

    @property
    def dollars_text(self) -> str:
        """The cost with a dollar sign; empty when no price is known."""
        if not self.dollars:
            return ""
        amount = f"${_rounded(self.dollars)}"
        if not self.is_priced:
            return f"at least {amount}"
        return f"about {amount}" if self.is_estimated else amount


def _rounded(dollars: float) -> str:
    """Two decimals, or two significant digits of amounts below `WHOLE_CENTS`."""
    if dollars >= WHOLE_CENTS:
        return f"{dollars:,.2f}"
    return f"{dollars:.{1 - floor(log10(dollars))}f}"


class Fact(NamedTuple):
    """One value that code read in the transcript: an entity's field."""

    entity: str
    """Its id, or the call that returned it, such as `get_weather(city: Paris)`."""
    field: str
    value: str
    position: int
    """Index in the transcript of the call's result."""


class Rule(NamedTuple):
    """A sentence of the person that holds, word for word."""

    text: str
    position: int
    """Index in the transcript of the message that says it."""


class MemoryLine(NamedTuple):
    """A line that code copied into a summary entry, and where it is from."""

    part: str
    """rules, words, work, calls, records or newest."""
    text: str
    position: int | None
    """Index in the transcript; None for titles, the kernel's variables and files."""


@dataclass(frozen=True, slots=True)
class SummaryFields:
    """The fields of a structured summary, oldest items first."""

    overview: str = ""
    key_facts: Texts = ()
    decisions: Texts = ()
    entities: tuple[tuple[str, Texts], ...] = ()
    """Kinds of things with their names."""
    unresolved_questions: Texts = ()
    conversation_flow: Texts = ()
    """The events, in order."""

    @property
    def open_items(self) -> Texts:
        """Decisions and questions: they hold until a summary says that they end."""
        return (*self.decisions, *self.unresolved_questions)

    def mapped(self, change: Callable[[str], str]) -> Self:
        """The fields with each text changed."""
        lists = ("key_facts", "decisions", "unresolved_questions", "conversation_flow")
        texts = {name: tuple(map(change, getattr(self, name))) for name in lists}
        entities = tuple(
            (kind, tuple(map(change, names))) for kind, names in self.entities
        )
        return type(self)(overview=change(self.overview), entities=entities, **texts)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the fields from a stored record; unknown ones are ignored."""
        entities = tuple((kind, tuple(names)) for kind, names in value["entities"])
        known = {each.name: value[each.name] for each in fields(cls)}
        texts = {
            name: tuple(each)
            for name, each in known.items()
            if name not in ("overview", "entities")
        }
        return cls(overview=known["overview"], entities=entities, **texts)


def now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, repr=False)
class Compaction:
    """A record: the model sees the transcript before `stop` as one summary entry.

    The entries from `start` on are newly covered; those before it were covered by the
    previous summary. Token figures are those of the context. A record of the kind
    "pruning" has no summary: some entries before `stop` are shortened.

    Records are never changed. The newest of several records with one id is valid, but
    an attempt (running, failed) never replaces one that succeeded.
    """

    id: str
    start: int
    stop: int
    summary: str
    tokens_before: int = 0
    tokens_after: int = 0
    cost: Usage = field(default_factory=Usage)
    """Usage of all requests for this id so far, rejected summaries included."""
    model: str = ""
    trigger: str = "manual"
    policy: str = "single-summary"
    status: Status = "done"
    reason: str = ""
    code: str = ""
    """Code of the check that rejected the summary, if `status` is failed."""
    prefix_hash: str = ""
    committed_at: int = 0
    """Length of the transcript at commit; usage reported before no longer counts."""
    created_at: str = field(default_factory=now)
    kind: Kind = "summary"
    summary_tokens: int = 0
    """Tokens of the summary entry, with its facts."""
    replacements: tuple[tuple[int, str], ...] = ()
    """Indices in the transcript that a pruning shortens, and the new content."""
    revision: Revision = ""
    """How the summary was changed since the compaction."""
    messages: int = 0
    """Messages that the summary newly covers; 0 when no message was compacted."""
    note: str = ""
    """A note on an active summary: written in chunks, or truncated."""
    fields: SummaryFields | None = None
    """The fields of a structured summary, for programs to read."""
    facts: tuple[Fact, ...] = ()
    """The values beside the summary, each with the message it comes from."""
    memory: tuple[MemoryLine, ...] = ()
    """The lines that code copied beside the summary; empty in records of versions
    before 0.2, whose entries say it as text alone."""
    rules: tuple[Rule, ...] = ()
    """The rules in force with this summary."""

    def __repr__(self) -> str:
        """Status and sizes, never the summary's text."""
        return f"<Compaction {self.id} {self.status}: {self._sizes}>"

    def _repr_html_(self) -> str:
        rows = {
            "Status": " ".join(filter(None, (self.status, self.revision))),
            "Context": self._sizes,
            "Summary": f"{self.summary_tokens:,} tokens" if self.summary else "",
            "Policy": self.policy,
            "Trigger": self.trigger,
            "Model": self.model,
            "Cost": f"{self.cost.total_tokens:,} tokens",
            "Reason": self.reason,
            "Note": self.note,
            "Time": f"{self.created_at[:19].replace('T', ' ')} UTC",
        }
        shown = {name: text for name, text in rows.items() if text}
        return html_table("Compaction", shown)

    @property
    def _sizes(self) -> str:
        if self.is_attempt:
            return f"{self.tokens_before:,} tokens"
        return f"{self.tokens_before:,} → {self.tokens_after:,} tokens"

    @property
    def entry(self) -> Entry:
        """The entry that replaces everything covered."""
        return Entry("summary", self.summary)

    @property
    def replaced_tokens(self) -> int:
        """Tokens that the summary replaced in the context."""
        return self.tokens_before - self.tokens_after + self.summary_tokens

    @property
    def is_active(self) -> bool:
        """True if the model sees this summary."""
        return self.status in ("done", "degraded")

    @property
    def is_immediate(self) -> bool:
        """True if this shortened an output before the model first saw it."""
        return self.kind == "pruning" and self.trigger == RETRIEVAL

    @property
    def is_exclusion(self) -> bool:
        """True if this excludes a message."""
        return self.kind == "pruning" and self.trigger == EXCLUDED

    @property
    def is_attempt(self) -> bool:
        """True if this is a record of an attempt that is running or has failed."""
        return self.status in ("running", "failed")


def prefix_hash(entries: Sequence[Entry]) -> str:
    """SHA-256 of entries, by which changes of stored entries are noticed."""
    return prefix_hashes(entries, (len(entries),))[len(entries)]


def prefix_hashes(entries: Iterable[Entry], stops: Collection[int]) -> dict[int, str]:
    """The hash of the entries before each of `stops`, in one pass."""
    digest, hashes = hashlib.sha256(), {}
    for index, entry in enumerate(chain(entries, (None,))):
        if index in stops:
            hashes[index] = digest.hexdigest()
        if entry is None or len(hashes) == len(stops):
            break
        add_to_hash(digest, (entry,))
    return hashes


def add_to_hash(digest: "hashlib._Hash", entries: Iterable[Entry]) -> None:
    """Add entries to the hash of those before them."""
    for entry in entries:
        digest.update(json.dumps(entry).encode())


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """A small table for a notebook cell; escapes all that it is given."""
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        '<td style="text-align: left; white-space: pre-wrap">'
        f"{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    # JupyterLab lets MathJax read a cell's HTML, and its \href takes any address.
    return (
        '<table class="mathjax_ignore"><caption style="text-align: left">'
        f"<strong>{escape(title)}</strong></caption><tbody>{cells}</tbody></table>"
    )
