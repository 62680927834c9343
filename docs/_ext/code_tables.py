"""Directives that list settings, commands and models from the code's own tables."""

import argparse
import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from traitlets import Enum

import nbchat
from nbchat import errors
from nbchat.chat.commands import Commands
from nbchat.cli.main import _parser
from nbchat.config.settings import TABLE, Setting
from nbchat.conversation import events
from nbchat.providers.provider_table import KINDS, SERVICES, Service
from nbchat.storage.store import SessionStore

GROUPS = {
    "Model and server": ("model", "base_url"),
    "Answers": ("max_output_tokens", "window", "request_options", "agent.max_steps"),
    "Compaction": ("policy", "threshold"),
    "Summaries": (
        "summary_writer",
        "engine.summary_prompt",
        "notebook_context",
        "recall",
        "tokenizer",
    ),
    "Chat, notebook and storage": (),
}
"""How a chat follows a change of the settings in each group; the last has the rest."""

LOGINS = {
    "bedrock": ["your AWS credentials", "the extra `bedrock`"],
    "vertex": ["your Google Cloud credentials", "the extra `vertex`"],
    "local": ["the extra `local`"],
}
"""What models need instead of a key."""


class CodeTable(SphinxDirective):
    """A table made from the code, written as Markdown."""

    def run(self) -> list[nodes.Node]:
        """Parse what `lines` returns as a part of the page."""
        return self.parse_text_to_nodes("\n".join(self.lines()))

    def lines(self) -> Iterator[str]:
        """The table in Markdown."""
        raise NotImplementedError


class SettingsTable(CodeTable):
    """All settings of one group."""

    required_arguments = 1
    final_argument_whitespace = True

    def lines(self) -> Iterator[str]:
        """A definition for each setting."""
        rows = [row for row in TABLE.values() if group_of(row) == self.arguments[0]]
        for row in rows:
            yield f"(setting-{row.name.replace('_', '-')})="
            yield f"`{row.name}`{_default(row)}"
            yield f": {_escaped(_help(row))}"
            yield ""


def group_of(row: Setting) -> str:
    """The group of a setting, by how a running chat follows its change."""
    for name, ways in GROUPS.items():
        if row.apply in ways:
            return name
    return name


def _default(row: Setting) -> str:
    if row.default in (None, ""):
        return ""
    shown = str(row.default).lower() if row.kind == "bool" else row.default
    return f" (default: `{shown}`)"


def _help(row: Setting) -> str:
    text = row.help
    if isinstance(row.trait, Enum):
        text += f" One of: {', '.join(map(str, row.trait.values or ()))}."
    if row.scope != "model":
        text += " (Not with `/set`.)"
    return text


def _escaped(text: str) -> str:
    """Plain text as Markdown: no code, but addresses and backslashes stay."""
    return text.replace("\\n", "`\\n`")


class CommandsTable(CodeTable):
    """All slash commands."""

    def lines(self) -> Iterator[str]:
        """A row for each command."""
        yield from ("| command | what it does |", "|---|---|")
        for name, text in Commands(SessionStore("sqlite://")).help_lines.items():
            arguments, _, help_text = text.rpartition("  ")
            shown = f"/{name} {arguments}".strip().replace("|", "\\|")
            sentence = help_text[:1].upper() + help_text[1:].replace("|", "\\|")
            yield f"| `{shown}` | {sentence}. |"


class ModelsTable(CodeTable):
    """The names of providers, and what each needs."""

    def lines(self) -> Iterator[str]:
        """A row for each provider."""
        yield from ("| model | needs |", "|---|---|")
        for kind in KINDS:
            rows = [service for service in SERVICES if service.kind == kind]
            needs = [_needs(each) for each in sorted(rows, key=lambda row: row.models)]
            claude = f"; for Claude {needs[-1]}" if len({*needs}) > 1 else ""
            yield f"| `{kind}:NAME` | {needs[0]}{claude} |"


def _needs(service: Service) -> str:
    places = [f"`{name}`" for name in re.findall(r"\{(\w+)", service.address)][:1]
    if login := LOGINS.get(service.kind):
        return _listed([*places, *login])
    if not service.needs_key:
        address, variable = service.address, service.address_variable
        return f"a server at `{address}`, or another address in `{variable}`"
    keys = " or ".join(f"`{name}`" for name in service.key_variables)
    return _listed([*places, keys])


def _listed(parts: list[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


class CommandLine(CodeTable):
    """The commands of `nbchat` in a shell, as `--help` prints them."""

    def lines(self) -> Iterator[str]:
        """A section of text for each command."""
        parser = _parser()
        for name, command in _subcommands(parser):
            yield f"### `nbchat {name}`"
            yield f"```text\n{command.format_help().strip()}\n```"
            yield ""


def _subcommands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, command in action.choices.items():
                deeper = list(_subcommands(command))
                yield from ((f"{name} {n}", c) for n, c in deeper)
                if not deeper:
                    yield name, command


class ErrorsTree(CodeTable):
    """All errors, each below the one that it is a kind of."""

    def lines(self) -> Iterator[str]:
        """An autodoc directive for each class."""
        yield "```{eval-rst}"
        for error in _tree(errors.NbchatError):
            yield f".. autoexception:: nbchat.errors.{error.__name__}"
            yield "   :show-inheritance:"
            yield ""
        yield "```"


def _tree(error: type[Exception]) -> Iterator[type[Exception]]:
    yield error
    for each in error.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _tree(each)


class EventsList(CodeTable):
    """All events that a turn yields."""

    def lines(self) -> Iterator[str]:
        """An autodoc directive for each public class of the module."""
        yield "```{eval-rst}"
        for name in nbchat.__all__:
            thing = getattr(nbchat, name)
            if getattr(thing, "__module__", "") == events.__name__:
                yield f".. autoclass:: nbchat.{name}"
                yield "   :members:"
                yield ""
        yield "```"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    for name, directive in {
        "settings-table": SettingsTable,
        "commands-table": CommandsTable,
        "models-table": ModelsTable,
        "command-line": CommandLine,
        "errors-tree": ErrorsTree,
        "events-list": EventsList,
    }.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
