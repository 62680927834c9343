"""Merge the layers that set values: site files, environment, IPython, code.

The later ones win: packaged default, site files, the model that a person chose for
always, what `/set` stored (see `saved_settings`), `NBCHAT_*` environment variables,
IPython's configuration and `%config NbChat.x = ...`, arguments in code. A locked
setting keeps the site's value.

Site files are `nbchat_config.d/*.json` in Jupyter's config folders:

    {"NbChat": {"policy": "tiered"}, "locked": ["policy"],
     "policies": {"tiered": {"keep": 5}}}

`policies` changes fields of presets; see `Policy`. A lock of `policy` holds for them.

They are merged in the order of their names; of two files with the same name, the one in
the folder that Jupyter lists first wins. Only the folder that locks a setting, and
folders that Jupyter lists after it (environment and system), can set its value: a
user's own files cannot.

The model chosen for always is in `chosen-model.json` in the person's own folder of
these, with its server's address and its window. They hold together: where another
layer sets the model or the address, none of them does.
"""

import json
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_core.paths import (
    ENV_CONFIG_PATH,
    SYSTEM_CONFIG_PATH,
    jupyter_config_dir,
    jupyter_config_path,
)
from traitlets import TraitError
from traitlets.config import Config
from traitlets.config.loader import DeferredConfigString

from nbchat.compaction.policies import policy_named, with_fields
from nbchat.config.private_files import write_private
from nbchat.config.settings import (
    TABLE,
    NbChat,
    locked_line,
    unknown_setting,
)
from nbchat.errors import ConfigError

logger = logging.getLogger(__name__)

FOLDER = "nbchat_config.d"

CHOICE_FILE = "chosen-model.json"

CHOICE = "your choice for new chats"
"""Where a value of the choice comes from, as it is shown."""

BY_CONFIGURATION = "IPython's configuration"

CONNECTION = ("base_url", "api_key_hosts", "headers", "proxy", "window")
"""Settings about the way to a model."""

CHOSEN = ("model", "base_url", "window")
"""Settings that are chosen together."""

OTHER_VARIABLES = ("NBCHAT_DEMO_", "NBCHAT_TEST_", "NBCHAT_CHROMIUM")
"""How variables begin that are no settings: of the demo's notebook and the tests."""

CHATBOT_VARIABLES = {
    "CHATBOT_MAX_HISTORY": "It never drops messages",
    "CHATBOT_TOKEN_THRESHOLD": "Set NBCHAT_POLICY to tiered, and its window_share in a "
    "site file if 0.75 of the window isn't what you want",
    "CHATBOT_RECENT_EXCHANGES_KEEP": "Set NBCHAT_POLICY to tiered, and its keep in a "
    "site file if it isn't 10",
    "CHATBOT_ENABLE_SUMMARIZATION": "Set NBCHAT_AUTOMATIC",
    "CHATBOT_SUMMARIZATION_MODEL": "Set NBCHAT_SUMMARY_MODEL, "
    "for example to openai:x-ai/grok-4.1-fast",
    "CHATBOT_USE_TIKTOKEN": "Set NBCHAT_TOKENIZER to tiktoken or characters",
    "CHATBOT_FALLBACK_TO_CHAR_COUNT": "It counts characters wherever a vocabulary is "
    "missing",
}
"""Variables of the plan that the policy `tiered` follows, and what to set instead."""


PARTS = "NbChat, locked or policies"
"""The parts of a site file."""


@dataclass(frozen=True, slots=True)
class SiteFile:
    """One file: its values, and the settings it locks."""

    path: Path
    rank: int
    """Index of its folder in Jupyter's list; the system's folder is last."""
    values: Mapping[str, Any]
    locked: tuple[str, ...]
    policy_fields: Mapping[str, Mapping[str, Any]]
    unread: tuple[str, ...]
    """One line about each name in it that is no setting."""


@dataclass(frozen=True, slots=True)
class Site:
    """All site files, merged."""

    values: Mapping[str, Any]
    origins: Mapping[str, Path]
    """The file that sets each value."""
    locks: Mapping[str, Path]
    """The file that locks each locked setting."""
    chosen: Mapping[str, Any]
    """The model that the person chose for always, with address and window."""
    policy_fields: Mapping[str, Mapping[str, Any]]
    unread: Sequence[str]
    """One line about each name in the files that is no setting."""


def settings(
    config: Config | None = None,
    *,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
    **arguments: Any,
) -> NbChat:
    """The settings in force, all layers merged; raises ConfigError naming a bad one.

    `policies` changes fields of presets, as in `{"tiered": {"keep": 5}}`.
    """
    if unknown := set(arguments) - TABLE.keys():
        raise ConfigError(unknown_setting(*sorted(unknown)))
    for line in unread_names():
        logger.warning(line)
    found = _layered(config or Config(), policies or {}, arguments)
    found.read = {name: getattr(found, name) for name in (*CONNECTION, "model")}
    return found


