"""Read tool calls and their results as records: an entity, its fields, its parts.

A JSON result is read as a tree of records. A value stays with the record that holds it,
and a record is named by its own id or by the arguments of its call, never by a status
code or by the id of something else. Numbers keep the digits they were written with.
"""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from nbchat.compaction.facts.outcome_words import Status
from nbchat.compaction.facts.result_shapes import (
    as_list,
    item_of,
)
from nbchat.compaction.facts.tool_names import CACHED_NAMES, creates, singular, snake

MOST_RECORDS, MOST_FIELDS, MOST_DEPTH = 2_000, 200, 8
"""Records read from one result, plain fields of one record, and levels of nesting."""

LONGEST_NAME, LONGEST_VALUE = 60, 200
"""Characters of an id, and of a value; longer texts are prose and not kept."""

MOST_SPACES, MOST_SPACES_OF_ID = 7, 3
"""Spaces in a value that is not taken for a sentence (streets, titles, names), and in
an id."""

CALL_SIGNS = "|,()"
"""Signs for which an argument is quoted where a call is shown."""

KEY = "key"
"""The label's field of a record that only its key in a dictionary names."""

SHORT_ID = 3
"""Characters of an id that several things may have, such as the one of a status."""

_IDENTITY = re.compile(r"(?:^|_)(?:ids?|number|no|key|uuid|sku|ref|code)$")
_FOREIGN = re.compile(
    r"^(?:(?:status|error|err|return|response|exit|zip|postal|country|currency|area|"
    r"language|lang|airport|promo|discount)_?(?:code|no|number)|code|errno|"
    r"(?:request|trace|correlation|message|session|span|event|transaction|batch|page)"
    r"_?(?:id|uuid|no|number))$"
)
"""Fields that look like ids and name no entity: status codes, ids of the request."""

_ENVELOPE = ("data", "result", "results", "response", "payload", "content", "output")
"""Fields in which services wrap what they return."""

_SECRET = re.compile(
    r"passw|secret|api_?key|access_?key|private_?key|auth|token$|credential|cookie|^pin$"
)
_SECRET_VALUE = re.compile(
    r"(?:sk|pk|rk)[-_][\w-]{12,}|AKIA\w{12,}|gh[pousr]_\w{16,}|xox[abp]-[\w-]{10,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.|-----BEGIN|AIza[\w-]{20,}"
)

_NEWS = re.compile(
    r"(?:success|ok|succeeded|successful|is_success|message|msg|detail|error|dry_run|cod)"
)
"""Fields that tell how a call went, not what is known of an entity."""


class Field(NamedTuple):
    """A plain value with the name of its field, such as `address.zip`."""

    name: str
    text: str

    @property
    def is_identity(self) -> bool:
        """Whether the field names an entity."""
        return is_identity(self.name)

    @property
    def group(self) -> str:
        """The first part of the name, `address`."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object: its own plain fields, and the objects inside it."""

    label: str = ""
    """The id of the entity; empty where the record has none."""
    label_field: str = ""
    fields: tuple[Field, ...] = ()
    parts: tuple[tuple[str, "Record"], ...] = ()
    """Records inside this one, each with the field that holds it."""
    is_listed: bool = False
    """Whether it is one of a list, or of a dictionary with ids as keys."""

    @property
    def is_plain(self) -> bool:
        """Whether it has neither an id nor parts: it describes the record around it."""
        return not self.label and not self.parts


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: what was asked, and what came back."""

    tool: str
    index: int
    """Index in the transcript of the result, or of a call without one."""
    asked: tuple[Field, ...]
    record: Record | None = None
    """The result, if it was JSON."""
    words: str = ""
    """The result in words, if it was not, or what it says of an action not done."""
    status: Status = "called"
    reasons: tuple[Field, ...] = ()
    """The fields of the result that say why an action is not done."""

    scope: str = dataclasses.field(init=False, compare=False)
    """Tool and arguments, by which results that belong to one call are known."""

    def __post_init__(self) -> None:
        """Write the scope once: it is asked for at each compaction."""
        asked = ", ".join(f"{e.name}: {quoted(e.text, CALL_SIGNS)}" for e in self.asked)
        object.__setattr__(self, "scope", f"{self.tool}({asked})")


def record_texts(record: Record) -> Iterator[str]:
    """The label and all values of a record."""
    yield record.label
    yield from (field.text for field in record.fields)
    for _, part in record.parts:
        yield from record_texts(part)


@lru_cache(CACHED_NAMES)
def is_identity(name: str) -> bool:
    """Whether a field's name says that its value names an entity."""
    own = snake(name.rpartition(".")[2])
    return bool(_IDENTITY.search(own)) and not _FOREIGN.match(own)


