"""The table of settings.

Each trait of `NbChat` is one row: name, type, default, choices and help text, and as
tags its scope, whether it may contain a login (`secret`), and how a running chat
follows a change (`apply`). Environment variables, `/set` and `/settings`, the settings
dialog, `nbchat doctor`, `nbchat settings` and the page in the docs are made from them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from traitlets import Bool, Enum, Float, Int, TraitError, TraitType, Unicode
from traitlets.config import Configurable

from nbchat.compaction.policies import (
    PRESETS,
)
from nbchat.config.api_keys import Keys
from nbchat.errors import ConfigError

DEFAULT = "default"
"""The word with which `/set` removes a stored value."""

EMPTY = '""'
"""The word that `/set` takes for an empty text."""

Trait = TraitType[Any, Any]


class _YesNo(Enum[Any]):
    """A choice whose "true" and "false" may also be given as a Bool."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Take True and False as their names; raises TraitError for no choice."""
        text = str(value).lower() if isinstance(value, bool) else value
        return super().validate(obj, text)


class NbChat(Configurable):
    """Settings of the notebook chat; `%config NbChat` lists them.

    Tags of each setting:

    scope   "model": `/set` can also store it, for all models, a provider or one model;
            "configuration": only configuration and code can set it.
    apply   How a running chat follows a change: an attribute that takes the value
            ("engine.summary_prompt"), the name of a function in `live_changes.APPLY`,
            "view" for the panel alone, or "restart" if a running chat cannot follow.
    secret  True for addresses, which may contain a login: it is never shown.
    """

    explicit: frozenset[str] = frozenset()
    """Names that the environment, IPython's configuration or code has set."""
    origins: Mapping[str, str] = {}
    """Where each value that is not the packaged default comes from."""
    locks: Mapping[str, Path] = {}
    """Locked settings, each with the site file that locks it."""
    assigned: Mapping[str, Any] = {}
    """Values that IPython's configuration, `%config` or code has set."""
    read: Mapping[str, Any] = {}
    """The model by the environment and site files, when read last."""
    policy_fields: Mapping[str, Mapping[str, Any]] = {}
    """Fields that site files change of policies, by the policy's name."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.keys = Keys()

    model = Unicode(
        "",
        help="Model as provider:name, for example anthropic:claude-haiku-5-5, "
        "openai:gpt-6-luna, gemini:gemini-3.5-flash-lite or local:smollm2. Empty: a "
        "key in the environment chooses the provider; without one, the embedded model.",
    ).tag(config=True, scope="configuration", apply="model")
    base_url = Unicode(
        "",
        help="Address of a compatible server, for example http://localhost:8000/v1. It "
        "is used for all models of the provider, and no key is needed.",
    ).tag(config=True, scope="configuration", apply="base_url", secret=True)
    api_key_hosts = Unicode(
        "",
        help="Hosts besides the provider's own to which the key from the environment "
        "is sent, separated by commas, for example openrouter.ai. Only by HTTPS; "
        "http://host allows plain HTTP beyond this machine.",
    ).tag(config=True, scope="configuration", apply="base_url")
    headers = Unicode(
        "",
        help="Headers added to each request to the model's server, as Name: value, "
        "separated by semicolons.",
    ).tag(config=True, scope="configuration", apply="base_url", secret=True)
    proxy = Unicode(
        "",
        help="Address of an HTTP proxy for the model's server. Empty: HTTPS_PROXY, "
        "HTTP_PROXY and NO_PROXY of the environment.",
    ).tag(config=True, scope="configuration", apply="base_url", secret=True)
    system_prompt = Unicode(
        "You are a helpful assistant in a Jupyter notebook.",
        help="System prompt, sent with every request.",
    ).tag(config=True, scope="configuration", apply="request")
    policy = Enum(
        list(PRESETS),
        "single-summary",
        help="When and how the conversation is compacted. auto decides by price, "
        "extractive calls no model, off compacts only on request.",
    ).tag(config=True, scope="model", apply="policy")
    automatic = _YesNo(
        ["true", "ask", "false"],
        "true",
        help="Compact automatically. With ask, the chat asks you first until the "
        "window is nearly full. When off, only on request.",
    ).tag(config=True, scope="model", apply="policy")
    context_token_threshold = Int(
        None,
        allow_none=True,
        min=1,
        help="Compact when the input tokens of all responses since the last compaction "
        "add up to this number. None: 75% of the model's window, or more until a "
        "compaction pays.",
    ).tag(config=True, scope="model", apply="threshold")
    summary_model = Unicode(
        "",
        help="Model that writes summaries, as provider:name, or the name alone for a "
        "model of the same provider. Empty: the chat's own model.",
    ).tag(config=True, scope="model", apply="summary_writer")
    fallback_model = Unicode(
        "", help="Model that writes the summary if the first one fails."
    ).tag(config=True, scope="model", apply="summary_writer")
    summary_prompt = Unicode(
        "", help="Instructions for the summary. Empty: the built-in instructions."
    ).tag(config=True, scope="model", apply="engine.summary_prompt")
    notifications = Bool(
        True, help="Show a banner in the panel after each automatic compaction."
    ).tag(config=True, scope="model", apply="view")
    window = Int(
        None,
        allow_none=True,
        min=1,
        help="Context window of the model in tokens. None: the known window of the "
        "model.",
    ).tag(config=True, scope="model", apply="window")
    max_output_tokens = Int(
        None,
        allow_none=True,
        min=1,
        help="Maximum length of an answer in tokens. None: the limit of the model.",
    ).tag(config=True, scope="model", apply="request")
    effort = Enum(
        ["off", "low", "medium", "high"],
        None,
        allow_none=True,
        help="How much the model reasons before it answers. None: the model's own "
        "level. Not sent to models that don't support it.",
    ).tag(config=True, scope="model", apply="request_options")
    temperature = Float(
        None,
        allow_none=True,
        min=0,
        max=2,
        help="Sampling temperature: how random answers are, 0 is least. None: the "
        "model's own. If the model doesn't support it, it isn't sent, and a warning "
        "says so.",
    ).tag(config=True, scope="model", apply="request_options")
    top_p = Float(
        None,
        allow_none=True,
        min=0,
        max=1,
        help="Nucleus sampling: choose from the most likely tokens that add up to this "
        "probability.",
    ).tag(config=True, scope="model", apply="request_options")
    seed = Int(
        None,
        allow_none=True,
        help="Seed for repeatable answers, where the server supports it. OpenAI and "
        "Anthropic don't.",
    ).tag(config=True, scope="model", apply="request_options")
    timeout_seconds = Float(
        None,
        allow_none=True,
        min=0.1,
        help="Seconds without data from the model's server after which a request "
        "fails. None: 300; for the embedded model 600.",
    ).tag(config=True, scope="model", apply="request_options")
    cache_lifetime = Enum(
        ["5m", "1h"],
        None,
        allow_none=True,
        help="How long Anthropic keeps its prompt cache after each use. 1h costs more "
        "to write and pays off after pauses of over five minutes. OpenAI's newer "
        "models keep theirs for 30 minutes, or 12 hours with 1h. None: 5m.",
    ).tag(config=True, scope="model", apply="request_options")
    attempts = Int(
        None,
        allow_none=True,
        min=1,
        max=100,
        help="Maximum number of attempts for one answer when errors are temporary. "
        "None: 4, or 8 when rate-limited.",
    ).tag(config=True, scope="model", apply="request_options")
    max_steps = Int(
        50, min=1, help="Maximum number of requests to the model in one turn."
    ).tag(config=True, scope="configuration", apply="agent.max_steps")
    tokenizer = Enum(
        ["tiktoken", "characters"],
        "tiktoken",
        help="How tokens are counted: by tiktoken, or as characters / 4 plus 20%.",
    ).tag(config=True, scope="configuration", apply="tokenizer")
    recall = Bool(
        None,
        allow_none=True,
        help="Offer the model a tool that finds compacted and shortened content, for "
        "84 tokens per request. None: once something was compacted or shortened, to "
        "models of OpenAI, Anthropic and Google, and to others that have tools.",
    ).tag(config=True, scope="configuration", apply="request")
    context_tools = Bool(
        False,
        help="Offer the model the tools compact and context, with which it decides "
        "itself when the conversation is compacted. You can undo each compaction.",
    ).tag(config=True, scope="model", apply="request")
    rules_files = Bool(
        True,
        help="Use the rules in .nbchat/rules.md or AGENTS.md of the notebook's project "
        "in %chat and %%chat, after you have seen them and agreed.",
    ).tag(config=True, scope="model", apply="view")
    store_url = Unicode(
        "",
        help="Database of the sessions, as a SQLAlchemy URL. Empty: a SQLite file in "
        "the Jupyter data folder.",
    ).tag(config=True, scope="configuration", apply="restart", secret=True)
    mcp_file = Unicode(
        "",
        help="File with MCP servers, in the form of mcp.json; they are connected when "
        "a chat begins. Those of .jupyter/mcp_settings.json and mcp.json are connected "
        "by /mcp.",
    ).tag(config=True, scope="configuration", apply="restart")
    owner = Unicode(
        "",
        help="Owner of the sessions and stored settings. A chat sees only its own. "
        "Empty: the user of JupyterHub, or of the operating system.",
    ).tag(config=True, scope="configuration", apply="restart")
    retention_days = Int(
        None,
        allow_none=True,
        min=1,
        help="Delete sessions that weren't used for this many days, when a chat "
        "begins. None: keep them.",
    ).tag(config=True, scope="configuration", apply="restart")
    notebook_tools = Bool(
        False,
        help="Offer the model in %chat tools that read, edit and run the cells of its "
        "notebook and show its variables. You approve each edit, which is shown as a "
        "diff, and each run.",
    ).tag(config=True, scope="model", apply="view")
    notebook_context = Enum(
        ["on", "outline", "off"],
        "on",
        help="Show the model the current notebook in each request of %chat and %%chat, "
        "in at most 600 tokens: the selected cell, the last error, variables used last "
        "with their types, and the cells. outline: only the cells' first lines, and "
        "summaries list the variables that were mentioned. None of it is kept in the "
        "conversation.",
    ).tag(config=True, scope="model", apply="live_variables")
    notebook_identity = Bool(
        False,
        help="Write an id into the metadata of the notebook that shows the panel, so "
        "that its chat continues after the notebook is moved or renamed.",
    ).tag(config=True, scope="configuration", apply="restart")
    log_folder = Unicode(
        "",
        help="Folder in which each session is also written as Markdown, after each "
        "turn. Empty: none.",
    ).tag(config=True, scope="configuration", apply="log_folder")

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse a value that is locked or invalid, in one line."""
        if name in self.locks and value != getattr(self, name):
            raise TraitError(locked_line(name, getattr(self, name), self.locks[name]))
        try:
            super().__setattr__(name, value)
        except TraitError as error:
            row = TABLE.get(name)
            raise TraitError(row.invalid(value) if row else str(error)) from error

    def copy(self) -> "NbChat":
        """The same values, origins and locks, to be changed independently."""
        found = type(self)(**{name: getattr(self, name) for name in TABLE})
        found.explicit, found.origins = self.explicit, self.origins
        found.locks, found.policy_fields = self.locks, self.policy_fields
        found.assigned, found.read = self.assigned, self.read
        found.keys = self.keys
        return found


