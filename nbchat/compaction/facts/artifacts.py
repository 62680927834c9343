"""Files, commands and errors of a conversation, found by their form (seed 002)."""

import re
from collections.abc import Iterable, Iterator, Sequence

from nbchat.compaction.fitting import within
from nbchat.history import Entry
from nbchat.tokens import TokenCounter

FILES_TITLE = "Files referenced:"
COMMANDS_TITLE = "Commands executed:"
ERRORS_TITLE = "Errors encountered:"

READ_CHARACTERS, LINE_LIMIT = 50_000, 200
"""Of one entry what is looked at; of a command or an error what is kept."""

COMMAND_KEYS = ("command", "cmd", "script", "shell_command")
"""Arguments in which tools take a command."""

SHELL_WORDS = ("bash", "shell", "exec", "run", "terminal", "console", "cmd", "command")
"""Of these one is in the name of a tool that runs commands of a single word."""

_FILE = re.compile(
    r"(?<![\w:/.-])(?:~?/|\.{1,2}/)?(?:[\w.-]{1,80}/){1,12}[\w.-]{1,80}\.\w{1,8}\b"
    r"|(?<![\w/.@-])[\w-]{1,60}\.(?:py|ipynb|js|ts|tsx|json|ya?ml|toml|md|txt|csv|tsv"
    r"|parquet|xlsx?|html|css|sql|sh|cfg|ini|log|java|go|rs|cpp|hpp?|pdf|png|jpe?g)\b"
)
_FENCE = re.compile(r"```(?:bash|sh|shell|console)\n(.{1,5000}?)```", re.DOTALL)
_PROMPT = re.compile(r"^\s{0,8}(?:\$|%|!|>>>)\s?(\S[^\n]{1,300})$", re.MULTILINE)
_ERROR = re.compile(
    r"^(?:[\w./\\-]{1,120}:\d{1,6}(?::\d{1,6})?:\s?)?(?:E\s{1,8})?"
    r"(?:[A-Za-z_.]{0,60}(?:Error|Exception)|[Ee]rror|ERROR|[Ff]atal|FATAL|FAILED)\b"
    r"[: ][^\n]{0,300}",
    re.MULTILINE,
)


def artifact_lines(
    entries: Sequence[Entry], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    """Three lists under their titles, the newest first to get room; none when empty."""
    lists = (
        (FILES_TITLE, files(entries)),
        (COMMANDS_TITLE, commands(entries)),
        (ERRORS_TITLE, errors(entries)),
    )
    found = [(title, names) for title, names in lists if names]
    lines: list[str] = []
    for left, (title, names) in zip(range(len(found), 0, -1), found, strict=True):
        room = (budget_tokens - counter.count("\n".join(lines))) // left
        lines += _section(title, names, room, counter)
    return lines


def files(entries: Sequence[Entry]) -> list[str]:
    """Paths that calls, people and answers named, in the order they first came up."""
    return _each(path for entry in entries for path in _FILE.findall(_text(entry)))


def commands(entries: Sequence[Entry]) -> list[str]:
    """Commands that tools were given, and those written as such."""
    return _each(command for entry in entries for command in _commands(entry))


def errors(entries: Sequence[Entry]) -> list[str]:
    """The line of each failure that tools reported or somebody quoted."""
    return _each(error for entry in entries for error in _errors(entry))


def _section(
    title: str, names: Sequence[str], budget_tokens: int, counter: TokenCounter
) -> list[str]:
    room = budget_tokens - counter.count(title)
    kept = within(reversed(names), room, lambda line: counter.count(line) + 1)
    if not kept:
        return []
    missing = len(names) - len(kept)
    note = [f"({missing} earlier left out)"] if missing else []
    return [title, *note, *reversed(kept)]


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


def _errors(entry: Entry) -> Iterator[str]:
    if entry.is_error:
        yield entry.content.strip().removeprefix("error: ")
    elif entry.role in ("tool", "user"):
        yield from _ERROR.findall(entry.content[:READ_CHARACTERS])


def _text(entry: Entry) -> str:
    return (entry.tool_args if entry.is_call else entry.content)[:READ_CHARACTERS]


def _each(found: Iterable[str]) -> list[str]:
    """Each once, on one line, in the order it came up."""
    lines = (" ".join(text.split())[:LINE_LIMIT] for text in found)
    return [line for line in dict.fromkeys(lines) if line]