@lru_cache(CACHED_NAMES)
def kind_of(name: str) -> str:
    """The kind of thing that an id names: `order` of `order_id`, empty of `id`."""
    return singular(
        re.sub(r"_?(?:ids?|number|no|key|uuid|sku|ref|code)$", "", snake(name))
    )


def quoted(
    text: str, signs: Iterable[str] = "|", *, most_spaces: int = MOST_SPACES
) -> str:
    """A value as it is, or in quotation marks where it could be misread.

    That is where it contains one of `signs`, or reads like a sentence.
    """
    is_sentence = text.count(" ") > most_spaces
    is_odd = text.startswith(('"', "[", "(")) or any(sign in text for sign in signs)
    if not (is_sentence or is_odd or text != text.strip()):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain_text(value: Any) -> str:
    """A plain value on one line; empty for nothing, prose and containers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and len(value) <= LONGEST_VALUE * 2:
        text = " ".join(value.split())
        is_kept = len(text) <= LONGEST_VALUE and not _SECRET_VALUE.search(text)
        return text if is_kept else ""
    return ""


def _is_news(name: str) -> bool:
    """Whether a field tells how the call went, not what is known of an entity."""
    return bool(_NEWS.fullmatch(snake(name))) or bool(_FOREIGN.match(snake(name)))


def _argument_text(value: Any) -> str:
    """A plain value; of a long one the beginning."""
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        text = _plain_text(" ".join(value[: LONGEST_VALUE * 2].split())[:LONGEST_VALUE])
        return f"{text}…" if text else ""
    return _plain_text(value)


def plain_fields(node: dict[str, Any], prefix: str = "") -> Iterator[Field]:
    """Every plain value inside an object of arguments, with its path.

    Secrets are omitted.
    """
    waiting: list[tuple[str, Any]] = [(prefix, node)]
    found = 0
    while waiting and found < MOST_FIELDS:
        name, value = waiting.pop()
        if isinstance(value, dict):
            inner = ((_path(name, str(key)), each) for key, each in value.items())
            waiting += reversed(list(inner)[:MOST_FIELDS])
        elif isinstance(value, list):
            waiting += [(name, each) for each in reversed(value[:MOST_FIELDS])]
        elif (text := _argument_text(value)) and not _SECRET.search(snake(name)):
            found += 1
            yield Field(name, text)


def _path(prefix: str, key: str) -> str:
    key = " ".join(key.split())[:LONGEST_NAME]
    return f"{prefix}.{key}" if prefix else key


def record_of(
    tool: str, asked: tuple[Field, ...], answer: dict[str, Any] | list[Any]
) -> Record:
    """The record of a JSON result."""
    return _Reader(tool, asked).root(answer)


class _Reader:
    """Reads one JSON result as records."""

    def __init__(self, tool: str, asked: tuple[Field, ...]) -> None:
        self._tool_words = _objects(tool)
        self._creates = creates(tool)
        self._asked = asked
        self._asked_texts = {field.text for field in asked}
        self._left = MOST_RECORDS

    def root(self, answer: dict[str, Any] | list[Any]) -> Record:
        """The record of a whole result."""
        answer = _unwrapped(answer)
        rows = as_list(answer) if isinstance(answer, dict) else None
        answer = answer if rows is None else rows
        if isinstance(answer, list):
            return Record(parts=tuple(self._listed("", answer, 0)))
        answer = item_of(answer)
        if _is_keyed_by_id(answer):
            return Record(parts=tuple(self._inside("", answer, 0)))
        record = self._record(answer, 0)
        return self._named_as_asked(_labelled(record, self._root_label(record)))

    def _named_as_asked(self, record: Record) -> Record:
        """A record whose `id` has the name of the argument that asked for it."""
        if kind_of(record.label_field):
            return record
        same = (f.name for f in self._asked if f.text == record.label and f.is_identity)
        name = next(filter(kind_of, same), record.label_field)
        return replace(record, label_field=name)

    def _record(self, node: dict[str, Any], depth: int) -> Record:
        """A record without a label: plain fields, descriptions, and parts."""
        self._left -= 1
        fields: list[Field] = []
        parts: list[tuple[str, Record]] = []
        for key, value in node.items():
            name = " ".join(str(key).split())[:LONGEST_NAME]
            is_link = name in ("_links", "links") or name.startswith("@odata.")
            is_kept = not (is_link or _SECRET.search(snake(name)))
            if len(fields) >= MOST_FIELDS or not is_kept:
                continue
            items = as_list(value) if isinstance(value, dict) else value
            if isinstance(items, list):
                parts += self._listed(name, items, depth)
            elif isinstance(value, dict):
                parts += self._inside(name, value, depth)
            elif (text := _plain_text(value)) and not (depth == 0 and _is_news(name)):
                fields.append(Field(name, text))
        return _flattened(node, fields, parts)

    def _inside(
        self, name: str, node: dict[str, Any], depth: int
    ) -> Iterator[tuple[str, Record]]:
        """The record, or the records keyed by their ids, in a field."""
        if depth >= MOST_DEPTH or self._left <= 0:
            return
        if _is_keyed_by_id(node):
            for key, child in node.items():
                if self._left > 0:
                    record = self._record(child, depth + 1)
                    yield name, _labelled(record, _key_field(str(key), record))
        else:
            record = self._record(node, depth + 1)
            alone = _Siblings([record], {singular(snake(name))})
            label = alone.id_of(record, self._asked_texts)
            yield name, _labelled(record, label, is_listed=False)

    def _listed(
        self, name: str, nodes: Sequence[Any], depth: int
    ) -> Iterator[tuple[str, Record]]:
        """The records in a list; plain values are one record without field names."""
        if depth >= MOST_DEPTH:
            return
        plain = [text for node in nodes[:MOST_FIELDS] if (text := _plain_text(node))]
        if plain:
            yield name, Record(fields=tuple(Field("", text) for text in plain))
        objects = [item_of(e) for e in nodes if isinstance(e, dict)][: self._left]
        records = [self._record(node, depth + 1) for node in objects if self._left > 0]
        kinds = {singular(snake(name))} if name else self._tool_words
        siblings = _Siblings(records, kinds)
        for record in records:
            yield name, _labelled(record, siblings.id_of(record, self._asked_texts))
        for inner in (node for node in nodes if isinstance(node, list)):
            if self._left > 0:
                self._left -= 1
                parts = tuple(self._listed(name, inner, depth + 1))
                yield name, Record(parts=parts)

    def _root_label(self, record: Record) -> Field | None:
        """What a result is about: its own id, else what was asked for.

        What created something does not report on what it was asked with.
        """
        own = [field for field in record.fields if field.is_identity]
        own = [f for f in own if "." not in f.name and len(f.text) <= LONGEST_NAME]
        named = [f for f in own if kind_of(f.name) in self._tool_words]
        asked = [field for field in own if field.text in self._asked_texts]
        plain = [field for field in own if kind_of(field.name) == ""]
        both = [field for field in named if field in asked]
        for found in (both, named, asked, plain):
            if found:
                return found[0]
        keys = [f for f in self._asked if f.is_identity and len(f.text) <= LONGEST_NAME]
        about = [field for field in keys if kind_of(field.name) in self._tool_words]
        if not self._creates and (len(about) == 1 or len(keys) == 1):
            return (about or keys)[0]
        return own[0] if len(own) == 1 and not self._asked else None


def _flattened(
    node: dict[str, Any], fields: Sequence[Field], parts: Sequence[tuple[str, Record]]
) -> Record:
    """A record whose descriptions, such as an address, are fields of its own.

    A single object with a short id, such as a status, describes it, too.
    """
    counts = Counter(name for name, _ in parts)
    listed = _listed_names(node)
    flat, kept = list(fields), []
    for name, each in parts:
        is_single = counts[name] == 1 and name not in listed
        if is_single and each.label and len(each.label) <= SHORT_ID:
            own = Field(each.label_field, each.label)
            each = Record(fields=(own, *each.fields), parts=each.parts)  # noqa: PLW2901
        if each.is_plain and name and is_single:
            flat += [Field(_path(name, f.name), f.text) for f in each.fields]
        elif each.is_plain and not any(field.name for field in each.fields):
            flat += [Field(name, field.text) for field in each.fields]
        elif name and not each.label and is_single and each.fields:
            flat += [Field(_path(name, f.name), f.text) for f in each.fields]
            kept += [(_path(name, inner), part) for inner, part in each.parts]
        else:
            kept.append((name, each))
    return Record(fields=tuple(flat[:MOST_FIELDS]), parts=tuple(kept))


def _objects(tool: str) -> set[str]:
    """The things that a tool's name says it is about: `customer` of get_customer_by_id.

    What follows a preposition is only what it is asked with.
    """
    own = re.split(r"_(?:by|for|of|from|with|in|on)_", snake(tool))[0]
    return {singular(word) for word in own.split("_")}


def _listed_names(node: dict[str, Any]) -> set[str]:
    """The names of fields that hold lists, read once for all parts of an object."""
    return {
        " ".join(str(key).split())[:LONGEST_NAME]
        for key, value in node.items()
        if isinstance(value, list) or (isinstance(value, dict) and as_list(value))
    }


def _key_field(key: str, record: Record) -> Field:
    """The key of a dictionary as a field, by the name that the record gives it."""
    own = (f for f in record.fields if f.text == key and f.is_identity)
    return next(own, Field(KEY, key))


def _labelled(record: Record, label: Field | None, *, is_listed: bool = True) -> Record:
    if label is None or len(label.text) > LONGEST_NAME:
        return replace(record, is_listed=is_listed)
    fields = tuple(
        field
        for field in record.fields
        if field.text != label.text or not field.is_identity
    )
    return Record(label.text, label.name, fields, record.parts, is_listed)


def _unwrapped(answer: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    """What a service wrapped in an envelope, such as {"code": 0, "data": {...}}."""
    if not isinstance(answer, dict):
        return answer
    inner = [value for value in answer.values() if isinstance(value, dict | list)]
    wrapped = [name for name in answer if snake(str(name)) in _ENVELOPE]
    names = [snake(str(name)) for name in answer]
    is_envelope = (
        len(inner) == 1
        and len(wrapped) == 1
        and not any(is_identity(name) for name in names)
    )
    value = answer[wrapped[0]] if is_envelope else None
    return value if isinstance(value, dict | list) and value else answer


class _Siblings:
    """Records of one list, and the fields that can name them."""

    def __init__(self, records: Sequence[Record], kinds: set[str]) -> None:
        """Look at each record once; `kinds` are the things that the list holds."""
        self._kinds = kinds
        self._is_single = len(records) == 1
        values: dict[str, list[str]] = defaultdict(list)
        for each in records:
            for field in _ids_in(each):
                values[field.name].append(field.text)
        self._keys = {
            name
            for name, texts in values.items()
            if len(set(texts)) == len(texts) == len(records)
        }
        self._is_mixed = bool(records) and all(
            any(len(values[field.name]) < len(records) for field in _ids_in(each))
            for each in records
        )

    def id_of(self, record: Record, asked: set[str]) -> Field | None:
        """The field that names a record: one whose values all differ.

        The id of another thing names no record of a mixed list, in which some records
        have ids that others have not.
        """
        own = _ids_in(record)
        best = [f for f in own if not (kind := kind_of(f.name)) or kind in self._kinds]
        is_sure = self._is_single or self._is_mixed
        others = [f for f in own if f not in best and f.text not in asked]
        possible = best if is_sure else [*best, *others]
        return next((field for field in possible if field.name in self._keys), None)


def _ids_in(record: Record) -> list[Field]:
    """The ids among a record's own fields."""
    return [f for f in record.fields if f.is_identity and "." not in f.name]


def _is_keyed_by_id(node: dict[str, Any]) -> bool:
    """Whether the keys of a dictionary are ids of records, not names of fields."""
    return bool(node) and all(
        isinstance(value, dict) and any(sign.isdigit() for sign in str(key))
        for key, value in node.items()
    )
