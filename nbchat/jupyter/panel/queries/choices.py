"""Queries for what can be chosen: settings, models, and completions while typing."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.mcp import ServerState, shortened
from nbchat.config.preferences import SettingInForce
from nbchat.conversation.live_variables import is_fit, type_name
from nbchat.providers.base import Provider
from nbchat.providers.connect import list_models
from nbchat.rendering.markdown import displayable

MOST_NAMES = 500

MOST_PATHS, MOST_SCANNED = 50, 10_000

REFERENCES = {
    "cell": "the last cell and its output; @cell:3 is the third",
    "file:": "a text file, by its path",
    "image:": "a picture: a path, a figure or an image",
    "error": "the last traceback",
}
"""What `@` can name besides variables."""


Settings = Callable[[Agent], Iterable[SettingInForce]]
"""Lists the settings for an agent's model."""

CommandList = Callable[[], Mapping[str, str]]
"""Lists commands with their arguments and help, as `/help` shows them."""


def settings_list(agent: Agent, settings: Settings) -> dict[str, Any]:
    """The settings, and the names of the scopes a change can have."""
    model = displayable(agent.provider.name)
    return {
        "type": "settings_list",
        "settings": [_setting(each) for each in settings(agent)],
        "provider": model.partition(":")[0],
        "model": model,
    }


def models_list(provider: Provider) -> dict[str, Any]:
    """Names that `/model` takes; `problem` says why the server listed none."""
    found = list_models(provider)
    return {
        "type": "models_list",
        "models": list(map(displayable, found.models)),
        "problem": displayable(found.problem),
    }


def servers_list(servers: Iterable[ServerState]) -> dict[str, Any]:
    """The MCP servers that are configured, with the tools of those connected."""
    return {"type": "servers_list", "servers": list(map(_server, servers))}


def _server(server: ServerState) -> dict[str, Any]:
    texts = {
        "name": server.name,
        "address": server.address,
        "origin": server.origin,
        "problem": server.problem,
    }
    tools = [
        {"name": displayable(tool.name), "about": displayable(shortened(tool))}
        for tool in server.tools or ()
    ]
    shown: dict[str, Any] = {key: displayable(text) for key, text in texts.items()}
    return {**shown, "is_connected": server.tools is not None, "tools": tools}


def completions(
    commands: Mapping[str, str], resolver: Resolver | None
) -> dict[str, Any]:
    """What can follow `/` and `@`: commands with help, names with types, no values.

    Kinds of references come first, then variables, the newest first.
    """
    names = {} if resolver is None else {**REFERENCES, **_variables(resolver)}
    return {
        "type": "completions",
        "commands": [_command(*pair) for pair in commands.items()],
        "names": [{"name": name, "help": text} for name, text in names.items()],
    }


def paths_list(folder: Path, start: str) -> dict[str, Any]:
    """Paths that begin with `start`, folders first; hidden ones only when asked for."""
    above, _, letters = start.replace("\\", "/").rpartition("/")
    found = []
    with suppress(OSError, ValueError), os.scandir(folder / above) as entries:
        for each in islice(entries, MOST_SCANNED):
            is_meant = each.name.lower().startswith(letters.lower())
            if is_meant and (letters or not each.name.startswith(".")):
                found.append((not each.is_dir(), each.name.casefold(), each.name))
    parent = f"{above}/" if "/" in start else ""
    shown = [
        {"name": displayable(f"{parent}{name}{'' if is_file else '/'}"), "help": ""}
        for is_file, _, name in sorted(found)[:MOST_PATHS]
    ]
    return {"type": "paths_list", "paths": shown}


def _setting(setting: SettingInForce) -> dict[str, Any]:
    texts = ("name", "value", "help", "kind", "origin")
    row: dict[str, Any] = {name: displayable(getattr(setting, name)) for name in texts}
    scope = None if setting.scope is None else displayable(setting.scope)
    return {**row, "choices": list(map(displayable, setting.choices)), "scope": scope}


def _command(name: str, line: str) -> dict[str, str]:
    arguments, _, text = line.rpartition("  ")
    parts = {"name": name, "arguments": arguments, "help": text}
    return {part: displayable(text) for part, text in parts.items()}


def _variables(resolver: Resolver) -> dict[str, str]:
    values = resolver.variables()
    names = [n for n in values if is_fit(n, values[n]) and n.isidentifier()]
    return {
        displayable(name): displayable(_type(values[name]))
        for name in names[: -MOST_NAMES - 1 : -1]
    }


def _type(value: object) -> str:
    return type_name(type(value)).removeprefix("builtins.")
