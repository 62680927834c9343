"""Send a request as its model takes it: without refused parts, with adapted tools.

Whatever its words are, a refusal that is not about key, quota, rate, model or length
may be about content that stays in the history, and would end every later turn. The
request is then sent again without a part: the one that the server names by its index,
else the newest picture or file, all pictures, the thinking of other models. What helped
is remembered for the model; the transcript stays as it is.

An optional parameter that a server names in its error is left out in the same way, or
sent with a value that the server lists.

An API that refuses the schema of one tool refuses the whole request, so a tool of an
MCP server must not end the chat: alternatives at the top level become one object, a
list without items may hold anything, and names that are refused get others, which are
mapped back in calls.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

from nbchat.conversation.entries import Entry
from nbchat.conversation.events import ContentLeftOut
from nbchat.conversation.tools import Tool
from nbchat.errors import RequestRefused
from nbchat.providers.base import Request, image_of, user_text
from nbchat.providers.error_mapping import Refusal
from nbchat.providers.wire_format import Json, a_list, an_object

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 3
"""Requests after the refused one that leave out content."""

MOST_TOOLS_REFUSED = 10
"""Requests that leave out a tool each; a server whose tools are all bad is hopeless."""

MOST_REMEMBERED = 10_000
"""Parts remembered for a model, in numbers of eight bytes."""

SERVER_ERROR = 500

ABOUT_PICTURES = re.compile(
    r"image|picture|vision|media.?type|multimodal", re.IGNORECASE
)
ABOUT_THINKING = re.compile(
    r"thinking|reasoning|signature|encrypted|persisted", re.IGNORECASE
)
"""Which parts are tried first. Words that say neither cost a request more."""

PLACE = re.compile(
    r"(?:messages|input|contents)[.\[ ]+(\d+)\]?"
    r"(?:\.(?:content|parts)[.\[ ]+(\d+))?"
)
"""A part by its index, as in `messages.3.content.1` and `input[3].content[1]`."""

TOOL_PLACE = re.compile(r"(?:tools\[0\]\.function_declarations|tools)[.\[ ]+(\d+)")
TOOL_NAME = re.compile(r"(?:function|tool) ['\"`]([\w.-]+)")

NUMBER = re.compile(r"\b(\d+)\b(?! ?(?:[KMG]i?B|px|pixel|byte|token|%)|[.\]x])")
LIMITED = re.compile(
    r"at most|maximum|too many|limit|exceed|up to|more than", re.IGNORECASE
)

MOST_PICTURES = {"anthropic": 100, "bedrock": 20, "openai": 500}
"""Most pictures of a request, by the kind of provider.
https://platform.claude.com/docs/en/build-with-claude/vision,
https://developers.openai.com/api/docs/guides/images-vision"""

MOST_CHARACTERS = {
    "anthropic": 28_000_000,  # of 32 MB
    "bedrock": 18_000_000,  # of 20 MB
    "gemini": 18_000_000,  # of 20 MB
    "openai": 45_000_000,  # of 50 MB
}
"""Most characters of a request's pictures in base64; the rest is for its text."""

NO_LIMIT_OF_TOOLS = ("anthropic", "bedrock", "vertex", "local")
"""Kinds of providers that take more than 128 tools."""

STEPS = 4
"""Parts of a limit: old pictures leave by quarters of it, so that the prompt cache is
lost once in a while and not with each new picture."""

REFUSED_NOTE = "[left out: the server of this model did not accept it]"
OLD_NOTE = "[left out: a request may not hold more pictures]"

MOST_TOOLS = 128
"""Most tools of a request to OpenAI and Gemini; Anthropic counts only tokens.
https://developers.openai.com/api/docs/api-reference/chat/create"""

LAST_KEPT = 8
"""Tools at the end of the list that are kept where there are too many: the chat's own
tools about its context are added last."""

NAME_LENGTH = 64

NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
"""Characters that Anthropic and OpenAI refuse in the name of a property."""

TOP_LEVEL = ("anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else", "$ref")
"""Words that APIs refuse at the top of a tool's schema."""

