"""List the files, commands and errors of a conversation, by their last use.

Files referenced:
src/app.py (read, edited)
Commands executed:
pytest -q tests (exit 1)
Errors encountered:
ValueError: bad port (from pytest -q tests)
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbchat.compaction.shortening import within
from nbchat.conversation.entries import Entry
from nbchat.conversation.turns import calls_by_result
from nbchat.providers.tokens import TokenCounter

FILES_TITLE = "Files referenced:"
COMMANDS_TITLE = "Commands executed:"
ERRORS_TITLE = "Errors encountered:"

READ_CHARACTERS, LINE_LIMIT, SOURCE_LIMIT = 50_000, 200, 60
"""Characters of an entry that are read, of a command or error that are kept, and of the
command that an error comes from."""

COMMAND_KEYS = ("command", "cmd", "script", "shell_command")
"""Arguments in which tools take a command."""

PATH_KEYS = ("path", "file", "filename", "notebook", "directory", "folder", "dir")
"""Ends of the names of arguments in which tools take a path."""

SHELL_WORDS = ("bash", "shell", "exec", "run", "terminal", "console", "cmd", "command")
"""Words in the names of tools that run commands."""

USES = (
    ("edited", "edit replace patch insert update modify append rename move sed mv"),
    ("deleted", "delete remove unlink rm rmdir"),
    ("written", "write create save put upload export tee touch mkdir cp"),
    ("run", "run exec execute bash sh zsh python python3 node pytest source make"),
    ("read", "read open view cat load show head tail less grep rg search list ls wc"),
)
"""What is done to a file, by the words of a tool's name or a command's first word; the
first that fits counts."""

_EXTENSIONS = (
    "py|ipynb|js|ts|tsx|jsx|json|jsonl|ya?ml|toml|md|rst|txt|csv|tsv|parquet|xlsx?|html"
    "|css|sql|sh|bat|ps1|cfg|ini|env|log|java|kt|go|rs|c|cc|cpp|h|hpp|rb|php|swift|r"
    "|pdf|png|jpe?g|svg|docx?|pptx?|zip|gz|tar|xml|lock"
)
_PART = r"[\w.@+-]{1,80}"
_FILE = re.compile(
    r"(?<![\w])[A-Za-z]:\\(?:[^\s\\/:*?\"'<>|]{1,80}\\){0,12}[^\s\\/:*?\"'<>|,;)]{1,80}"
    rf"|(?<![\w:/.~-])~/(?:{_PART}/){{0,12}}{_PART}/?"
    rf"|(?<![\w:/.-])\.{{1,2}}/(?:{_PART}/){{0,12}}{_PART}"
    rf"|(?<![\w:/.-])/?(?:{_PART}/){{1,12}}{_PART}\.\w{{1,8}}\b"
    rf"|(?<![\w/.@\\-])[\w-]{{1,60}}(?:\.\w{{1,10}}){{0,2}}\.(?:{_EXTENSIONS})\b"
)
_DIFF_PATH = re.compile(r"^(?:---|\+\+\+) [ab]/|^diff --git a/\S+ b/", re.MULTILINE)
_FENCE = re.compile(r"```(?:bash|sh|shell|console)\n(.{1,5000}?)```", re.DOTALL)
_PROMPT = re.compile(r"^\s{0,8}(?:\$|%|!|>>>)\s?(\S[^\n]{1,300})$", re.MULTILINE)
_EXIT = re.compile(
    r"\b(?:exit(?:ed)?(?:[ _]with)?[ _-]?(?:code|status)?|return[ _]?code)"
    r"[\"']?\s{0,2}[:=]?\s{0,2}(-?\d{1,4})\b",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"^(?:[\w./\\-]{1,120}:\d{1,6}(?::\d{1,6})?:\s?)?(?:E\s{1,8})?"
    r"(?:[A-Za-z_.]{0,60}(?:Error|Exception)|[Ee]rror|ERROR|[Ff]atal|FATAL|FAILED)\b"
    r"[: ](?:[ \t]*\n[ \t]*(?=\S))?[^\n]{0,300}",
    re.MULTILINE,
)
_CHAINED = re.compile(
    r"The above exception was the direct cause|During handling of the above exception"
    r"|^\s{0,8}Caused by:",
    re.MULTILINE,
)


def artifact_lines(
    entries: Sequence[Entry], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """Files, commands and errors under their titles; the newest are kept first."""
    lists = (
        (FILES_TITLE, files(entries)),
        (COMMANDS_TITLE, commands(entries)),
        (ERRORS_TITLE, errors(entries)),
    )
    found = [(title, names) for title, names in lists if names]
    lines: list[str] = []
    for left, (title, names) in zip(range(len(found), 0, -1), found, strict=True):
        limit = (budget_tokens - counter.count("\n".join(lines))) // left
        lines += _section(title, names, limit, counter)
    return lines


def _section(
    title: str, names: Sequence[str], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    limit = budget_tokens - counter.count(title)
    kept = within(reversed(names), limit, lambda line: counter.count(line) + 1)
    if not kept:
        return []
    missing = len(names) - len(kept)
    note = [f"({missing} earlier omitted)"] if missing else []
    return [title, *note, *reversed(kept)]


@dataclass(slots=True)
class _File:
    """A file, its last use, and what calls did to it, in order."""

    index: int = -1
    """Of the last call or message that names it; -1 where only results do."""
    uses: dict[str, None] = field(default_factory=dict)


def files(entries: Sequence[Entry]) -> list[str]:
    """File paths as they were written, and what was done to each, by their last use.

    Files that only results name come first, because they are omitted first.
    """
    failed = {
        call for index, call in _calls(entries).items() if entries[index].is_error
    }
    found: dict[str, _File] = {}
    for index, entry in enumerate(entries):
        acts = entry.is_call and index not in failed
        for path in dict.fromkeys(_paths(entry)):
            file = found.setdefault(path, _File())
            if entry.role != "tool":
                file.index = index
            if acts and (use := _use(entry, path)):
                file.uses[use] = None
    by_use = sorted(found.items(), key=lambda item: item[1].index)
    return [
        f"{path} ({', '.join(file.uses)})" if file.uses else path
        for path, file in by_use
    ]


def commands(entries: Sequence[Entry]) -> list[str]:
    """Commands in calls, with the exit status if it is known, and in code blocks."""
    results = {call: index for index, call in _calls(entries).items()}
    found: dict[str, str] = {}
    for index, entry in enumerate(entries):
        result = entries[results[index]] if index in results else None
        for command in filter(None, map(_one_line, _commands(entry))):
            found.pop(command, None)
            found[command] = _status(result)
    return [f"{command}{status}" for command, status in found.items()]


def errors(entries: Sequence[Entry]) -> list[str]:
    """Errors in results and user messages, each with its cause and its command."""
    calls = _calls(entries)
    found: dict[str, None] = {}
    for index, entry in enumerate(entries):
        source = _source(entries[calls[index]]) if index in calls else ""
        for error in filter(None, map(_one_line, _errors(entry))):
            line = f"{error}{source}"
            found.pop(line, None)
            found[line] = None
    return list(found)


def _calls(entries: Sequence[Entry]) -> dict[int, int]:
    """The index of each result and that of its call."""
    return dict(calls_by_result(entries))


def _paths(entry: Entry) -> Iterator[str]:
    """The paths in an entry; arguments for a path are taken as they are."""
    if entry.is_call and entry.arguments:
        for key, text in _texts(entry.arguments):
            is_path = key.lower().endswith(PATH_KEYS) and len(text) <= LINE_LIMIT
            yield from [text] if is_path and "\n" not in text else _found(text)
    elif entry.is_call:
        yield from _found(entry.tool_args)
    else:
        yield from _found(entry.content)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts in arguments and the names they have."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)


def _found(text: str) -> list[str]:
    """The paths in a text, without the prefixes of a diff."""
    text = _DIFF_PATH.sub("", text[:READ_CHARACTERS])
    return [path.rstrip(".,:;") for path in _FILE.findall(text)]


def _use(call: Entry, path: str) -> str:
    """What a call does to a file it names, as its command or its tool says."""
    given = (call.arguments.get(key) for key in COMMAND_KEYS)
    command = next((each for each in given if isinstance(each, str)), "").split()
    if command and command[0] == path:
        return "run"
    by_command = _use_of(_snake(command[0]).split("_")) if command else ""
    is_shell = any(word in call.tool_name.lower() for word in SHELL_WORDS)
    if by_command or (command and is_shell):
        return by_command
    return _use_of(re.split(r"[^a-z0-9]+", _snake(call.tool_name)))


def _use_of(words: Sequence[str]) -> str:
    return next((use for use, names in USES if set(words) & set(names.split())), "")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _commands(entry: Entry) -> Iterator[str]:
    if entry.is_call:
        given = (entry.arguments.get(key) for key in COMMAND_KEYS)
        is_shell = any(word in entry.tool_name.lower() for word in SHELL_WORDS)
        texts = (text for text in given if isinstance(text, str))
        yield from (text for text in texts if is_shell or " " in text.strip())
    elif entry.role in ("user", "assistant"):
        text = entry.content[:READ_CHARACTERS]
        for block in _FENCE.findall(text):
            yield from (line.lstrip("$ ") for line in block.splitlines())
        yield from _PROMPT.findall(text)


def _status(result: Entry | None) -> str:
    """The exit status that a result tells; tools write it first or last."""
    if result is None:
        return ""
    text = result.content
    found = _EXIT.findall(text[:LINE_LIMIT]) + _EXIT.findall(text[-LINE_LIMIT:])
    if found:
        return f" (exit {found[-1]})"
    return " (failed)" if result.is_error else ""


def _source(call: Entry) -> str:
    """The command, or the tool, that an error comes from."""
    command = _one_line(next(_commands(call), "")) or call.tool_name
    return f" (from {command[:SOURCE_LIMIT]})" if command else ""


def _errors(entry: Entry) -> Iterator[str]:
    if entry.is_error:
        yield entry.content.strip().removeprefix("error: ")
    elif entry.role in ("tool", "user"):
        text = entry.content[:READ_CHARACTERS]
        found = _ERROR.findall(text)
        if len(found) > 1 and _CHAINED.search(text):
            yield _with_cause(found, text)
        else:
            yield from found


def _with_cause(found: Sequence[str], text: str) -> str:
    """One line for chained errors; Java names the cause last, Python first."""
    names_last = "Caused by:" in text
    first, last = _one_line(found[0]), _one_line(found[-1])
    error, cause = (first, last) if names_last else (last, first)
    return f"{error}, caused by {cause}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LINE_LIMIT]