Kind = Literal["choice", "bool", "int", "float", "text"]
"""How the value of a setting is entered."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table, as every surface reads it."""

    name: str
    trait: TraitType[Any, Any]
    kind: Kind
    choices: tuple[str, ...]
    """The choices that `/set` and the dialog accept; empty for other kinds."""
    help: str
    default: Any
    scope: str
    """Who may set it; see `NbChat`."""
    apply: str
    """How a running chat follows a change; see `NbChat`."""
    is_secret: bool
    """True if the value may contain a login."""
    variable: str
    """Its environment variable."""

    def parse(self, text: str) -> Any:
        """The value that a person typed; raises ConfigError if it is invalid."""
        written = "" if text == EMPTY and self.kind == "text" else text
        try:
            value = self.trait.from_string(written)
            return self.trait._validate(NbChat(), value)  # noqa: SLF001  # no other way
        except (TraitError, ValueError) as error:
            raise ConfigError(self.invalid(text)) from error

    def text(self, value: object) -> str:
        """A value as a person types it, without a login; empty for none."""
        if value is None:
            return DEFAULT if self.choices else ""
        if isinstance(value, bool):
            return str(value).lower()
        return without_secrets(str(value)) if self.is_secret else str(value)

    def invalid(self, value: object) -> str:
        """One line about a value that this setting refuses."""
        return f"{self.name} can't be {value!r}. {self._expected()}."

    def _expected(self) -> str:
        least, most = getattr(self.trait, "min", None), getattr(self.trait, "max", None)
        limits = f" of at least {least}" if least is not None else ""
        limits = f" from {least} to {most}" if most is not None else limits
        match self.kind:
            case "bool":
                return "Choose true or false"
            case "choice":
                return f"Choose one of {', '.join(self.choices)}"
            case "int":
                return f"Use a whole number{limits}"
            case "float":
                return f"Use a number{limits}"
        return "Use text"


