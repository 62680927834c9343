"""What can be set, and in which order the layers count.

Packaged default < site files (`nbchat_config.d/*.json` in Jupyter's config folders) <
`NBCHAT_*` environment variables < IPython's configuration and `%config NbChat.x = ...`
< arguments in code. What a site file locks nothing above it changes.
"""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets import Bool, Enum, Float, Int, TraitError, Unicode
from traitlets.config import Config, Configurable
from traitlets.config.loader import DeferredConfigString

from nbchat.config.site import Site, read_site
from nbchat.errors import ConfigError


def without_login(text: str) -> str:
    """An address without user, password and query; any other text as it is.

    All before the last @ goes: one in a password may stand there unescaped.
    """
    found = re.fullmatch(r"([\w+.-]+://)(.*)", text.strip(), re.DOTALL)
    if not found:
        return text
    scheme, rest = found.groups()
    if not rest.startswith("/"):  # the path of a file may hold an @
        rest = rest.rpartition("@")[2]
    return scheme + re.split("[?#]", rest, maxsplit=1)[0]


logger = logging.getLogger(__name__)


class NbChat(Configurable):
    """Settings of the notebook chat; `%config NbChat` shows them."""

    explicit: frozenset[str] = frozenset()
    """What the environment, IPython's configuration or code has set."""
    origins: Mapping[str, str] = {}
    """Where a value comes from that is no packaged default, in words."""
    locks: Mapping[str, Path] = {}
    """What cannot be changed, and the site file that says so."""

    model = Unicode(
        "",
        help="Model as provider:name: anthropic:..., openai:..., gemini:..., "
        "local:smollm2. Empty: a key in the environment chooses, else the embedded "
        "model.",
    ).tag(config=True)
    base_url = Unicode(
        "",
        help="Address of a compatible server, as in http://localhost:8000/v1, for all "
        "models of the provider; no key is needed there.",
    ).tag(config=True)
    system_prompt = Unicode(
        "You are a helpful assistant in a Jupyter notebook.",
        help="What the model is told before the conversation.",
    ).tag(config=True)
    context_token_threshold = Int(
        None,
        allow_none=True,
        min=1,
        help="Input tokens, added up over the responses, after which the conversation "
        "is compacted. None: 75 % of the model's window.",
    ).tag(config=True)
    policy = Unicode(
        "single-summary",
        help="How to compact: single-summary, tiered, recent-messages, early, "
        "token-window, auto (by price), extractive (no model writes) or off (only by "
        "hand). The settings below change single fields of it; None: as it says.",
    ).tag(config=True)
    automatic = Bool(
        True, help="Whether it compacts by itself; if not, only by hand."
    ).tag(config=True)
    window_share = Float(
        None,
        allow_none=True,
        help="Share of the window, from 0 to 1, at which the policy's guard fires.",
    ).tag(config=True)
    target_share = Float(
        None,
        allow_none=True,
        help="Share of the window to come down to; below window_share.",
    ).tag(config=True)
    keep = Int(
        None,
        allow_none=True,
        min=0,
        help="How much of the newest stays word for word, in keep_unit.",
    ).tag(config=True)
    keep_unit = Enum(
        ["messages", "exchanges", "tokens"],
        None,
        allow_none=True,
        help="What keep counts.",
    ).tag(config=True)
    bullets = Int(
        None,
        allow_none=True,
        min=0,
        help="Newest folded exchanges of which code keeps a line each.",
    ).tag(config=True)
    least_tokens = Int(
        None,
        allow_none=True,
        min=0,
        help="Fewest tokens that an automatic compaction must fold.",
    ).tag(config=True)
    summarizer = Enum(
        ["prose", "structured", "hybrid", "extractive"],
        None,
        allow_none=True,
        help="Who tells the story: a model in prose, as JSON (structured), with files, "
        "commands and errors listed by code (hybrid), or no model (extractive).",
    ).tag(config=True)
    summary_style = Enum(
        ["general", "complete", "technical", "code"],
        None,
        allow_none=True,
        help="What a summary looks for.",
    ).tag(config=True)
    summary_detail = Enum(
        ["normal", "detailed", "concise"],
        None,
        allow_none=True,
        help="How much a summary tells.",
    ).tag(config=True)
    prunes = Bool(
        None,
        allow_none=True,
        help="Whether old tool outputs are shortened before a model is asked.",
    ).tag(config=True)
    verbosity = Enum(
        ["normal", "debug"],
        None,
        allow_none=True,
        help="With debug no tool output is ever shortened.",
    ).tag(config=True)
    tokenizer = Enum(
        ["tiktoken", "characters"],
        "tiktoken",
        help="How tokens are counted: by tiktoken, or as characters / 4 plus 20 %.",
    ).tag(config=True)
    notifications = Bool(
        True, help="Whether the panel shows a banner when it compacted by itself."
    ).tag(config=True)
    summary_model = Unicode(
        "",
        help="Model that writes summaries, as provider:name or, of the same provider, "
        "the name alone. Empty: the chat's own.",
    ).tag(config=True)
    fallback_model = Unicode(
        "", help="Model that is asked for a summary when the first one has failed."
    ).tag(config=True)
    summary_shape = Enum(
        ["auto", "shared", "plain"],
        "auto",
        help="How a summary is asked for: as the chat's own next message, which the "
        "provider's prompt cache makes cheap (shared), or with the conversation "
        "written down anew (plain). auto: shared where the cache was hit.",
    ).tag(config=True)
    summary_prompt = Unicode(
        "", help="What to ask of a summary; empty: the built-in prompt."
    ).tag(config=True)
    recall = Bool(
        None,
        allow_none=True,
        help="Whether the model is offered a tool that brings back what was folded or "
        "shortened, 84 tokens a request. None: offered to models of OpenAI and "
        "Anthropic; small models are confused by it, some servers refuse tools.",
    ).tag(config=True)
    live_variables = Bool(
        True,
        help="Whether a summary lists the notebook's variables that were talked about, "
        "with their types and shapes.",
    ).tag(config=True)
    window = Int(
        None,
        allow_none=True,
        min=1,
        help="The model's context window in tokens, where you know it better.",
    ).tag(config=True)
    max_steps = Int(
        50, min=1, help="Most requests to the model in one turn of tool use."
    ).tag(config=True)
    max_output_tokens = Int(
        None,
        allow_none=True,
        min=1,
        help="Longest answer in tokens; None: the model's.",
    ).tag(config=True)
    store_url = Unicode(
        "",
        help="Where sessions are kept, as a SQLAlchemy URL; empty: a SQLite file in "
        "the Jupyter data folder.",
    ).tag(config=True)
    log_folder = Unicode(
        "",
        help="Folder in which each session is also kept as Markdown, written after "
        "each turn; empty: none.",
    ).tag(config=True)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to change what is locked; `%config` shows the TraitError's line."""
        if name in self.locks and value != getattr(self, name):
            raise TraitError(_locked_line(name, getattr(self, name), self.locks[name]))
        super().__setattr__(name, value)


