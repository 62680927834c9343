"""Sessions as files: export to md, html, json and ipynb, import from json and ipynb.

json holds the whole session. ipynb has a `%%chat` cell for each prompt, the answers as
plain text below it, and the session in the metadata, from which it is imported. The
html page runs no scripts and fetches nothing. `MarkdownLog` exports after each turn.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from html import escape
from itertools import pairwise, repeat
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from markdown_it import MarkdownIt

from nbchat.config.private_files import write_private
from nbchat.conversation.entries import Compaction, Entry, Texts, Usage
from nbchat.conversation.session import Session
from nbchat.conversation.turns import turns
from nbchat.errors import HistoryError, LogNotWritten, NbchatError
from nbchat.rendering.banners import compaction_html, compaction_text
from nbchat.rendering.conversation import timeline
from nbchat.rendering.entries import entry_html, request_text
from nbchat.rendering.markdown import stylesheet
from nbchat.rendering.plain_text import displayable
from nbchat.storage.session_log import session_log

Format = Literal["md", "html", "json", "ipynb"]

FORMATS: tuple[Format, ...] = get_args(Format)

Value = TypeVar("Value")

VERSION = 1
"""Version of the json and ipynb formats; files of a later one are refused."""

MOST_INTEGER = 2**53
"""Limit of a number in a file: every database and JSON reader takes those below."""

UNTITLED = "Empty session"

PAGE_STYLE = """
html { color-scheme: light dark; }
body { margin: 0; }
.nbc { max-width: 860px; margin: 24px auto; padding: 8px 24px; overflow: visible; }
.nbc pre { white-space: pre-wrap; }
"""
"""CSS that an exported page needs beside the panel's."""

_LINE_START = re.compile(r"^([\s>*+\-\d.)]*)(#|`{3}|~{3})")
_RULE = re.compile(r"^([\s>]*)((?:=+|-+|\*{3,}|_{3,})\s*)$")
"""A line that makes a heading of the one before it, or begins front matter."""


def exported(session: Session, to: Format) -> str:
    """Export a session; the text contains no lone surrogates."""
    writers = {"md": _markdown, "html": _page, "json": _json, "ipynb": _notebook}
    return writers[to](session)