def _row(name: str, trait: TraitType[Any, Any]) -> Setting:
    choices: tuple[str, ...] = ()
    if isinstance(trait, Enum):
        choices = tuple(map(str, trait.values or ()))
    elif isinstance(trait, Bool) and trait.allow_none:
        choices = ("true", "false")
    if choices and trait.allow_none:
        choices = (*choices, DEFAULT)
    kinds: dict[type, Kind] = {Bool: "bool", Int: "int", Float: "float"}
    kind = "choice" if choices else kinds.get(type(trait), "text")
    return Setting(
        name,
        trait,
        kind,
        choices,
        help=str(trait.help),
        default=trait.default_value,
        scope=trait.metadata["scope"],
        apply=trait.metadata["apply"],
        is_secret=trait.metadata.get("secret", False),
        variable=f"NBCHAT_{name.upper()}",
    )


TABLE: Mapping[str, Setting] = {
    name: _row(name, trait)
    for name, trait in vars(NbChat).items()
    if isinstance(trait, TraitType) and trait.metadata.get("config")
}
"""Every setting by its name, in the order of the class."""

MODEL_SETTINGS = tuple(row.name for row in TABLE.values() if row.scope == "model")
"""Settings that `/set` can store."""


def unknown_setting(*names: str, known: Iterable[str] = TABLE, listed: str = "") -> str:
    """One line about names that are not in the table, with the nearest ones.

    Without one it lists all, or says where they are `listed`.
    """
    near = [each for name in names for each in get_close_matches(name, known, 1)]
    hint = f"Did you mean {' or '.join(near)}?"
    hint = hint if near else listed or f"Choose one of {', '.join(known)}."
    return f"No setting named {', '.join(names)}. {hint}"