BY_NAME = ("properties", "$defs", "definitions", "patternProperties")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
NESTED = ("items", "additionalProperties", "not", "contains")
"""Words whose values are schemas: by name, in a list, or one."""

MOST_NESTED = 50
"""Levels of a schema; servers refuse far less."""


class Adapted(NamedTuple):
    """Tools as they are sent."""

    tools: tuple[Tool, ...]
    names: Mapping[str, Mapping[str, str]]
    """By tool: the names of properties as they are sent, with the real ones."""
    left_out: tuple[str, ...] = ()
    """Tools beyond the number that the API takes."""


def adapted(tools: tuple[Tool, ...], *, most: int | None = None) -> Adapted:
    """Tools whose schemas every API takes; those that are right stay the same."""
    left_out: tuple[str, ...] = ()
    if most is not None and len(tools) > most:
        first, last = most - LAST_KEPT, len(tools) - LAST_KEPT
        left_out = tuple(each.name for each in tools[first:last])
        tools = (*tools[:first], *tools[last:])
    found = list(map(_adapted, tools))
    names = {each.name: names for each, names in found if names}
    return Adapted(tuple(each for each, _ in found), names, left_out)


def renamed(
    history: Iterable[Entry], names: Mapping[str, Mapping[str, str]]
) -> tuple[Entry, ...]:
    """A history whose calls use the names as they are sent."""
    sent = {
        tool: {real: name for name, real in each.items()}
        for tool, each in names.items()
    }
    return tuple(with_names(entry, sent) for entry in history)


def with_names(entry: Entry, names: Mapping[str, Mapping[str, str]]) -> Entry:
    """A call with other names of its arguments; any other entry as it is."""
    if not entry.is_call or entry.tool_name not in names:
        return entry
    found = _renamed_keys(entry.arguments, names[entry.tool_name])
    return entry._replace(tool_args=json.dumps(found, ensure_ascii=False))


def _adapted(tool: Tool) -> tuple[Tool, dict[str, str]]:
    """A tool in the common form, and the real names of its renamed properties."""
    schema, note = _flat(tool.parameters)
    names = _free_names(_properties(schema))
    changed = _walked(schema, names)
    if changed == tool.parameters:
        return tool, {}
    description = f"{tool.description}\n({note})" if note else tool.description
    back = {name: real for real, name in names.items()}
    return replace(tool, parameters=changed, description=description), back


def _flat(schema: Json) -> tuple[Json, str]:
    """A schema that is one object at the top, and what it does not say any more."""
    definitions = an_object(schema.get("$defs")) or an_object(schema.get("definitions"))
    for _ in range(len(definitions) + 1):  # a definition may be another one's name
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name not in definitions:
            break
        schema = {**schema, "$ref": "", **an_object(definitions[name])}
    branches = [
        _flat({**an_object(each), "$defs": definitions})[0] if each else {}
        for word in ("anyOf", "oneOf", "allOf")
        for each in a_list(schema.get(word))
    ]
    flat = {word: each for word, each in schema.items() if word not in TOP_LEVEL}
    properties = dict(an_object(flat.get("properties")))
    for branch in branches:
        for name, each in an_object(branch.get("properties")).items():
            properties.setdefault(name, each)
    flat |= {"type": "object", "properties": properties}
    required = _required(schema, branches)
    if required or "required" in flat:
        flat["required"] = required
    return flat, "" if "allOf" in schema else _alternatives(branches)


def _required(schema: Json, branches: list[Json]) -> list[str]:
    """Properties always required: all parts of `allOf`, and those shared by all."""
    needed = [a_list(each.get("required")) for each in branches]
    shared = [n for n in (needed[0] if needed else []) if all(n in e for e in needed)]
    every = [name for each in needed for name in each] if "allOf" in schema else shared
    return list(dict.fromkeys([*a_list(schema.get("required")), *every]))


