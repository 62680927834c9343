"""A session as a file: md and html to read, json and ipynb also to come back from.

json holds all of a session. ipynb is the notebook in which the conversation would have
been had: a `%%chat` cell for each message, the answers as plain text below it, and the
session in the metadata, which is what is read back. Nothing in html runs or is fetched.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from html import escape
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args

from nbchat.conversation.entries import Compaction, Entry, Kind, Revision, Status, Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turns import turns
from nbchat.errors import HistoryError, NbchatError
from nbchat.rendering.banners import compaction_html, compaction_text
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import entry_html
from nbchat.rendering.markdown import displayable, stylesheet

Format = Literal["md", "html", "json", "ipynb"]

FORMATS: tuple[Format, ...] = get_args(Format)

Value = TypeVar("Value")

VERSION = 1
"""Of what json and ipynb hold; a file of a later one is refused."""

UNTITLED = "An empty session"

PAGE_STYLE = """
html { color-scheme: light dark; }
body { margin: 0; }
.nbc { max-width: 860px; margin: 24px auto; padding: 8px 24px; overflow: visible; }
.nbc pre { white-space: pre-wrap; }
"""
"""What the panel's rules lack for a page of its own."""

_NEW = ("dollars", "priced_tokens", "model")
"""What a usage did not tell in files of earlier versions."""

_EXAMPLE = Compaction("", 0, 0, "")

_CHOICES = {
    "kind": get_args(Kind),
    "status": get_args(Status),
    "revision": get_args(Revision),
}


def exported(session: Session, to: Format) -> str:
    """A session in one of the formats; text that every encoder takes."""
    writers = {"md": _markdown, "html": _page, "json": _json, "ipynb": _notebook}
    return writers[to](session)