def _layered(
    config: Config,
    policies: Mapping[str, Mapping[str, Any]],
    arguments: Mapping[str, Any],
) -> NbChat:
    site = read_site()
    _refuse_unknown_locks(site)
    environment, layered = _environment(), dict(config.get("NbChat", {}))
    chosen = _chosen(site, {*environment, *layered, *arguments})
    layers = Config({"NbChat": {**site.values, **chosen, **environment}})
    layers.merge(config)
    layers["NbChat"] = Config(_with_locks(dict(layers["NbChat"]), site))
    found = _made(layers, arguments)
    _refuse_locked(site, arguments)
    found.explicit = frozenset({*environment, *layered, *arguments} - {*site.locks})
    found.origins = _origins(site, chosen, environment, layered, arguments)
    found.locks = site.locks
    found.assigned = {**layered, **arguments}
    found.policy_fields = _with_own_fields(site, policies)
    return found


def unread_names() -> list[str]:
    """One line about each name that looks like a setting and is none.

    Of variables of the environment, and in site files.
    """
    known = [row.variable for row in TABLE.values()]
    unread = sorted(os.environ.keys() - set(known))
    lines = [
        unknown_setting(name, known=known)
        for name in unread
        if name.startswith("NBCHAT_") and not name.startswith(OTHER_VARIABLES)
    ]
    return [*read_site().unread, *lines] + [
        f"nbchat doesn't use {name}. {use}."
        for name, use in CHATBOT_VARIABLES.items()
        if name in os.environ
    ]


def changed_connection(config: NbChat) -> dict[str, Any]:
    """News from the environment and site files about the model.

    Settings that IPython's configuration or code has set are left out, and a choice for
    new chats that was forgotten stays this chat's. What is found counts as known from
    then on.
    """
    fresh = _layered(Config({"NbChat": dict(config.assigned)}), {}, {})
    chosen = {name for name, origin in config.origins.items() if origin == CHOICE}
    kept = {*config.assigned} if fresh.model else {*config.assigned, *chosen}
    found = {
        name: getattr(fresh, name)
        for name in (*CONNECTION, "model")
        if name not in kept and getattr(fresh, name) != config.read.get(name)
    }
    config.read = {**config.read, **found}
    origins = {n: fresh.origins[n] for n in found if n in fresh.origins}
    rest = {name: each for name, each in config.origins.items() if name not in found}
    config.origins = {**rest, **origins}
    return {n: each for n, each in found.items() if each != getattr(config, n)}


def trusted_addresses(config: NbChat, kind: str) -> set[str]:
    """Addresses of a provider's servers that code in a notebook has not set."""
    own = {*config.keys.addresses, os.environ.get(f"{kind.upper()}_BASE_URL", "")}
    origin = config.origins.get("base_url", "")
    if origin == CHOICE or origin.startswith(("environment", "site file")):
        own.add(config.base_url)
    return {each for each in own if each}


def choose_model(model: str, base_url: str = "", window: int | None = None) -> Path:
    """Keep a model for new chats and agents; an empty one is no choice any more.

    Returns the file. Raises ConfigError if it cannot be written.
    """
    path = Path(jupyter_config_dir(), FOLDER, CHOICE_FILE)
    values = {"model": model, "base_url": base_url, "window": window}
    text = json.dumps({"NbChat": {name: each for name, each in values.items() if each}})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, f"{text}\n")
    except OSError as error:
        raise ConfigError(
            f"Couldn't save the model for new chats in {path}: {error.strerror}."
        ) from error
    return path


def model_for_new_chats() -> str:
    """The model that was chosen for new chats; empty without one."""
    return str(read_site().chosen.get("model", ""))


def choose_window(model: str, window: int | None) -> None:
    """Give the model that was chosen for new chats another window, if it is this one.

    Raises ConfigError if that cannot be written.
    """
    chosen = read_site().chosen
    if chosen.get("model") == model:
        choose_model(model, chosen.get("base_url", ""), window)


def refuse_locked(**values: Any) -> None:
    """Raise ConfigError, naming the file, if a site locks another value."""
    _refuse_locked(read_site(), values)


def is_locked(name: str) -> bool:
    """True if a site file locks a setting."""
    return name in read_site().locks


def read_site() -> Site:
    """Read and merge all site files; raises ConfigError naming a broken file."""
    # JUPYTER_NO_CONFIG would omit the folders in which a site locks settings.
    every = (*jupyter_config_path(), *ENV_CONFIG_PATH, *SYSTEM_CONFIG_PATH)
    folders = list(enumerate(dict.fromkeys(every)))
    choice = Path(jupyter_config_dir(), FOLDER, CHOICE_FILE)
    files = [
        _read(path, rank)
        for rank, folder in reversed(folders)
        for path in Path(folder, FOLDER).glob("*.json")
        if path != choice
    ]
    chosen = _read(choice, 0).values if choice.exists() else {}
    return _merged(sorted(files, key=lambda file: file.path.name), chosen)


def _chosen(site: Site, set_elsewhere: Collection[str]) -> dict[str, Any]:
    """The person's choice, unless another layer or a lock decides on the model."""
    if {"model", "base_url"} & {*set_elsewhere, *site.locks}:
        return {}
    return {name: site.chosen[name] for name in CHOSEN if name in site.chosen}


