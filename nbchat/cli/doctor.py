"""`nbchat doctor`: what is wrong, then settings, keys, database, model and versions.

No part of a key is shown, and no model is called.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from jupyter_core.paths import jupyter_config_path
from jupyter_server.extension.config import ExtensionConfigManager

from nbchat.config.layers import settings, unread_names
from nbchat.config.settings import TABLE, NbChat, Setting
from nbchat.conversation.secret_masking import HIDDEN, without_secrets
from nbchat.errors import NbchatError
from nbchat.providers.base import Provider
from nbchat.providers.connect import EMBEDDED_MODEL
from nbchat.providers.endpoint import keyring_key, redact
from nbchat.providers.model_download import cache_folder, is_fetched
from nbchat.providers.model_info import (
    DATES,
    ModelInfo,
    is_retired,
    nearest_models,
    retirement,
)
from nbchat.providers.provider_table import KINDS, SERVICES
from nbchat.storage.factory import build_agent, opened_store
from nbchat.storage.saved_settings import Target, with_saved_settings
from nbchat.storage.store import SessionStore

PACKAGES = (
    "jupyter-nbchat",
    "ipykernel",
    "ipython",
    "jupyterlab",
    "jupyter-server",
    "ipywidgets",
    "anywidget",
    "anthropic",
    "openai",
    "tiktoken",
    "sqlalchemy",
    "xllamacpp",
)

UNRESPONSIVE_IPYKERNEL = ("7.0.", "7.1.", "7.2.", "7.3.")
"""Versions of ipykernel that can miss every later message if a request arrives while
they send a reply (https://github.com/ipython/ipykernel/issues/1554)."""

KEY_ENDINGS = ("_API_KEY", "_AUTH_TOKEN")

VALUE_WIDTH = 40
"""Characters of a value that are shown; prompts are long."""


MOST_ROWS = 5
"""Rows of a section that are shown at first, so that all fit a screen."""

PRIVATE_SETTINGS = ("system_prompt", "summary_prompt", "headers", "stop")
"""Settings whose values a report for others leaves out: they hold people's own text."""

PRIVATE_ROWS = ("owner",)
"""Rows beside the settings that name a person."""

NOT_SHOWN = "(not in this report)"


def _is_set(row: str) -> bool:
    return not row.endswith(("default", "none")) and not row.startswith("IPython's")


def _is_found(row: str) -> bool:
    return "  set in " in row or "keyring" in row


def _is_main(row: str) -> bool:
    return row.startswith(("model for new chats", "context window"))


def _is_version_of_ours(row: str) -> bool:
    return row.startswith(("python", "jupyter-nbchat", "jupyterlab", "ipykernel"))


FIRST: dict[str, Callable[[str], bool]] = {
    "Settings": _is_set,
    "Locked settings": _is_set,
    "API keys": _is_found,
    "Model": _is_main,
    "Versions": _is_version_of_ours,
}
"""Rows that are shown without `--all`, by section; of other sections all."""


@dataclass
class Report:
    """Sections of rows, and the problems that would keep a chat from working."""

    sections: list[tuple[str, list[str]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole report without any key of the environment."""
        lines = self._verdict()
        for title, rows in self.sections:
            lines += ["", title, *(f"  {row}".rstrip() for row in rows)]
        return _without_keys("\n".join(lines))

    @property
    def summary(self) -> str:
        """The faults, and what matters most; it fits a screen."""
        lines = self._verdict()
        for title, rows in self.sections:
            shown = [each for each in rows if FIRST.get(title, bool)(each)]
            more = len(shown) - MOST_ROWS
            if shown:
                lines += [title, *(f"  {row}".rstrip() for row in shown[:MOST_ROWS])]
            if more > 0:
                lines.append(f"  … {more} more")
        return _without_keys("\n".join([*lines, "nbchat doctor --all shows the rest."]))

    @property
    def for_others(self) -> str:
        """The whole report without names, folders and texts of a person."""
        private = (*PRIVATE_SETTINGS, *PRIVATE_ROWS)
        lines = self.text.splitlines()
        kept = [
            f"{line[:27]}{NOT_SHOWN}"
            if line.startswith(tuple(f"  {name} " for name in private))
            and not line.rstrip().endswith("default")
            else line
            for line in lines
        ]
        return "\n".join(kept).replace(str(Path.home()), "~")

    def section(self, title: str, rows: Iterator[str]) -> None:
        """Add a section; an error in it is a problem, and the report continues."""
        shown: list[str] = []
        self.sections.append((title, shown))
        try:
            for row in rows:  # one by one, to keep those before an error
                shown.append(row)  # noqa: PERF402
        except (NbchatError, ImportError) as error:
            self.problem(str(error))

    def problem(self, line: str) -> None:
        """Add a problem to the list at the top, once."""
        if line not in self.problems:
            self.problems.append(line)

    def _verdict(self) -> list[str]:
        if not self.problems:
            return ["No problems found."]
        found = [line.replace("\n", "\n    ") for line in self.problems]
        return ["Problems", *(f"  {line}" for line in found)]


def _without_keys(text: str) -> str:
    for key in _keys():
        text = redact(text, key)
    return text


def diagnose() -> Report:
    """Check everything that a chat needs."""
    report = Report()
    try:
        config = settings()
    except NbchatError as error:
        report.section("Settings", iter(()))
        report.problem(str(error))
        report.section("API keys", _key_rows())
    else:
        store = opened_store(config)
        report.section("Settings", _setting_rows(config, store))
        for line in unread_names():
            report.problem(line)
        report.section("Locked settings", _lock_rows(config))
        report.section("API keys", _key_rows())
        report.section("Sessions", _store_rows(store))
        report.section("Model", _model_rows(config, store, report))
        store.close()
    report.section("Server extension", _server_rows())
    report.section("Versions", _version_rows())
    return report


def _setting_rows(config: NbChat, store: SessionStore) -> Iterator[str]:
    in_force = with_saved_settings(config, store)
    for name, row in TABLE.items():
        value = _short(row, getattr(in_force, name))
        origin = in_force.origins.get(name, "default")
        yield _row(name, f"{value:{VALUE_WIDTH + 2}}{origin}")
    yield "IPython's configuration and %config override these in a kernel."


def _lock_rows(config: NbChat) -> Iterator[str]:
    for name, path in sorted(config.locks.items()):
        yield _row(name, f"locked by {path}")
    if not config.locks:
        yield "none"


def _key_rows() -> Iterator[str]:
    for kind in KINDS:
        rows = [service for service in SERVICES if service.kind == kind]
        variables = dict.fromkeys(chain.from_iterable(s.key_variables for s in rows))
        is_set = [each for each in variables if os.environ.get(each, "").strip()]
        names = " or ".join(variables)
        missing = f"not set ({names})" if rows[0].needs_key else "no key needed"
        if any(map(keyring_key, variables)):
            missing = "in the system keyring"
        yield _row(kind, f"set in {is_set[0]}" if is_set else missing)


def _keys() -> list[str]:
    """Values of all environment variables whose name looks like that of a key."""
    keys = [text for name, text in os.environ.items() if name.endswith(KEY_ENDINGS)]
    return [text.strip() for text in keys if text.strip()]


def _store_rows(store: SessionStore) -> Iterator[str]:
    yield _row("database", store.location)
    yield _row("owner", f"{store.owner} (you)")
    store.check_writable()
    count = store.count_sessions()
    yield _row("writable", f"yes, {count} session{'' if count == 1 else 's'} stored")


def _model_rows(config: NbChat, store: SessionStore, report: Report) -> Iterator[str]:
    agent = build_agent(config, store=store)
    model = agent.provider.name
    yield _row("model for new chats", model)
    window = with_saved_settings(config, store, Target(model)).window
    yield from _limit_rows(agent.provider, window, report)
    name = EMBEDDED_MODEL.partition(":")[2]
    state = "downloaded" if is_fetched(name) else "downloads at first use (93 MB)"
    yield _row("embedded model", f"{state}, {cache_folder()}")
    if model.startswith("local:") and find_spec("xllamacpp") is None:
        report.problem(
            f"{model} needs the package xllamacpp. Run: "
            'pip install "jupyter-nbchat[local]"'
        )


def _limit_rows(
    provider: Provider, set_window: int | None, report: Report
) -> Iterator[str]:
    """The details of a model, and where each figure is from."""
    name = provider.name.partition(":")[2]
    told = provider.info().with_window(set_window)
    info = told.or_assumed()
    yield _row("context window", _figure(info, "window", info.window))
    rest = info.usable_window
    usual = "the window minus the reserve for the answer" if info.window else ""
    yield _row("largest request", _figure(info, "input_limit", rest, usual))
    usual = "what every chat model allows"
    yield _row(
        "longest answer", _figure(info, "output_limit", info.output_limit, usual)
    )
    yield _row("prices", _prices(info))
    ending = retirement(name)
    known = f"{ending.line('It')} From {DATES}." if ending else "none known"
    yield _row("retirement", known)
    if ending is not None and is_retired(name):
        report.problem(ending.line(name))
    is_listed = told.window is not None or info.prices is not None
    nearest = [] if is_listed else nearest_models(name, provider.name.split(":")[0])
    if nearest:
        names = " or ".join(nearest)
        report.problem(f"{name} isn't a known model. Did you mean {names}?")
    elif info.is_assumed:
        report.problem(
            f"The context window of {name} is unknown. "
            "Set it, as in NBCHAT_WINDOW=128000."
        )


def _figure(info: ModelInfo, name: str, tokens: int | None, usual: str = "") -> str:
    source = info.sources.get(name, usual)
    if not tokens:
        return "unknown"
    return f"{tokens:,} tokens" + (f", from {source}" if source else "")


def _prices(info: ModelInfo) -> str:
    prices = info.prices
    if prices is None:
        return "unknown"
    cached = f"${prices.cache_read:g} cached, ${prices.cache_write:g} to cache"
    dollars = f"${prices.input:g} in, {cached}, ${prices.output:g} out"
    return f"{dollars} for a million tokens, from {info.sources.get('prices')}"


def _server_rows() -> Iterator[str]:
    manager = ExtensionConfigManager(read_config_path=jupyter_config_path())
    enabled = manager.get_jpserver_extensions()  # type: ignore[no-untyped-call]
    is_enabled = enabled.get("nbchat", False)
    yield _row("enabled", "yes" if is_enabled else "no")
    if not is_enabled:
        yield "It's needed to stop a chat while a cell runs. To enable it, run:"
        yield "jupyter server extension enable nbchat"


def _version_rows() -> Iterator[str]:
    yield _row("python", f"{sys.version.split(maxsplit=1)[0]} ({sys.executable})")
    for package in PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "not installed"
        yield _row(package, found)
        if package == "ipykernel" and found.startswith(UNRESPONSIVE_IPYKERNEL):
            yield "This version can stop responding until you reload the page. Upgrade:"
            yield 'pip install -U "ipykernel>=7.4"'


def _row(name: str, text: str) -> str:
    return f"{name:25}{text}"


def _short(row: Setting, value: object) -> str:
    """A value on one line of limited length."""
    text = "-" if value in (None, "") else " ".join(row.text(value).split())
    text = without_secrets(text)[0].replace(HIDDEN, "***")
    return text if len(text) <= VALUE_WIDTH else f"{text[: VALUE_WIDTH - 1]}…"