def imported(text: str) -> Session:
    """The session that an exported json or ipynb holds; raises HistoryError."""
    try:
        found = json.loads(text)
        if "cells" in found:
            found = _from_cells(found)
        version = found["nbchat"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HistoryError(
            "this is no exported session; use json or ipynb as nbchat export writes"
        ) from error
    if version != VERSION:
        raise HistoryError(f"it was exported by a newer nbchat (format {version!r})")
    return _session(found)


def format_named(name: str) -> Format:
    """A format by its name; raises NbchatError saying which there are."""
    for each in FORMATS:
        if each == name:
            return each
    raise NbchatError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")


def _json(session: Session) -> str:
    return json.dumps({**_head(session), **_body(session)}, indent=1) + "\n"


def _head(session: Session) -> dict[str, Any]:
    """All but what was said."""
    return {
        "nbchat": VERSION,
        "session_id": session.session_id,
        "pins": session.pins,
        "compactions": [asdict(record) for record in session.compactions],
    }


def _body(session: Session, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """What was said from `start` to `stop`, and the usages that came with it."""
    stop = len(session.transcript) if stop is None else stop
    return {
        "transcript": session.transcript[start:stop],
        "usages": [
            [length - start, asdict(usage)]
            for length, usage in session.usages
            if start < length <= stop
        ],
    }


def _notebook(session: Session) -> str:
    found = turns(session.transcript)
    start = found[0].start if found else len(session.transcript)
    first = _cell(session, range(start), 0, "%load_ext nbchat")
    cells = [_cell(session, turn, number) for number, turn in enumerate(found, 1)]
    book = {
        "cells": [first, *cells],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "name": "python3"},
            "language_info": {"name": "python"},
            "nbchat": _head(session),
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1) + "\n"


def _cell(
    session: Session, turn: range, number: int, source: str = ""
) -> dict[str, Any]:
    """A turn as a cell; without a `source` what the person said is its."""
    entries = session.transcript[turn.start : turn.stop]
    said = "\n\n".join(entry.content for entry in entries if entry.role == "user")
    shown = "\n\n".join(_plain(entry) for entry in entries if entry.role != "user")
    output = {"output_type": "stream", "name": "stdout", "text": displayable(shown)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": f"turn-{number}",
        "metadata": {"nbchat": _body(session, turn.start, turn.stop)},
        "outputs": [output] if shown else [],
        "source": source or displayable(f"%%chat\n{said}"),
    }


def _plain(entry: Entry) -> str:
    if entry.is_call:
        return f"[{entry.tool_name} {entry.tool_args}]"
    return entry.content


def _from_cells(book: Mapping[str, Any]) -> dict[str, Any]:
    """What a notebook's metadata hold; cells of other kinds are passed over."""
    entries: list[Any] = []
    usages: list[Any] = []
    for cell in book["cells"]:
        if held := cell.get("metadata", {}).get("nbchat"):
            usages += [[len(entries) + place, each] for place, each in held["usages"]]
            entries += held["transcript"]
    return {**book["metadata"]["nbchat"], "transcript": entries, "usages": usages}


def _session(found: Mapping[str, Any]) -> Session:
    try:
        return Session(
            found["transcript"],
            session_id=_typed(found["session_id"], str),
            compactions=[_compaction(record) for record in found["compactions"]],
            usages=_usages(found["usages"], len(found["transcript"])),
            pins=[_typed(pin, str) for pin in found["pins"]],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"the exported session is damaged: {type(error).__name__}: {error}"
        ) from error


def _usages(pairs: Iterable[Any], length: int) -> list[tuple[int, Usage]]:
    usages = [(_typed(at, int), _usage(figures)) for at, figures in pairs]
    places = [0, *(at for at, _ in usages), length + 1]
    if any(place >= after for place, after in pairwise(places)):
        raise ValueError("usages do not belong to its entries")
    return usages


def _compaction(record: Mapping[str, Any]) -> Compaction:
    """A record from what json makes of one; raises what `_session` reports."""
    values = {each.name: record[each.name] for each in fields(Compaction)}
    values["cost"] = _usage(values["cost"])
    values["replacements"] = tuple(
        (_typed(place, int), _typed(content, str))
        for place, content in values["replacements"]
    )
    for name, value in values.items():
        _typed(value, type(getattr(_EXAMPLE, name)))
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{name} cannot be {value!r}")
    return Compaction(**values)


def _usage(figures: Mapping[str, Any]) -> Usage:
    known = {each.name: type(getattr(Usage(), each.name)) for each in fields(Usage)}
    told = {
        name: figures[name] for name in known if name in figures or name not in _NEW
    }
    return Usage(**{name: _typed(value, known[name]) for name, value in told.items()})


def _typed(value: Any, kind: type[Value]) -> Value:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _markdown(session: Session) -> str:
    """Headings for who speaks, fences around what tools were told and told."""
    title = f"# {session.title or UNTITLED}"
    shown = [title, *_parts(session, _entry_markdown, _quoted)]
    return displayable("\n\n".join(filter(None, shown))) + "\n"


def _parts(
    session: Session,
    of_entry: Callable[[Entry], str],
    of_compaction: Callable[[Compaction], str],
) -> Iterator[str]:
    """What was said in order, each compaction where it happened."""
    for _, part in timeline(session):
        if isinstance(part, Compaction):
            yield of_compaction(part)
        else:
            yield of_entry(part)


def _entry_markdown(entry: Entry) -> str:
    if entry.is_call:
        return f"**Tool** {_code(entry.tool_name)}\n\n{_fenced(entry.tool_args)}"
    match entry.role:
        case "user" | "assistant":
            text = f"## {'You' if entry.role == 'user' else 'Assistant'}"
            text += f"\n\n[{entry.tool_name}]" if entry.is_attachment else ""
            text += f"\n\n{entry.content}"
            text += "\n\n*stopped here*" if entry.is_incomplete else ""
        case "thinking" if not entry.content:
            text = ""
        case _:
            label = "Result" if entry.role == "tool" else entry.role.capitalize()
            failed = " (failed)" if entry.is_error else ""
            text = f"**{label}**{failed}\n\n{_fenced(entry.content)}"
    return text


def _quoted(record: Compaction) -> str:
    story = f"\n\n{_fenced(record.summary)}" if record.summary else ""
    return f"> {' '.join(compaction_text(record).split())}{story}"


def _fenced(text: str) -> str:
    """A block that nothing inside of it can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def _code(name: str) -> str:
    ticks = "`" * (_longest_run(name) + 1)
    return f"{ticks} {' '.join(name.split())} {ticks}"


def _longest_run(text: str) -> int:
    """How many backticks stand in a row at most."""
    return max(
        map(len, "".join(c if c == "`" else " " for c in text).split()), default=0
    )


def _page(session: Session) -> str:
    """A page of its own that runs nothing and asks nobody for anything."""
    inside = "\n".join(_parts(session, entry_html, compaction_html))
    title = escape(displayable(session.title or UNTITLED))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n"
        f"<style>{stylesheet()}{PAGE_STYLE}</style></head>\n"
        f'<body><main class="nbc"><h1>{title}</h1>\n{inside}\n</main></body></html>\n'
    )