def locked_line(name: str, value: object, path: Path) -> str:
    """One line about a change that a lock refuses."""
    shown = without_login(value) if isinstance(value, str) else value
    return f"{name} is locked to {shown!r} by {path}, so it can't be changed here."


def without_login(text: str) -> str:
    """An address without user, password and query; any other text unchanged.

    Everything before the last @ is removed: a password may contain an unescaped @.
    """
    found = re.fullmatch(r"([\w+.-]+://)(.*)", text.strip(), re.DOTALL)
    if not found:
        return text
    scheme, rest = found.groups()
    if not rest.startswith("/"):  # the path of a file may contain an @
        rest = rest.rpartition("@")[2]
    return str(scheme + re.split("[?#]", rest, maxsplit=1)[0])


def without_secrets(text: str) -> str:
    """An address without a login, or headers without their values.

    Also of what is no address for lack of a scheme.
    """
    shown = without_login(text)
    shown = shown if "://" in shown else shown.rpartition("@")[2]
    return _HEADER.sub(r"\1: ***", shown)


_HEADER = re.compile(r"((?:^|[;\n])\s*[\w-]+):(?!//)[^;\n]*")


def markdown_table() -> str:
    """The list of settings as `nbchat settings` prints it."""
    lines = ["| setting | default | what it does | `/set` |", "|---|---|---|---|"]
    for row in TABLE.values():
        default = f"`{row.default}`" if row.default not in (None, "") else ""
        is_stored = "yes" if row.scope == "model" else ""
        lines.append(f"| `{row.name}` | {default} | {_meaning(row)} | {is_stored} |")
    return "\n".join(lines)


def _meaning(row: Setting) -> str:
    if not isinstance(row.trait, Enum):
        return row.help
    return f"{row.help} One of: {', '.join(map(str, row.trait.values or ()))}."