def imported(text: str) -> Session:
    """Import a session from exported json or ipynb; raises HistoryError."""
    try:
        found = json.loads(text)
        if "cells" in found:
            found = _from_cells(found)
        version = found["nbchat"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HistoryError(
            "This isn't an exported session. "
            "Use a json or ipynb file from nbchat export."
        ) from error
    if version != VERSION:
        raise HistoryError(
            "A newer nbchat exported this file. Upgrade nbchat.\n"
            f"Its format is {version!r}."
        )
    return _session(found)


def format_named(name: str) -> Format:
    """Check the name of a format; raises NbchatError that lists all of them."""
    for each in FORMATS:
        if each == name:
            return each
    raise NbchatError(f"No format named {name!r}. Choose one of {', '.join(FORMATS)}.")


class MarkdownLog:
    """Keeps a session up to date in a folder, as files readable by the user alone.

    `<session id>.md` is the conversation, and once something was compacted or shortened
    `<session id>.SESSION_LOG.md` is the log of that.
    """

    def __init__(self, folder: str = "") -> None:
        """Without a folder, nothing is written."""
        self.folder = folder
        self.window: int | None = None
        """Tokens of the model's window, of which the log shows sizes as shares."""

    def write(self, session: Session) -> None:
        """Write the file; raises LogNotWritten."""
        if not (self.folder and session.transcript):
            return
        try:
            self._write(session)
        except (OSError, RuntimeError, ValueError) as error:  # unknown home, null byte
            reason = getattr(error, "strerror", None) or error
            raise LogNotWritten(
                f"Can't write to log_folder {self.folder!r}: {reason}."
            ) from error

    def remove(self, session_id: str) -> int:
        """Delete the files of a session; returns how many. Raises LogNotWritten.

        A link, or another user's file of that name, is not ours and stays.
        """
        removed = 0
        try:
            for file in self._files(session_id) if self.folder else ():
                if _is_ours(file):
                    file.unlink()
                    removed += 1
        except (OSError, RuntimeError, ValueError) as error:
            raise LogNotWritten(
                f"Can't delete the log in log_folder {self.folder!r}.\n{error}"
            ) from error
        return removed

    def _files(self, session_id: str) -> tuple[Path, Path]:
        name = re.sub(r"[^\w-]", "_", session_id)  # an id may come from a file
        folder = Path(self.folder).expanduser()
        return folder / f"{name}.md", folder / f"{name}.SESSION_LOG.md"

    def _write(self, session: Session) -> None:
        conversation, log = self._files(session.session_id)
        conversation.parent.mkdir(parents=True, exist_ok=True)
        write_private(conversation, exported(session, "md"))
        if session.finished_compactions:
            write_private(log, session_log(session, self.window))


def _is_ours(file: Path) -> bool:
    try:
        found = file.lstat()
    except FileNotFoundError:
        return False
    is_file = stat.S_ISREG(found.st_mode)
    return is_file and (not hasattr(os, "getuid") or found.st_uid == os.getuid())


def _json(session: Session) -> str:
    return json.dumps({**_head(session), **_body(session)}, indent=1) + "\n"


def _head(session: Session) -> dict[str, Any]:
    """Everything but the transcript and its usages."""
    return {
        "nbchat": VERSION,
        "session_id": session.session_id,
        "pins": session.pins,
        "dropped_rules": session.dropped_rules,
        "compactions": [asdict(record) for record in session.compactions],
    }


def _body(session: Session, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """The transcript from `start` to `stop`, with its usages."""
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
    """A turn as a cell; its source is the prompt, unless `source` is given."""
    entries = session.transcript[turn.start : turn.stop]
    prompt = "\n\n".join(entry.content for entry in entries if entry.is_of_user)
    shown = "\n\n".join(_plain(entry) for entry in entries if not entry.is_of_user)
    output = {"output_type": "stream", "name": "stdout", "text": displayable(shown)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": f"turn-{number}",
        "metadata": {"nbchat": _body(session, turn.start, turn.stop)},
        "outputs": [output] if shown else [],
        "source": source or displayable(f"%%chat\n{prompt}"),
    }


def _plain(entry: Entry) -> str:
    if entry.is_call:
        return f"[{entry.tool_name} {entry.tool_args}]"
    return f"[{request_text(entry)}]" if entry.is_by_nbchat else entry.content


def _from_cells(book: Mapping[str, Any]) -> dict[str, Any]:
    """Collect the session from a notebook's metadata; other cells are ignored."""
    entries: list[Any] = []
    usages: list[Any] = []
    for cell in book["cells"]:
        if part := cell.get("metadata", {}).get("nbchat"):
            usages += [[len(entries) + length, each] for length, each in part["usages"]]
            entries += part["transcript"]
    return {**book["metadata"]["nbchat"], "transcript": entries, "usages": usages}


def _session(found: Mapping[str, Any]) -> Session:
    try:
        usages = _read(found["usages"], tuple[tuple[int, Usage], ...])
        lengths = [0, *(at for at, _ in usages), len(found["transcript"]) + 1]
        if any(before >= after for before, after in pairwise(lengths)):
            raise ValueError("the usage records do not match the messages")  # noqa: TRY301
        return Session(
            found["transcript"],
            session_id=_read(found["session_id"], str),
            compactions=_read(found["compactions"], tuple[Compaction, ...]),
            usages=usages,
            pins=_read(found["pins"], Texts),
            dropped_rules=_read(found.get("dropped_rules", []), Texts),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"The exported session is damaged.\n{type(error).__name__}: {error}"
        ) from error


def _read(value: Any, kind: Any) -> Any:
    """A parsed JSON value as a value of a type; raises errors that `_session` reports.

    Fields that a file of an earlier version lacks get their defaults.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value not in parts:
            raise ValueError(f"invalid value: {repr(value)[:60]}")
        return value
    if origin is UnionType:
        return None if value is None else _read(value, parts[0])
    if origin is tuple:
        kinds = repeat(parts[0], len(value)) if parts[-1] is Ellipsis else parts
        return tuple(_read_each(value, kinds))
    make: Callable[..., Any] = kind
    if is_dataclass(kind):
        given, kinds_of = _typed(value, dict), get_type_hints(kind).items()
        return make(**{n: _read(given[n], its) for n, its in kinds_of if n in given})
    if issubclass(kind, tuple):
        return make(*_read_each(value, get_type_hints(kind).values()))
    return _typed(value, kind)


def _read_each(values: Any, kinds: Iterable[Any]) -> Iterator[Any]:
    for value, kind in zip(_typed(values, list), kinds, strict=True):
        yield _read(value, kind)


def _typed(value: Any, kind: type[Value]) -> Value:
    if type(value) is not kind:
        raise TypeError(f"{repr(value)[:60]} is not of type {kind.__name__}")
    if isinstance(value, int) and not 0 <= value < MOST_INTEGER:
        raise ValueError(f"{str(value)[:20]} is out of range")
    return value


def _markdown(session: Session) -> str:
    """Headings for speakers, fenced blocks for tool calls and results."""
    title = f"# {_inert_line(session.title) or UNTITLED}"
    shown = [title, *_parts(session, _entry_markdown, _quoted)]
    return displayable("\n\n".join(filter(None, shown))) + "\n"


def _parts(
    session: Session,
    of_entry: Callable[[Entry], str],
    of_compaction: Callable[[Compaction], str],
) -> Iterator[str]:
    """Entries and compactions in the order they happened."""
    for _, part in timeline(session):
        if isinstance(part, Compaction):
            yield of_compaction(part)
        else:
            yield of_entry(part)


def _entry_markdown(entry: Entry) -> str:
    if entry.is_call:
        return f"**Tool** {_code(entry.tool_name)}\n\n{_fenced(entry.tool_args)}"
    if entry.is_by_nbchat:
        return f"*{_inert_line(request_text(entry))}*"
    if entry.is_tool_picture:
        return f"*{_inert_line(entry.content)} [{_inert_line(entry.tool_name)}]*"
    match entry.role:
        case "user" | "assistant":
            text = f"## {'You' if entry.role == 'user' else 'Assistant'}"
            name = _inert_line(entry.tool_name)
            text += f"\n\n[{name}]" if entry.is_attachment else ""
            text += f"\n\n{_inert(entry.content)}"
            text += "\n\n*cut off here*" if entry.is_incomplete else ""
        case "thinking" if not entry.content:
            text = ""
        case _:
            label = "Result" if entry.role == "tool" else entry.role.capitalize()
            failed = " (failed)" if entry.is_error else ""
            text = f"**{label}**{failed}\n\n{_fenced(entry.content)}"
    return text


def _quoted(record: Compaction) -> str:
    summary = f"\n\n{_fenced(record.summary)}" if record.summary else ""
    line = " ".join(compaction_text(record).split())
    return f"> {_inert_line(line)}{summary}"


def _inert(text: str) -> str:
    """Markdown that fetches nothing and forges no part of the page.

    Code blocks are fenced again, so that every reader sees their end; elsewhere images,
    HTML, headings and fences are escaped.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    parts: list[str] = []
    done = 0
    for token in MarkdownIt("commonmark").parse("\n".join(lines)):
        if token.level or token.type not in ("fence", "code_block") or not token.map:
            continue
        parts += map(_inert_line, lines[done : token.map[0]])
        language = "".join(re.findall(r"[\w+#-]", token.info))[:30]
        parts.append(_fenced(token.content.removesuffix("\n"), language))
        done = token.map[1]
    return "\n".join([*parts, *map(_inert_line, lines[done:])])


def _inert_line(line: str) -> str:
    """A line outside of code: no HTML, image, heading, fence or rule."""
    line = line.replace("<", "&lt;").replace("![", "&#33;[")
    line = _LINE_START.sub(r"\1\\\2", line)
    return _RULE.sub(r"\1\\\2", line)


def _fenced(text: str, language: str = "") -> str:
    """A fenced block with a fence longer than any run of backticks in the text."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(name: str) -> str:
    ticks = "`" * (_longest_run(name) + 1)
    return f"{ticks} {' '.join(name.split())} {ticks}"


def _longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(
        map(len, "".join(c if c == "`" else " " for c in text).split()), default=0
    )


def _page(session: Session) -> str:
    """A standalone page; its policy forbids scripts and requests."""
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