def _alternatives(branches: list[Json]) -> str:
    """Which arguments belong together, in words."""
    groups = [", ".join(map(str, a_list(each.get("required")))) for each in branches]
    known = list(dict.fromkeys(filter(None, groups)))
    return f"Give either {'; or '.join(known)}." if len(known) > 1 else ""


def _walked(value: Json, names: Mapping[str, str], depth: int = 0) -> Json:
    """A schema with other names, and items in every list."""
    if depth > MOST_NESTED:
        return {}
    inner = _inner(lambda each: _walked(each, names, depth + 1))
    found = {word: inner(word, each) for word, each in value.items()}
    for word in ("properties", "dependentRequired"):
        if isinstance(found.get(word), dict):
            found[word] = {names.get(n, n): each for n, each in found[word].items()}
    if isinstance(found.get("required"), list):
        found["required"] = [names.get(name, name) for name in found["required"]]
    is_list = "array" in (found.get("type"), *a_list(found.get("type")))
    if is_list and not {"items", "prefixItems"} & set(found):
        found["items"] = {}
    return found


def _inner(walk: Callable[[Json], Json]) -> Callable[[str, Any], Any]:
    """Applies `walk` to each schema in the value of a word."""

    def inner(word: str, value: Any) -> Any:
        if word in BY_NAME and isinstance(value, dict):
            return {
                name: walk(each) if isinstance(each, dict) else each
                for name, each in value.items()
            }
        if word in LISTED and isinstance(value, list):
            return [walk(each) if isinstance(each, dict) else each for each in value]
        is_schema = word in NESTED and isinstance(value, dict)
        return walk(value) if is_schema else value

    return inner


def _properties(value: Json, depth: int = 0) -> Iterator[str]:
    """The names of all properties in a schema."""
    if depth > MOST_NESTED:
        return
    yield from map(str, an_object(value.get("properties")))
    for word, each in value.items():
        schemas: Iterable[Any] = ()
        if word in BY_NAME:
            schemas = an_object(each).values()
        elif word in LISTED:
            schemas = a_list(each)
        elif word in NESTED:
            schemas = [each]
        for schema in schemas:
            yield from _properties(an_object(schema), depth + 1)


def _free_names(names: Iterable[str]) -> dict[str, str]:
    """Another name for each that is refused, unlike all others."""
    known = list(dict.fromkeys(names))
    taken, found = set(known), dict[str, str]()
    for name in known:
        safe = NOT_IN_NAME.sub("_", name)[:NAME_LENGTH] or "_"
        number = 2
        while safe != name and safe in taken:
            safe = f"{safe[: NAME_LENGTH - 4]}_{number}"
            number += 1
        if safe != name:
            found[name] = safe
            taken.add(safe)
    return found