def settings(config: Config | None = None, **arguments: Any) -> NbChat:
    """The settings in force, all layers merged; raises ConfigError naming a bad one."""
    names = set(NbChat.class_trait_names(config=True))
    if unknown := set(arguments) - names:
        raise ConfigError(_unknown_line(unknown))
    site = read_site()
    _refuse_unknown_locks(site, names)
    environment, layered = _environment(), dict((config or Config()).get("NbChat", {}))
    layers = Config({"NbChat": {**site.values, **environment}})
    layers.merge(config or Config())
    layers["NbChat"] = Config(_with_locks(dict(layers["NbChat"]), site))
    found = _made(layers, arguments)
    _refuse_locked(site, arguments)
    found.explicit = frozenset({*environment, *layered, *arguments} - {*site.locks})
    found.origins = _origins(site, environment, layered, arguments)
    found.locks = site.locks
    return found


def refuse_locked(**values: Any) -> None:
    """Raise ConfigError, naming the file, where a site locks another value."""
    _refuse_locked(read_site(), values)


def is_locked(name: str) -> bool:
    """Whether a site lets nobody change a setting."""
    return name in read_site().locks


def _refuse_locked(site: Site, values: Mapping[str, Any]) -> None:
    locked = {name: path for name, path in site.locks.items() if name in values}
    if not locked:
        return
    in_force = _made(Config({"NbChat": dict(site.values)}), {})
    for name, path in locked.items():
        if values[name] != getattr(in_force, name):
            raise ConfigError(_locked_line(name, getattr(in_force, name), path))


def _refuse_unknown_locks(site: Site, names: set[str]) -> None:
    """A slip in a lock's name would leave open what somebody believes locked."""
    for name, path in site.locks.items():
        if name not in names:
            raise ConfigError(f"{path} locks {name!r}: {_unknown_line({name})}")


def _made(layers: Config, arguments: Mapping[str, Any]) -> NbChat:
    try:
        return NbChat(config=layers, **arguments)
    except (TraitError, ValueError) as error:
        raise ConfigError(
            f"a setting cannot be: {' '.join(str(error).split())}"
        ) from error


def _environment() -> dict[str, DeferredConfigString]:
    names = NbChat.class_trait_names(config=True)
    found = {name: os.environ.get(variable_of(name)) for name in names}
    return {name: DeferredConfigString(text) for name, text in found.items() if text}


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"NBCHAT_{name.upper()}"


def _with_locks(values: dict[str, Any], site: Site) -> dict[str, Any]:
    """Values without those that a lock forbids; a line in the log names each."""
    for name, path in site.locks.items():
        if name in values and values[name] != site.values.get(name):
            logger.warning("another value of %s has no effect: %s locks it", name, path)
        values.pop(name, None)
    return values | {n: v for n, v in site.values.items() if n in site.locks}


def _origins(
    site: Site,
    environment: Mapping[str, object],
    layered: Mapping[str, object],
    arguments: Mapping[str, object],
) -> dict[str, str]:
    """The layer of each setting that has one, the later ones counting more."""
    found = (
        {name: f"site file {path}" for name, path in site.origins.items()}
        | {name: f"environment variable {variable_of(name)}" for name in environment}
        | dict.fromkeys(layered, "IPython's configuration")
        | dict.fromkeys(arguments, "code")
    )
    setters = {**site.locks, **site.origins}
    return found | {name: f"site file {setters[name]}" for name in site.locks}


def _locked_line(name: str, value: object, path: Path) -> str:
    shown = without_login(value) if isinstance(value, str) else value
    return f"{name} is locked to {shown!r} by {path}; it cannot be changed here"


def _unknown_line(names: set[str]) -> str:
    return (
        f"there is no setting {', '.join(sorted(names))}; there are "
        f"{', '.join(sorted(NbChat.class_trait_names(config=True)))}"
    )
