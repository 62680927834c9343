"""What can be typed after `/` and `@`: commands, variables, and the fixed words.

Of variables only names and types are told; nothing of them is read.
"""

from collections.abc import Callable, Mapping
from typing import Any

from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.attachments.value_preview import is_secret_name
from nbchat.conversation.namespace import is_fit, type_name
from nbchat.rendering.markdown import displayable

MOST_NAMES = 500

FIXED = {
    "cell": "the last cell and its output; @cell:3 is the third",
    "file:": "a text file, by its path",
    "image:": "a picture: a path, a figure or an image",
    "error": "the last traceback",
}

CommandList = Callable[[], Mapping[str, str]]
"""Tells what each command takes and does, as `/help` says it."""


def completions(
    commands: Mapping[str, str], resolver: Resolver | None
) -> dict[str, Any]:
    """The commands with their help, and the names that can be mentioned."""
    names = {} if resolver is None else {**_variables(resolver), **FIXED}
    return {
        "type": "completions",
        "commands": [_command(*pair) for pair in commands.items()],
        "names": [{"name": name, "help": told} for name, told in names.items()],
    }


def _command(name: str, line: str) -> dict[str, str]:
    arguments, _, told = line.rpartition("  ")
    parts = {"name": name, "arguments": arguments, "help": told}
    return {part: displayable(text) for part, text in parts.items()}


def _variables(resolver: Resolver) -> dict[str, str]:
    values = resolver.variables()
    names = [n for n in values if is_fit(n, values[n]) and n.isidentifier()]
    return {
        displayable(name): displayable(_type(values[name]))
        for name in sorted(names, key=str.casefold)[:MOST_NAMES]
        if not is_secret_name(name)  # would be refused
    }


def _type(value: object) -> str:
    return type_name(type(value)).removeprefix("builtins.")
