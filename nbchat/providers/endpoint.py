"""The address and key of an API; the key is never shown or logged."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlsplit

from nbchat.errors import ConfigError

DETAIL_LENGTH = 200
"""Characters of a server's message that are shown; some send whole pages."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API: its kind as in `openai:...`, its address and how to read its key."""

    kind: str
    address: str = field(repr=False)  # may hold a password: https://user:secret@host
    key_variable: str
    read_key: Callable[[], str] = field(repr=False)
    needs_key: bool = True

    @property
    def url(self) -> str:
        """The address without user and password."""
        parts = urlsplit(self.address)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def host(self) -> str:
        """The server's name."""
        return urlsplit(self.address).hostname or ""

    def key(self) -> str:
        """The key; empty if none is needed. Raises ConfigError for a missing one."""
        if error := self._key_error():
            raise error  # from a frame without the key: tracebacks show local variables
        return self.read_key().strip()

    def shown(self, text: str, length: int = DETAIL_LENGTH) -> str:
        """A server's message on one line of limited length, without the key."""
        line = " ".join(redact(text, self.key()).split())
        return line if len(line) <= length else f"{line[:length]}..."

    def _key_error(self) -> ConfigError | None:
        try:
            key = self.read_key().strip()
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            cause = type(error).__name__
            return ConfigError(f"the api_key function for {self.kind} failed: {cause}")
        if self.needs_key and not key:
            return missing_key(self.kind, self.key_variable)
        if key.isascii() and key.isprintable():
            return None
        return ConfigError(
            f"the key for {self.kind} contains invalid characters; "
            f"copy it again into {self.key_variable}"
        )


def find_endpoint(
    kind: str,
    address: str,
    *,
    key_variable: str,
    api_key: Callable[[], str] | None,
    needs_key: bool,
) -> Endpoint:
    """An endpoint whose key comes from `api_key`, else from the environment.

    Raises ConfigError for an address without a scheme and for a missing key.
    """
    if not address.startswith(("http://", "https://")):
        raise ConfigError(f"base_url {address!r} must begin with http:// or https://")
    read_key = _environment_key(key_variable) if api_key is None else cache(api_key)
    if api_key is None and needs_key and not read_key().strip():
        raise missing_key(kind, key_variable)
    return Endpoint(kind, address, key_variable, read_key, needs_key)


def set_variable(names: Sequence[str]) -> str:
    """The first of some environment variables that is set, else the first one."""
    return next((name for name in names if os.environ.get(name, "").strip()), names[0])


def missing_key(kind: str, key_variable: str) -> ConfigError:
    """The error for a missing key, with the ways to continue."""
    return ConfigError(
        f"no key for {kind}: set {key_variable}, "
        "or use the model 'local:smollm2', which needs none"
    )


def redact(text: str, secret: str) -> str:
    """A text without the key; error messages of servers quote it."""
    return text.replace(secret, "***") if secret else text


def _environment_key(key_variable: str) -> Callable[[], str]:
    """A closure: unlike that of an attribute or a partial, its repr shows no key."""
    key = os.environ.get(key_variable, "")
    return lambda: key
