"""API keys that a person typed: in the system's keyring, else in this kernel's memory.

A typed key never reaches a setting, a message of the chat, a file or a log. It belongs
to the address it was typed for: with another `base_url` it is not sent. It replaces the
key of the environment until that changes.
"""

import os
from dataclasses import dataclass, field
from typing import Any, Literal

from nbchat.errors import ConfigError
from nbchat.providers.endpoint import KEYRING_SERVICE, ReadKey, keyring_key

KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "ollama": "OLLAMA_API_KEY",
    "lmstudio": "LM_API_TOKEN",
    "vllm": "VLLM_API_KEY",
}
"""The environment variable of each provider that takes a key, as the table of providers
has them: that module is too heavy to be loaded with the settings."""

Place = Literal["environment", "keyring", "kernel", "none"]
"""Where the key of a provider is; "kernel" is the memory of this kernel."""


@dataclass(frozen=True, slots=True)
class _Typed:
    key: str = field(repr=False)
    environment: str = field(repr=False)
    """The environment's key at that time: a later one counts more."""
    is_kept: bool


class Keys:
    """The typed keys of one chat, and the servers that may get the environment's."""

    def __init__(self, keyring: Any = None) -> None:
        """Use the package `keyring`, if it is installed, unless another is given."""
        self._typed: dict[str, _Typed] = {}
        self._given = keyring
        self.addresses: tuple[str, ...] = ()
        """Addresses of servers that this person typed."""
        self.servers: tuple[str, ...] = ()
        """Servers, as host and port, to which this person sends a provider's key."""

    def __repr__(self) -> str:
        """How many there are, never which."""
        return f"<Keys: {len(self._typed)} typed>"

    def add(self, kind: str, key: str, *, base_url: str = "") -> Place:
        """Use a key from now on; says where it is kept.

        Raises ConfigError for an unusable key.
        """
        key = key.strip()
        if kind not in KEY_VARIABLES:
            raise ConfigError(f"{kind} takes no key.")
        if not (key and key.isascii() and key.isprintable()) or " " in key:
            raise ConfigError("This isn't a key. Copy it again, without spaces.")
        is_kept = self._keep(_kept_name(kind, base_url), key)
        self._typed[_name(kind, base_url)] = _Typed(key, _in_environment(kind), is_kept)
        return "keyring" if is_kept else "kernel"

    def reader(self, kind: str, base_url: str = "") -> ReadKey | None:
        """A function that returns the key of a provider; None if none was typed.

        A closure, for the repr of a partial would show the key.
        """
        typed = self._current(kind, base_url)
        if typed is not None:
            return lambda: _in_environment(kind, since=typed) or typed.key
        name = _kept_name(kind, base_url)
        if kind in KEY_VARIABLES and name not in KEY_VARIABLES.values():
            return (lambda: keyring_key(name)) if self._kept(name) else None
        return None

    def provider(self) -> str:
        """The first provider with a typed key, if the environment has none."""
        if any(map(_in_environment, KEY_VARIABLES)):
            return ""
        return next((each for each in KEY_VARIABLES if self._current(each)), "")

    def place(self, kind: str, base_url: str = "") -> Place:
        """Where the key for a provider, or for a private server, is."""
        if typed := self._current(kind, base_url):
            return "keyring" if typed.is_kept else "kernel"
        if not base_url and _in_environment(kind):
            return "environment"
        return "keyring" if self._kept(_kept_name(kind, base_url)) else "none"

    def has(self, kind: str) -> bool:
        """True if the environment, this chat or the system's keyring has a key."""
        return kind in KEY_VARIABLES and self.place(kind) != "none"

    def _current(self, kind: str, base_url: str = "") -> _Typed | None:
        """The key that was typed, unless the environment has got another one since."""
        typed = self._typed.get(_name(kind, base_url))
        is_replaced = typed and _in_environment(kind, since=typed) and not base_url
        return None if is_replaced else typed

    def _kept(self, name: str) -> str:
        if self._given is not None:
            return self._given.get_password(KEYRING_SERVICE, name) or ""
        return keyring_key(name)

    def _keep(self, name: str, key: str) -> bool:
        """Put a key into the keyring; False if there is none, or it is locked."""
        try:
            self._keyring().set_password(KEYRING_SERVICE, name, key)
            return self._kept(name) == key  # a keyring may be one that keeps nothing
        except Exception:  # noqa: BLE001  # a backend may raise anything
            return False

    def _keyring(self) -> Any:
        if self._given is not None:
            return self._given
        import keyring  # noqa: PLC0415  # an optional package

        return keyring


def _in_environment(kind: str, since: _Typed | None = None) -> str:
    """The environment's key; with `since` only one that came after a typed one."""
    found = os.environ.get(KEY_VARIABLES.get(kind, ""), "").strip()
    return "" if since is not None and found == since.environment else found


def _kept_name(kind: str, base_url: str) -> str:
    """The name of a key in the keyring: of a provider that of its variable."""
    name = _name(kind, base_url)
    return KEY_VARIABLES[kind] if name == kind and kind in KEY_VARIABLES else name


def _name(kind: str, base_url: str) -> str:
    address = base_url or os.environ.get(f"{kind.upper()}_BASE_URL", "")
    return f"{kind} at {address.rstrip('/')}" if address else kind
