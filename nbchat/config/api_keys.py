"""API keys that a person typed: kept in memory, on request in the system's keyring.

From there `endpoint` reads them in later sessions. The environment comes first. A typed
key never reaches a setting, a message of the chat, a file or a log. It belongs to the
address it was typed for: with another `base_url` it is not sent.
"""

import os
from collections.abc import Callable
from typing import Any

from nbchat.errors import ConfigError
from nbchat.providers.endpoint import KEYRING_SERVICE, keyring_key

KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
"""The environment variable of each provider that needs a key, as `connect` has them:
that module is too heavy to be loaded with the settings."""


class Keys:
    """The typed keys of one chat, by provider and address."""

    def __init__(self, keyring: Any = None) -> None:
        """Use the package `keyring`, if it is installed, unless another is given."""
        self._typed: dict[str, str] = {}
        self._given = keyring

    def __repr__(self) -> str:
        """How many there are, never which."""
        return f"<Keys: {len(self._typed)} typed>"

    def add(self, kind: str, key: str, *, base_url: str = "", keep: bool) -> None:
        """Use a key from now on; `keep` also stores it in the system's keyring.

        Raises ConfigError for an unusable key, and if the keyring refuses it.
        """
        key = key.strip()
        if kind not in KEY_VARIABLES:
            raise ConfigError(f"{kind} takes no key")
        if not (key and key.isascii() and key.isprintable()) or " " in key:
            raise ConfigError("this is not a key; copy it again, without spaces")
        name = _name(kind, base_url)
        if keep:
            try:
                self._keyring().set_password(KEYRING_SERVICE, KEY_VARIABLES[kind], key)
            except Exception as error:  # noqa: BLE001  # a backend may raise anything
                cause = type(error).__name__
                raise ConfigError(
                    f"the keyring did not keep the key: {cause}"
                ) from None
        self._typed[name] = key

    def reader(self, kind: str, base_url: str = "") -> Callable[[], str] | None:
        """A function that returns the key of a provider; None if none was typed.

        A closure, for the repr of a partial would show the key.
        """
        if kind not in KEY_VARIABLES or os.environ.get(KEY_VARIABLES[kind], "").strip():
            return None
        key = self._typed.get(_name(kind, base_url))
        return (lambda: key) if key else None

    def provider(self) -> str:
        """The first provider with a typed key, if the environment has none."""
        if any(os.environ.get(each, "").strip() for each in KEY_VARIABLES.values()):
            return ""
        return next((each for each in KEY_VARIABLES if self.reader(each)), "")

    def has(self, kind: str) -> bool:
        """Whether the environment, this chat or the system's keyring has a key."""
        variable = KEY_VARIABLES.get(kind, "")
        return bool(
            os.environ.get(variable, "").strip()
            or self.reader(kind)
            or keyring_key(variable)
        )

    def _keyring(self) -> Any:
        if self._given is not None:
            return self._given
        import keyring  # noqa: PLC0415  # an optional package

        return keyring


def _name(kind: str, base_url: str) -> str:
    address = base_url or os.environ.get(f"{kind.upper()}_BASE_URL", "")
    return f"{kind} at {address}" if address else kind
