"""Queries for what can be chosen: settings, models, completions while typing.

In an empty chat also how to get a model, and what to ask about the notebook.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from nbchat.agent.agent import Agent
from nbchat.agent.mcp import ServerState, tool_line
from nbchat.chat.attachments.mentions import Resolver
from nbchat.chat.attachments.short_repr import comes_from
from nbchat.config.api_keys import KEY_VARIABLES
from nbchat.config.policy_and_models import model_of
from nbchat.conversation.live_variables import is_fit, type_name
from nbchat.jupyter.panel.protocol import (
    Command,
    Completion,
    Completions,
    PathsList,
    ProviderKey,
    Server,
    ServersList,
    ServerTool,
    Setting,
    SettingsList,
    StartOptions,
    Suggestion,
    Trial,
)
from nbchat.providers.connect import EMBEDDED_MODEL
from nbchat.providers.model_download import WEIGHTS, is_fetched
from nbchat.storage.saved_settings import SettingInForce

MOST_NAMES = 500

MOST_PATHS, MOST_SCANNED = 50, 10_000

REFERENCES = {
    "cell": "The last cell that ran, cell 3 with @cell:3, run 3 with @cell:[3]",
    "file:": "A file, by its path",
    "image:": "A picture: a path, a figure or an image",
    "error": "The last error, with its cell and values",
}
"""What `@` can name besides variables."""


Settings = Callable[[Agent], Iterable[SettingInForce]]
"""Lists the settings for an agent's model."""

CommandList = Callable[[], Mapping[str, str]]
"""Lists commands with their arguments and help, as `/help` shows them."""

FIX = "@error\n\nWhat went wrong here, and how do I fix it?"
"""The message of `%chat fix`."""

MOST_SUGGESTIONS = 3

SHAPED = ("DataFrame", "Series", "ndarray")
"""Types whose shape is shown beside the name."""


def settings_list(agent: Agent, settings: Settings) -> SettingsList:
    """The settings, and the names of the scopes a change can have."""
    model = agent.provider.name
    shown = tuple(_setting(each) for each in settings(agent))
    return SettingsList(shown, provider=model.partition(":")[0], model=model)


def servers_list(servers: Iterable[ServerState]) -> ServersList:
    """The MCP servers that are configured, with the tools of those connected."""
    return ServersList(tuple(map(_server, servers)))


def _server(server: ServerState) -> Server:
    tools = server.tools or ()
    return Server(
        name=server.name,
        address=server.address,
        origin=server.origin,
        problem=server.problem,
        is_connected=server.tools is not None,
        tools=tuple(ServerTool(each.name, tool_line(each)) for each in tools),
    )


def completions(commands: Mapping[str, str], resolver: Resolver | None) -> Completions:
    """What can follow `/` and `@`: commands with help, names with types, no values.

    Kinds of references come first, then variables, the newest first.
    """
    names = {} if resolver is None else {**REFERENCES, **_variables(resolver)}
    return Completions(
        commands=tuple(_command(*pair) for pair in commands.items()),
        names=tuple(Completion(*pair) for pair in names.items()),
    )


def paths_list(folder: Path, start: str) -> PathsList:
    """Paths that begin with `start`, folders first; hidden ones only when asked for."""
    above, _, letters = start.replace("\\", "/").rpartition("/")
    found = []
    with suppress(OSError, ValueError), os.scandir(folder / above) as entries:
        for each in islice(entries, MOST_SCANNED):
            is_meant = each.name.lower().startswith(letters.lower())
            if is_meant and (letters or not each.name.startswith(".")):
                found.append((not each.is_dir(), each.name.casefold(), each.name))
    parent = f"{above}/" if "/" in start else ""
    return PathsList(
        tuple(
            Completion(f"{parent}{name}{'' if is_file else '/'}", "")
            for is_file, _, name in sorted(found)[:MOST_PATHS]
        )
    )


def _setting(setting: SettingInForce) -> Setting:
    return Setting(
        name=setting.name,
        value=setting.value,
        help=setting.help,
        kind=setting.kind,
        origin=setting.origin,
        choices=tuple(setting.choices),
        scope=setting.scope,
    )


def _command(name: str, line: str) -> Command:
    arguments, _, text = line.rpartition("  ")
    return Command(name, arguments, text)


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


def start_options(resolver: Resolver | None) -> StartOptions:
    """Providers with their keys' variables, the trial model, and suggestions."""
    return StartOptions(
        providers=tuple(
            ProviderKey(kind, variable, model_of(kind))
            for kind, variable in KEY_VARIABLES.items()
            if model_of(kind)
        ),
        trial=trial(),
        suggestions=tuple(suggestions(resolver) if resolver else ()),
    )


def trial() -> Trial:
    """The small model that runs without a key, and what it takes to have it."""
    name = EMBEDDED_MODEL.partition(":")[2]
    return Trial(
        model=EMBEDDED_MODEL,
        megabytes=0 if is_fetched(name) else WEIGHTS[name].megabytes,
        is_installed=find_spec("xllamacpp") is not None,
    )


def suggestions(resolver: Resolver) -> list[Suggestion]:
    """Up to three questions about the last error, the newest table, the last cell."""
    found = []
    if resolver.error():
        found.append(Suggestion("Explain the last error", FIX))
    for name, size in _frames(resolver)[:2]:
        found += [
            Suggestion(
                f"Describe {name} ({size})",
                f"Describe @{name}: what does it contain, and what is unusual in it?",
            ),
            Suggestion(
                f"Plot {name}", f"Write code that plots what matters most in @{name}."
            ),
        ]
    if resolver.cell(None) is not None:
        text = "@cell\n\nExplain what this cell does, and what could be better."
        found.append(Suggestion("Explain the last cell", text))
    return found[:MOST_SUGGESTIONS]


def _frames(resolver: Resolver) -> list[tuple[str, str]]:
    """Data frames of the notebook, the newest first, each with its size."""
    values = resolver.variables()
    names = [name for name in values if is_fit(name, values[name])]
    frames: dict[str, Any] = {n: values[n] for n in reversed(names)}
    return [(n, _size(frame)) for n, frame in frames.items() if _is_frame(frame)]


def _is_frame(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "DataFrame" and comes_from(kind, "pandas", "polars")


def _size(frame: Any) -> str:
    rows, columns = frame.shape
    return f"{rows:,} x {columns:,}"