def _refuse_locked(site: Site, values: Mapping[str, Any]) -> None:
    locked = {name: path for name, path in site.locks.items() if name in values}
    if not locked:
        return
    in_force = _made(Config({"NbChat": dict(site.values)}), {})
    for name, path in locked.items():
        if values[name] != getattr(in_force, name):
            raise ConfigError(locked_line(name, getattr(in_force, name), path))


def _refuse_unknown_locks(site: Site) -> None:
    """Refuse a misspelled lock, which would leave the setting open."""
    for name, path in site.locks.items():
        if name not in TABLE:
            raise ConfigError(f"{path} locks {name!r}: {unknown_setting(name)}")


def _made(layers: Config, arguments: Mapping[str, Any]) -> NbChat:
    try:
        return NbChat(config=layers, **arguments)
    except (TraitError, ValueError) as error:
        raise ConfigError(" ".join(str(error).split())) from error


def _environment() -> dict[str, DeferredConfigString]:
    found = {row.name: os.environ.get(row.variable) for row in TABLE.values()}
    return {name: DeferredConfigString(text) for name, text in found.items() if text}


def _with_locks(values: dict[str, Any], site: Site) -> dict[str, Any]:
    """The values with locked ones replaced by the site's; logs a warning for each."""
    for name, path in site.locks.items():
        if name in values and values[name] != site.values.get(name):
            logger.warning(
                "%s is locked by %s, so another value has no effect.", name, path
            )
        values.pop(name, None)
    return values | {n: v for n, v in site.values.items() if n in site.locks}


def _origins(
    site: Site,
    chosen: Mapping[str, object],
    environment: Mapping[str, object],
    layered: Mapping[str, object],
    arguments: Mapping[str, object],
) -> dict[str, str]:
    """The layer that set each value; the later ones win."""
    found = (
        {name: f"site file {path}" for name, path in site.origins.items()}
        | dict.fromkeys(chosen, CHOICE)
        | {name: f"environment variable {TABLE[name].variable}" for name in environment}
        | dict.fromkeys(layered, BY_CONFIGURATION)
        | dict.fromkeys(arguments, "code")
    )
    setters = {**site.locks, **site.origins}
    return found | {name: f"site file {setters[name]}" for name in site.locks}


def _merged(files: Iterable[SiteFile], chosen: Mapping[str, Any]) -> Site:
    files = list(files)
    locks: dict[str, SiteFile] = {}
    for file in sorted(files, key=lambda file: file.rank):
        locks |= dict.fromkeys(file.locked, file)
    values: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for file in files:
        for name, value in file.values.items():
            if name not in locks or file.rank >= locks[name].rank:
                values[name], origins[name] = value, file.path
    locked = {name: file.path for name, file in locks.items()}
    unread = [line for file in files for line in file.unread]
    return Site(values, origins, locked, chosen, _policy_fields(files, locks), unread)


def _with_own_fields(
    site: Site, policies: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    if policies and "policy" in site.locks:
        raise ConfigError(
            f"{site.locks['policy']} locks the policy, so its fields can't be set here."
        )
    for name, fields in policies.items():
        with_fields(policy_named(name), fields)
    known = site.policy_fields
    own = {name: {**known.get(name, {}), **each} for name, each in policies.items()}
    return {**known, **own}


def _policy_fields(
    files: Iterable[SiteFile], locks: Mapping[str, SiteFile]
) -> dict[str, dict[str, Any]]:
    """Fields of policies that files change, checked; the later one wins."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        if "policy" in locks and file.rank < locks["policy"].rank:
            continue
        for name, fields in file.policy_fields.items():
            try:
                with_fields(policy_named(name), fields)
            except ConfigError as error:
                raise ConfigError(f"{file.path}: {error}") from error
            found.setdefault(name, {}).update(fields)
    return found


def _read(path: Path, rank: int) -> SiteFile:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"Can't read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} isn't JSON: {error}.") from error
    parts: dict[str, Any] = {"NbChat": {}, "locked": [], "policies": {}}
    parts |= found if isinstance(found, dict) else {"NbChat": found}
    values, locked, policies = parts["NbChat"], parts["locked"], parts["policies"]
    changed = policies.values() if isinstance(policies, dict) else [policies]
    if not all(isinstance(each, dict) for each in (values, *changed)):
        raise ConfigError(f'{path} isn\'t of the form {{"NbChat": {{...}}}}.')
    if not isinstance(locked, list) or not all(isinstance(n, str) for n in locked):
        raise ConfigError(
            f'{path}: "locked" must be a list of names, as in ["policy"], not {locked}'
        )
    unread = [f"{path}: {unknown_setting(n)}" for n in values if n not in TABLE]
    unread += [f"{path}: {n!r} isn't read. Use {PARTS}." for n in [*parts][3:]]
    known = {name: each for name, each in values.items() if name in TABLE}
    return SiteFile(path, rank, known, tuple(locked), policies, tuple(unread))