def _renamed_keys(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed_keys(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {names.get(k, k): _renamed_keys(each, names) for k, each in value.items()}


Keys = frozenset[int]


class Step(NamedTuple):
    """Entries to leave out, and whether the server named one of them."""

    keys: Keys
    is_named: bool = False


class RefusedContent:
    """Content that each model refused; shared by all requests of a provider."""

    def __init__(self, kind: str, thinking_of: str) -> None:
        """`kind` is that of the provider, `thinking_of` whose thinking it sends."""
        self.kind, self.thinking_of = kind, thinking_of
        self._refused: dict[str, dict[int, None]] = {}
        self._written: dict[str, dict[int, None]] = {}
        """Thinking that a model has written itself."""
        self._tools: dict[str, set[str]] = {}
        self._accepted_pictures: set[str] = set()
        """Models that have taken a picture."""
        self._adapted: tuple[tuple[Tool, ...], Adapted] = ((), Adapted((), {}))
        self._told: set[str] = set()
        """Tools that were reported to the person as too many."""
        self._blind: dict[str, int] = {}
        """How often a model was asked without any picture before it answered."""

    def trial(self, model: str, request: Request) -> "Trial":
        """A request as the model takes it, as far as that is known."""
        return Trial(self, model, request)

    def sendable(
        self, model: str, request: Request, more: Keys = frozenset()
    ) -> Request:
        """The request without what the model refused; itself where that is nothing.

        Its tools are in the form that every API takes.
        """
        request = self.with_tools(request)
        tools = self._tools.get(model, ())
        if any(each.name in tools for each in request.tools):
            kept = tuple(each for each in request.tools if each.name not in tools)
            request = replace(request, tools=kept)
        pictures = [e for e in request.history if _is_picture(e)]
        refused = more | frozenset(self._refused.get(model, ()))
        if self._blind.get(model, 0) > 1:
            refused |= _keys(pictures)
        too_old = self._too_old([e for e in pictures if key_of(e) not in refused])
        if not (refused or too_old):
            return request
        history = chain.from_iterable(
            _without(entry, refused, too_old) for entry in request.history
        )
        return replace(request, history=tuple(history))

    def with_tools(self, request: Request) -> Request:
        """The request with tools as every API takes them, and calls that match."""
        if not request.tools:
            return request
        form = self.form(request.tools)
        history = request.history
        if form.names:
            history = renamed(history, form.names)
        return replace(request, tools=form.tools, history=history)

    def form(self, tools: tuple[Tool, ...]) -> Adapted:
        """Tools as they are sent; made once for the same tools."""
        known, form = self._adapted
        is_same = len(known) == len(tools) and all(map(is_, known, tools))
        if not is_same:
            most = None if self.kind in NO_LIMIT_OF_TOOLS else MOST_TOOLS
            form = adapted(tools, most=most)
            self._adapted = (tools, form)
        return form

    def _too_old(self, pictures: list[Entry]) -> Keys:
        """The oldest pictures beyond the known limits of the server."""
        most = MOST_PICTURES.get(self.kind, len(pictures))
        room = MOST_CHARACTERS.get(self.kind)
        sizes = [len(each.tool_args) for each in pictures]
        dropped = 0
        if len(pictures) > most:
            dropped = _whole_steps(len(pictures) - most, most // STEPS)
        if room is not None and sum(sizes[dropped:]) > room:
            wanted = _whole_steps(sum(sizes) - room, room // STEPS)
            while dropped < len(sizes) - 1 and sum(sizes[:dropped]) < wanted:
                dropped += 1
        return _keys(pictures[:dropped])

    def remember(self, model: str, keys: Keys, tools: Iterable[str]) -> None:
        """Leave these out of all later requests to the model."""
        _add(self._refused.setdefault(model, {}), keys)
        self._tools.setdefault(model, set()).update(tools)

    def note_reply(self, model: str, sent: Request, entries: Iterable[Entry]) -> None:
        """Learn from a reply: which pictures it took, and what it thought itself."""
        if any(map(_is_picture, sent.history)):
            self._accepted_pictures.add(model)
        own = (e for e in entries if e.role == "thinking" and e.tool_args)
        _add(self._written.setdefault(model, {}), _keys(own))

    def untold(self, names: Iterable[str]) -> list[str]:
        """Tools of which a person was not told yet."""
        new = [name for name in names if name not in self._told]
        self._told.update(new)
        return new

    def note_blind(self, model: str) -> None:
        """Count that a model took a request only without pictures.

        After two of them no picture is sent to a model that never took one.
        """
        if model not in self._accepted_pictures:
            self._blind[model] = self._blind.get(model, 0) + 1

    def is_foreign(self, model: str, entry: Entry) -> bool:
        """True if thinking was written by another model, or by this one long ago."""
        return key_of(entry) not in self._written.get(model, ())


class Trial:
    """A request that may be refused, and what is left out of it one after the other."""

    def __init__(self, known: RefusedContent, model: str, request: Request) -> None:
        self._known, self._model, self._whole = known, model, request
        self.request = known.sendable(model, request)
        self._left_out: Keys = frozenset()
        self._newest: Step | None = None
        self._tried: set[Keys] = set()
        self._words = ""
        self._tools: list[str] = []
        self._first: Refusal | None = None
        self._is_told = False

    def learn(self, refusal: Refusal | None, sent: Callable[[], Json]) -> bool:
        """True if `request`, which now lacks another part, should be sent again.

        `sent` gives the body that was refused.
        """
        if refusal is None or not may_be_content(refusal):
            return False
        self._first = self._first or refusal
        if self._learned_elsewhere():
            return True
        words = f"{refusal.message} {refusal.parameter}"
        if name := self._named_tool(words, sent):
            self._tools.append(name)
            kept = tuple(each for each in self._whole.tools if each.name != name)
            self._whole = replace(self._whole, tools=kept)
            self.request = self._sendable()
            return True
        if self._newest is not None and self._is_useless(self._newest, words):
            self._left_out -= self._newest.keys
        self._words = words
        self._newest = None
        if len(self._tried) < MOST_ATTEMPTS:
            is_last = len(self._tried) == MOST_ATTEMPTS - 1
            steps = self._steps(words, sent, is_last=is_last)
            self._newest = next(filter(self._is_new, steps), None)
        if self._newest is None:
            return False
        self._left_out |= self._newest.keys
        self._tried.add(self._left_out)
        self.request = self._sendable()
        return True

    def _learned_elsewhere(self) -> bool:
        """True if another thread has learned meanwhile what to leave out, too."""
        before, self.request = self.request, self._sendable()
        is_same = self.request.history == before.history
        return not is_same or len(self.request.tools) != len(before.tools)

    def accepted(self, entries: Iterable[Entry]) -> None:
        """Remember what helped."""
        self._known.note_reply(self._model, self.request, entries)
        self._known.remember(self._model, self._left_out, self._tools)
        had_pictures = any(key_of(e) in self._left_out for e in self._pictures())
        if had_pictures and not any(map(_is_picture, self.request.history)):
            self._known.note_blind(self._model)

    def news(self, shown: Callable[[str], str]) -> Iterator[ContentLeftOut]:
        """Events about content left out of a request that the server answers; once.

        `shown` hides keys in the server's words.
        """
        if self._is_told:
            return
        self._is_told = True
        yield from self._too_many_tools()
        if self._first is None:
            return
        entries = [e for e in self._whole.history if key_of(e) in self._left_out]
        parts = [*_labels(entries), *(f"the tool {name}" for name in self._tools)]
        if parts:
            model = f"{self._known.kind}:{self._model}"
            yield ContentLeftOut(tuple(parts), model, shown(self._first.message))

    def called(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """The entries of a reply, whose calls have the real names of arguments."""
        names = self._known.form(self._whole.tools).names
        return tuple(with_names(entry, names) for entry in entries)

    def _too_many_tools(self) -> Iterator[ContentLeftOut]:
        tools = self._whole.tools
        left_out = self._known.form(tools).left_out if tools else ()
        parts = tuple(f"the tool {name}" for name in self._known.untold(left_out))
        if parts:
            model = f"{self._known.kind}:{self._model}"
            yield ContentLeftOut(
                parts, model, f"It accepts at most {MOST_TOOLS} tools."
            )

    def _sendable(self) -> Request:
        return self._known.sendable(self._model, self._whole, self._left_out)

    def _is_new(self, step: Step) -> bool:
        wanted = self._left_out | step.keys
        return bool(step.keys - self._left_out) and wanted not in self._tried

    def _is_useless(self, step: Step, words: str) -> bool:
        """True if the server says the same about a request without these parts.

        Other numbers do not count, unless it names a part by its index.
        """
        if step.is_named:
            return words == self._words
        return re.sub(r"\d+", "", words) == re.sub(r"\d+", "", self._words)

    def _pictures(self) -> list[Entry]:
        return [e for e in self._whole.history if _is_picture(e)]

    def _steps(
        self, words: str, sent: Callable[[], Json], *, is_last: bool
    ) -> Iterator[Step]:
        """Content to leave out, likeliest first; one that is named widens at last."""
        history = self._sendable().history  # with what was left out in vain
        pictures = [e for e in history if _is_picture(e)]
        attached = [e for e in history if e.is_attachment]
        thinking = [e for e in history if self._is_sent_thinking(e)]
        foreign = [e for e in thinking if self._known.is_foreign(self._model, e)]
        named = _named_entry(words, sent, history)
        about_thinking = [_keys(foreign), _keys(thinking)]
        about_pictures = [_keys(attached[-1:]), _keys(pictures)]
        if named is not None and is_last:  # one after the other would not end
            about_pictures.reverse()
        if named is not None and named.role == "thinking":
            yield Step(_keys(foreign) | _keys([named]), is_named=True)
        elif named is not None and not is_last:
            yield Step(_keys([named]), is_named=True)
        elif (most := _most_pictures(words, len(pictures))) is not None:
            yield Step(_keys(pictures[:-most]), is_named=True)
        is_thinking = ABOUT_THINKING.search(words) and not ABOUT_PICTURES.search(words)
        usual = [*about_pictures, about_thinking[0]]
        yield from map(Step, about_thinking if is_thinking else usual)

    def _is_sent_thinking(self, entry: Entry) -> bool:
        is_ours = entry.tool_name == self._known.thinking_of
        return entry.role == "thinking" and is_ours and bool(entry.tool_args)

    def _named_tool(self, words: str, sent: Callable[[], Json]) -> str:
        """The tool that a refusal names, by its index or name; empty for none."""
        if len(self._tools) >= MOST_TOOLS_REFUSED or not self.request.tools:
            return ""
        name = ""
        if found := TOOL_PLACE.search(words):
            listed, place = a_list(sent().get("tools")), int(found[1])
            each = an_object(listed[place]) if place < len(listed) else {}
            name = str(each.get("name") or an_object(each.get("function")).get("name"))
        elif found := TOOL_NAME.search(words):
            name = found[1]
        names = {each.name for each in self.request.tools}
        return name if name in names and name != self.request.tool_choice else ""


def may_be_content(refusal: Refusal) -> bool:
    """True if a refusal may be about content: not about key, quota, rate or length."""
    words = refusal.message
    is_about = ABOUT_PICTURES.search(words) or ABOUT_THINKING.search(words)
    if refusal.status >= SERVER_ERROR:  # llama.cpp refuses pictures with a 500
        return bool(is_about)
    if refusal.error_class is not RequestRefused:
        return False
    is_missing = refusal.status == 404  # noqa: PLR2004  # an address or a model
    return not is_missing or bool(is_about and "model" not in words.lower())


def key_of(entry: Entry) -> int:
    """A number for a part; its text is hashed once, however long it is."""
    return hash((entry.role, entry.tool_args or entry.content))


def _keys(entries: Iterable[Entry]) -> Keys:
    return frozenset(map(key_of, entries))


def _add(known: dict[int, None], keys: Iterable[int]) -> None:
    """Add keys, and forget the oldest ones where there are too many."""
    known.update(dict.fromkeys(keys))
    while len(known) > MOST_REMEMBERED:
        del known[next(iter(known))]


def _is_picture(entry: Entry) -> bool:
    return entry.tool_name == "image" and entry.role == "user"


def _whole_steps(excess: int, step: int) -> int:
    """The excess as a multiple of a step."""
    return -(-excess // max(step, 1)) * max(step, 1)


def _without(entry: Entry, refused: Keys, too_old: Keys) -> Iterator[Entry]:
    """The entry, a note in place of a picture or file, or nothing."""
    if entry.role not in ("user", "thinking") or not entry.tool_name:
        yield entry
        return
    key = key_of(entry)
    if key not in refused and key not in too_old:
        yield entry
    elif entry.role == "user":
        note = REFUSED_NOTE if key in refused else OLD_NOTE
        yield Entry("user", f"{entry.content} {note}".strip())


def _most_pictures(words: str, count: int) -> int | None:
    """The number of pictures that a refusal allows, where it names a smaller one."""
    if not (ABOUT_PICTURES.search(words) and LIMITED.search(words)):
        return None
    plain = PLACE.sub("", words)
    numbers = (int(found[1]) for found in NUMBER.finditer(plain))
    return next((number for number in numbers if 0 < number < count), None)


def _named_entry(
    words: str, sent: Callable[[], Json], history: Iterable[Entry]
) -> Entry | None:
    """The picture, file or thinking that a refusal names by its index."""
    found = PLACE.search(words)
    if found is None:
        return None
    body = sent()
    messages = next((a_list(body[n]) for n in ("messages", "input") if n in body), [])
    place = int(found[1])
    message = an_object(messages[place]) if place < len(messages) else {}
    blocks = [an_object(each) for each in a_list(message.get("content"))] or [message]
    if found[2] is not None:
        blocks = blocks[int(found[2]) :][:1]
    marks = [mark for mark in map(_mark, blocks) if mark]
    can_leave = [e for e in history if e.is_attachment or e.role == "thinking"]
    named = [each for each in can_leave if marks and _entry_mark(each) in marks]
    return named[0] if len(named) == 1 else None


def _mark(block: Json) -> str:
    """The key of a block: its data, signature, id or text."""
    source = an_object(block.get("source"))
    url = block.get("image_url")
    address = url if isinstance(url, str) else an_object(url).get("url")
    found: Any = source.get("data") or str(address or "").partition(";base64,")[2]
    for name in ("signature", "data", "encrypted_content", "text"):
        found = found or block.get(name)
    return str(found or "")


def _entry_mark(entry: Entry) -> str:
    if entry.role == "thinking":
        return _mark(entry.arguments)
    image = image_of(entry)
    return image[1] if image else user_text(entry)


def _labels(entries: Iterable[Entry]) -> Iterator[str]:
    """How a person knows the parts; thinking is named once."""
    has_thinking = False
    for entry in entries:
        if entry.role == "thinking":
            has_thinking = True
            continue
        name = str(entry.arguments.get("name") or "")
        kind = "picture" if _is_picture(entry) else "file"
        said = entry.content.rstrip(" :")
        yield f"the {kind} {name}" if name else said[:1].lower() + said[1:]
    if has_thinking:
        yield "the thinking of an earlier model"


OPTIONAL = (
    *("reasoning_effort", "reasoning.effort", "reasoning.summary", "reasoning"),
    *("thinking", "output_config.effort", "include"),
    *("temperature", "top_p", "seed", "stop", "stop_sequences", "frequency_penalty"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens"),
    *("stream_options", "prompt_cache_key", "prompt_cache_options"),
)
"""Fields of a request, as paths, without which it asks the same."""

WARNED = ("tools", "temperature", "top_p", "seed", "stop", "stop_sequences")
"""Fields that a person has chosen; the others are of no consequence."""

RENAMED = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
"""Fields with two names: OpenAI's new models refuse the old, other servers the new."""

UNSUPPORTED = re.compile(
    r"unsupported|not supported|does ?n[o']t support|unrecognized|unknown|unexpected"
    r"|not permitted|not allowed"
    r"|must be verified",  # an organization, to read summaries of reasoning
    re.IGNORECASE,
)

TOOLS_WITH_REASONING = re.compile(
    r"function tools with reasoning_effort", re.IGNORECASE
)
"""OpenAI's chat completions since gpt-5.2: with tools only `none`, and from gpt-5.6 on
it must be sent. https://github.com/openai/openai-openapi/issues/541"""

SUPPORTED_VALUES = re.compile(r"supported values are:?(.*)", re.IGNORECASE | re.DOTALL)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Efforts of reasoning from least to most."""

DEMANDED = re.compile(r"reasoning_content", re.IGNORECASE)
"""DeepSeek's error when a reply's reasoning is not sent back with its tool calls.
https://api-docs.deepseek.com/guides/thinking_mode"""

REASONING_BACK = "messages.reasoning_content"
"""Learned from that error: replies are sent back with their reasoning."""

NO_REASONING_WITH_TOOLS = "tools.reasoning_effort"
"""Learned where tools are refused with reasoning: `none` is sent with them."""

NO_TOOLS = re.compile(
    r"does not support (tools|function)|tools? (is|are) not supported"
    r"|requires --enable-auto-tool-choice",
    re.IGNORECASE,
)
"""Errors of Ollama, others and vLLM about a model that calls no tools."""

DROPPED = object()


class Adaptations:
    """Parameters that each model refused, and what is sent instead."""

    def __init__(self) -> None:
        self._changes: dict[str, dict[str, Any]] = {}
        self._tried: set[tuple[str, str, str]] = set()

    def learn(self, model: str, sent: Json, error: Mapping[str, Any]) -> bool:
        """True if another request may succeed where `sent` was refused with `error`."""
        found = next(_changes(sent, error), None)
        if found is None:
            return False
        path, value = found
        attempt = (model, path, str(value))
        if attempt in self._tried:
            return False
        self._tried.add(attempt)
        if path in WARNED:
            it = "them" if path == "tools" else "it"
            logger.warning(
                "%s doesn't accept %s, so requests are sent without %s.",
                model,
                path,
                it,
            )
        self._changes.setdefault(model, {})[path] = value
        return True

    def applied(self, model: str, fields: Json) -> Json:
        """The fields of a request to a model without what it refused."""
        for path, value in self._changes.get(model, {}).items():
            if path == "tools":
                fields = _with(_with(fields, path, value), "tool_choice", value)
            elif path == NO_REASONING_WITH_TOOLS and "tools" in fields:
                fields = {**fields, "reasoning_effort": value}
            else:
                fields = _with(fields, path, value)
        return fields

    def returns_reasoning(self, model: str) -> bool:
        """True if the model demands the reasoning of earlier replies."""
        return REASONING_BACK in self._changes.get(model, {})


def _changes(sent: Json, error: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The changes that may help, the best first."""
    message = str(error.get("message") or "")
    if TOOLS_WITH_REASONING.search(message):
        yield NO_REASONING_WITH_TOOLS, "none"
        return
    if DEMANDED.search(message) and "messages" in sent:
        yield REASONING_BACK, True
        return
    if NO_TOOLS.search(message):
        if sent.get("tool_choice") in ("auto", "none"):  # no call is demanded
            yield "tools", DROPPED
        return
    codes = f"{error.get('code')} {error.get('type')} {message}"
    path = _named(sent, str(error.get("param") or ""), message)
    if not path or not UNSUPPORTED.search(codes.replace("_", " ")):
        return
    nearest = _nearest(_at(sent, path), message)
    if nearest:
        yield path, nearest
    elif path in RENAMED and RENAMED[path] in message:
        yield path, RENAMED[path]
    else:
        yield path, DROPPED


def _named(sent: Json, parameter: str, message: str) -> str:
    """The optional field that an error is about; empty if there is none."""
    present = [path for path in OPTIONAL if _at(sent, path) is not None]
    if parameter:
        known = (path for path in present if parameter.startswith(path))
        return next(known, "")
    words = set(re.findall(r"[\w.]+", message))
    named = (path for path in present if {path, path.partition(".")[2]} & words)
    return next(named, "")


def _nearest(value: object, message: str) -> str:
    """The listed effort that is nearest to the refused one; empty without a list."""
    listed = SUPPORTED_VALUES.search(message)
    if value not in EFFORTS or not listed:
        return ""
    allowed = [each for each in EFFORTS if re.search(rf"\b{each}\b", listed[1])]
    wanted = EFFORTS.index(str(value))
    return min(allowed, key=lambda each: abs(EFFORTS.index(each) - wanted), default="")


def _at(fields: Json, path: str) -> Any:
    value: Any = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _with(fields: Json, path: str, value: Any) -> Json:
    """The fields with another value at a path; unchanged if they have none there."""
    name, _, rest = path.partition(".")
    if _at(fields, path) is None:
        return fields
    others = {key: each for key, each in fields.items() if key != name}
    if path in RENAMED and value is not DROPPED:
        return {**others, value: fields[path]}
    if rest:
        value = _with(fields[name], rest, value) or DROPPED
    return others if value is DROPPED else {**others, name: value}
