"""What would work here and what would not: every setting, key, store and version.

It never shows any part of a key, and sends nothing to any model.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from jupyter_core.paths import jupyter_config_path
from jupyter_server.extension.config import ExtensionConfigManager

from nbchat.config.factory import build_agent
from nbchat.config.preferences import with_preferences
from nbchat.config.settings import NbChat, settings, without_login
from nbchat.errors import NbchatError
from nbchat.providers.connect import EMBEDDED_MODEL, KINDS
from nbchat.providers.endpoint import redact
from nbchat.providers.model_download import cache_folder, is_fetched
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

DEAF_KERNELS = ("7.0.", "7.1.", "7.2.", "7.3.")
"""Versions of ipykernel that may hear nobody any more when a request comes while they
send a reply (https://github.com/ipython/ipykernel/issues/1554)."""

KEY_ENDINGS = ("_API_KEY", "_AUTH_TOKEN")

VALUE_WIDTH = 40
"""Characters of a value that are shown; prompts are long."""


@dataclass
class Findings:
    """The report, and what of it would keep a chat from working."""

    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The report without any key that stands in the environment."""
        text = "\n".join([*self.lines, "", *self._verdict()])
        for key in _keys():
            text = redact(text, key)
        return text

    def section(self, title: str, rows: Iterator[str]) -> None:
        """Add a part; a fault in it is a problem, and the next part is made, too."""
        self.lines += ["", title] if self.lines else [title]
        try:
            for row in rows:  # one by one: those before a fault are kept
                self.lines.append(f"  {row}".rstrip())
        except (NbchatError, ImportError) as error:
            self.problem(str(error))

    def problem(self, line: str) -> None:
        """Add what would not work, once, also where it shows."""
        self.lines.append(f"  {line}")
        if line not in self.problems:
            self.problems.append(line)

    def _verdict(self) -> list[str]:
        if not self.problems:
            return ["A chat would work here."]
        return ["This would not work:", *(f"  {line}" for line in self.problems)]


def examine() -> Findings:
    """Look at everything that a chat needs."""
    findings = Findings()
    config = _settings(findings)
    findings.section("Keys", _key_rows(findings))
    if config is not None:
        store = SessionStore(config.store_url)
        findings.section("Store", _store_rows(store))
        findings.section("Model", _model_rows(config, store, findings))
        store.close()
    findings.section("Server extension", _server_rows())
    findings.section("Versions", _version_rows())
    return findings


def _settings(findings: Findings) -> NbChat | None:
    """The settings in force, as far as they can be read from outside of a kernel."""
    found: list[NbChat] = []
    findings.section("Settings", _setting_rows(found))
    if found:
        findings.section("Locks", _lock_rows(found[0]))
    return found[0] if found else None


def _setting_rows(found: list[NbChat]) -> Iterator[str]:
    config = settings()
    found.append(config)
    store = SessionStore(config.store_url)
    in_force = with_preferences(config, store)
    store.close()
    for name in sorted(config.class_trait_names(config=True)):
        origin = in_force.origins.get(name, "packaged default")
        yield f"{name:25}{_shown(getattr(in_force, name)):{VALUE_WIDTH + 2}}{origin}"
    yield "IPython's configuration and %config count more; only a kernel sees them"


def _lock_rows(config: NbChat) -> Iterator[str]:
    for name, path in sorted(config.locks.items()):
        yield f"{name:25}{path}"
    if not config.locks:
        yield "none"


def _key_rows(findings: Findings) -> Iterator[str]:
    for kind, name in KINDS.items():
        try:
            provider = getattr(import_module(f"nbchat.providers.{kind}"), name)
        except ImportError as error:
            findings.problem(f"{kind} cannot be loaded: {error}; install nbchat again")
            continue
        variables: tuple[str, ...] = getattr(provider, "key_variables", ())
        held = [each for each in variables if os.environ.get(each, "").strip()]
        missing = f"not set ({' or '.join(variables)})" if variables else "not needed"
        yield f"{kind:25}{f'set in {held[0]}' if held else missing}"


def _keys() -> list[str]:
    """Everything in the environment that looks like a key by its name."""
    kept = [text for name, text in os.environ.items() if name.endswith(KEY_ENDINGS)]
    return [text.strip() for text in kept if text.strip()]


def _store_rows(store: SessionStore) -> Iterator[str]:
    yield f"{'place':25}{store.location}"
    store.check_writable()
    yield f"{'can be written':25}yes, {len(store.sessions())} sessions in it"


def _model_rows(
    config: NbChat, store: SessionStore, findings: Findings
) -> Iterator[str]:
    model = build_agent(config, store=store).provider.name
    yield f"{'would be chosen':25}{model}"
    name = EMBEDDED_MODEL.partition(":")[2]
    fetched = "fetched" if is_fetched(name) else "not fetched; 93 MB at its first use"
    yield f"{'embedded model':25}{fetched} ({cache_folder()})"
    if model.startswith("local:") and find_spec("xllamacpp") is None:
        findings.problem(
            f"{model} needs xllamacpp: install nbchat with its extra, in its folder: "
            'pip install ".[local]"'
        )


def _server_rows() -> Iterator[str]:
    manager = ExtensionConfigManager(read_config_path=jupyter_config_path())
    enabled = manager.get_jpserver_extensions()  # type: ignore[no-untyped-call]
    is_enabled = enabled.get("nbchat", False)
    yield f"{'enabled':25}{'yes' if is_enabled else 'no'}"
    if not is_enabled:
        yield "without it a chat cannot be stopped by the server while a cell runs;"
        yield "jupyter server extension enable nbchat"


def _version_rows() -> Iterator[str]:
    yield f"{'python':25}{sys.version.split(maxsplit=1)[0]} ({sys.executable})"
    for package in PACKAGES:
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "not installed"
        yield f"{package:25}{found}"
        if package == "ipykernel" and found.startswith(DEAF_KERNELS):
            yield "it may hear no cell and no click until the page is loaded again;"
            yield 'pip install -U "ipykernel>=7.4"'


def _shown(value: object) -> str:
    """A value on one line of limited length; of an address neither user nor query."""
    text = "-" if value in (None, "") else " ".join(str(value).split())
    text = without_login(text)
    return text if len(text) <= VALUE_WIDTH else f"{text[: VALUE_WIDTH - 1]}…"
