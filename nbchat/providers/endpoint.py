"""The address and key of an API; the key is never shown or logged."""

import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from ipaddress import IPv6Address, ip_address
from socket import inet_aton
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

from nbchat.errors import ConfigError

LONGEST_DETAIL = 20_000
"""Characters of a server's message that are searched for the key."""

PART_LENGTH = 8
"""Characters of a key's part that is hidden, as in `sk-proj-...`."""

SHOWN_LENGTH = 4
"""Characters of a key that are shown where a server masks the others."""

_MASK = r"(?:[*•…]|\.{3}|[xX]{4})"
"""The signs that servers write in place of the middle of a key."""

HIDDEN = "***"

KEYRING_SERVICE = "nbchat"
"""The service under which the system keyring has keys, by their variables' names."""

PRODUCTS = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "gemini": "Gemini",
    "azure": "Azure",
    "bedrock": "Amazon Bedrock",
    "vertex": "Vertex AI",
    "ollama": "Ollama",
    "openrouter": "OpenRouter",
    "lmstudio": "LM Studio",
    "vllm": "vLLM",
}
"""Providers as people know them."""

SDK_LOGGERS = ("anthropic", "openai", "httpx2", "httpcore2", "google", "botocore")

SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)

SHORTEST = 4
"""Characters of a secret that is searched for: a shorter one is in any text."""

LONGEST_HOST = 253
"""Characters of a name in DNS."""

_NO_URL = re.compile(r"[\s\x00-\x1f\x7f\\]|//[^/]*[<>^`{|}\"]")
"""Never in a URL: spaces, control characters, backslashes, odd signs in its host."""

DETAIL_LENGTH = 200
"""Characters of a server's message that are shown; some send whole pages."""


ReadKey = Callable[[], str]
"""Returns a key. A closure, so that no repr shows it."""

logger = logging.getLogger(__name__)


class KeySource:
    """Reads a key again from the environment, or by a function.

    The function may be slow: it is called again only after `renew`. All keys that were
    read are remembered, so that each is hidden in what servers say.
    """

    __slots__ = ("_is_stale", "_known", "_latest", "_read", "_variable")

    def __init__(self, read: ReadKey = str, variable: str = "") -> None:
        """Read nothing yet; a `variable` that is set comes first."""
        self._read, self._variable = read, variable
        self._latest, self._is_stale = "", True
        self._known: list[str] = []

    def __repr__(self) -> str:
        """No key."""
        return "<KeySource>"

    def __call__(self) -> str:
        """The key now; empty without one."""
        key = os.environ.get(self._variable, "").strip() if self._variable else ""
        if not key:
            if self._is_stale:
                self._latest, self._is_stale = self._read().strip(), False
            key = self._latest
        if not self._known or self._known[-1] != key:
            self._known.append(key)
        return key

    def renew(self) -> None:
        """Call the function again for the next key: this one was refused."""
        self._is_stale = True

    @property
    def known(self) -> tuple[str, ...]:
        """All keys that were read, the newest last."""
        return tuple(self._known)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Endpoint:
    """An API: its kind as in `openai:...`, its address and how to read its key."""

    kind: str
    address: str = field(repr=False)  # may hold a password: https://user:secret@host
    key_variable: str
    source: KeySource = field(repr=False)
    needs_key: bool = True
    is_withheld: bool = False
    """True if there is a key that is not sent to this host."""
    is_trusted: bool = True
    """True if the credentials of the environment may be sent to this host."""
    is_own: bool = True
    """True if it is a server of the provider itself."""
    speaks_messages: bool = False
    """True if it is asked by Anthropic's messages API."""
    proxy: str = field(default="", repr=False)
    other_secrets: tuple[str, ...] = field(default=(), repr=False)
    """Other texts that are never shown: values of headers, a proxy's password."""

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password in the address; None without."""
        parts = urlsplit(self.address)
        if not parts.username:
            return None
        return unquote(parts.username), unquote(parts.password or "")

    @property
    def url(self) -> str:
        """The address without user and password."""
        parts = urlsplit(self.address)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def shown_url(self) -> str:
        """The address to be shown, without the values of its query."""
        head, mark, _ = self.url.partition("?")
        return f"{head}?{HIDDEN}" if mark else head

    @property
    def shown_proxy(self) -> str:
        """The proxy by which the server is reached, without its login; or empty."""
        parts = urlsplit(self.address)
        ignores = self.is_on_this_machine or proxy_bypass(self.host)
        by_environment = "" if ignores else getproxies().get(parts.scheme)
        found = urlsplit(self.used_proxy or by_environment or "")
        return found._replace(netloc=found.netloc.rpartition("@")[2]).geturl()

    @property
    def is_on_this_machine(self) -> bool:
        """True if the server runs here, so that no proxy is asked for it."""
        return is_loopback(self.host)

    @property
    def used_proxy(self) -> str:
        """The proxy of the settings; for a server here only one that is here, too."""
        is_here = is_loopback(urlsplit(self.proxy).hostname or "")
        return self.proxy if is_here or not self.is_on_this_machine else ""

    @property
    def product(self) -> str:
        """The provider as people know it."""
        return PRODUCTS.get(self.kind, self.kind)

    @property
    def name(self) -> str:
        """The server as people know it: the provider, or the address of their own."""
        if self.is_own and not self.is_on_this_machine:
            return self.product
        return urlsplit(self.url).netloc or self.product

    @property
    def is_encrypted(self) -> bool:
        """True if what is sent can be read on no other machine."""
        return is_encrypted(self.address)

    @property
    def server(self) -> str:
        """The server's name and port."""
        return server_of(self.address)

    @property
    def host(self) -> str:
        """The server's name."""
        return urlsplit(self.address).hostname or ""

    def key(self) -> str:
        """The key; empty if none is needed. Raises ConfigError for a missing one."""
        if error := self._key_error():
            raise error  # from a frame without the key: tracebacks show local variables
        return self.source()

    @property
    def key_version(self) -> int:
        """A number that changes with the key."""
        self._quiet_key()
        return len(self.source.known)

    def shown(self, text: str, length: int = DETAIL_LENGTH) -> str:
        """A server's message on one line of limited length, without the key."""
        line = " ".join(self.redacted(text[:LONGEST_DETAIL]).split())
        return line if len(line) <= length else f"{line[:length]}..."

    def redacted(self, text: str) -> str:
        """A text without the key, passwords and other secrets."""
        parts = urlsplit(self.address)
        in_query = [value for _, value in parse_qsl(parts.query)]
        password = unquote(parts.password or "")
        keys = {self._quiet_key(), *self.source.known}
        for secret in (*keys, password, *in_query, *self.other_secrets):
            text = redact(text, secret)
        return text

    def _quiet_key(self) -> str:
        try:
            return self.source()
        except Exception:  # noqa: BLE001  # a user's function may raise anything
            return ""

    def _key_error(self) -> ConfigError | None:
        try:
            key = self.source()
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            cause = type(error).__name__
            return ConfigError(
                f"The api_key function for {self.product} failed: {cause}."
            )
        if self.needs_key and not key:
            return missing_key(self.kind, self.key_variable)
        if key.isascii() and key.isprintable():
            return None
        return ConfigError(
            f"The {self.product} key has characters that can't be part of a key. "
            f"Copy it into {self.key_variable} again."
        )


def find_endpoint(
    kind: str,
    address: str,
    *,
    key_variable: str,
    api_key: Callable[[], str] | None,
    is_own: bool,
    needs_key: bool,
    key_hosts: Collection[str],
    other_secrets: Collection[str],
    speaks_messages: bool,
    proxy: str,
) -> Endpoint:
    """An endpoint whose key comes from `api_key`, else from the environment.

    The environment's key is sent to the provider's own servers (`is_own`) and to hosts
    in `key_hosts`; beyond this machine only by HTTPS, unless `key_hosts` says
    `http://host`. Raises ConfigError for an address that is no URL, a missing key,
    and a key that would be sent by plain HTTP.
    """
    check_url(address, "base_url")
    none = KeySource()
    keyless = Endpoint(
        kind,
        address,
        key_variable,
        none,
        is_own=is_own,
        speaks_messages=speaks_messages,
        proxy=proxy,
        other_secrets=tuple(other_secrets),
    )
    is_safe = _is_safe(address, key_hosts)
    needs_key = needs_key and is_own
    if not is_safe and (api_key is not None or keyless.other_secrets):
        raise _sent_in_clear(keyless)
    if api_key is not None:
        return replace(keyless, source=KeySource(api_key), needs_key=needs_key)
    source = KeySource(partial(keyring_key, key_variable), key_variable)
    has_key = bool(source())
    if needs_key and not has_key:
        raise missing_key(kind, key_variable)
    is_trusted = is_safe and (is_own or _is_named(address, key_hosts))
    return replace(
        keyless,
        source=source if is_trusted else none,
        needs_key=needs_key and is_trusted,
        is_withheld=has_key and not is_trusted,
        is_trusted=is_trusted,
    )


def secrets_in(headers: Mapping[str, str], proxy: str) -> list[str]:
    """The secrets in headers and in the address of a proxy.

    Of headers those whose names speak of it; others are no secrets. Raises ConfigError
    for a proxy that is no URL.
    """
    if proxy:
        check_url(proxy, "proxy")
    values = [each for name, each in headers.items() if SECRET_HEADER.search(name)]
    password = unquote(urlsplit(proxy).password or "")
    return [*values, *([password] if password else [])]


def _is_safe(address: str, key_hosts: Collection[str]) -> bool:
    """True if the connection is encrypted or local, or allowed without."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    is_allowed = f"http://{host}" in key_hosts
    return parts.scheme == "https" or is_loopback(host) or is_allowed


def _is_named(address: str, key_hosts: Collection[str]) -> bool:
    host = urlsplit(address).hostname or ""
    return bool({host, f"http://{host}"} & {*key_hosts})


def is_encrypted(address: str) -> bool:
    """True if what is sent to an address can be read on no other machine."""
    return _is_safe(address, ())


def server_of(address: str) -> str:
    """The name and port in an address, without a login."""
    return urlsplit(address).netloc.rpartition("@")[2]


def is_loopback(host: str) -> bool:
    """True if a name or address is of this machine, in any form that systems read."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ip_address(host)
    except ValueError:
        return _is_short_loopback(host)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback or found.is_unspecified


def _is_short_loopback(host: str) -> bool:
    """True if a name is an address of this machine such as 127.1 or 0x7f000001."""
    try:
        return inet_aton(host)[0] == 127  # noqa: PLR2004  # 127.0.0.0/8
    except (OSError, UnicodeError, ValueError):
        return False


def check_url(address: str, name: str) -> None:
    """Raise ConfigError for a setting, given by its name, that is no URL of a server.

    An address that cannot be read is not shown: any part of it may be a password.
    """
    if not address.startswith(("http://", "https://")):
        shown = address.rpartition("@")[2]  # before it may be a password
        raise ConfigError(f"{name} must start with http:// or https://, not {shown!r}.")
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:  # its text may quote the password
        host = None
    if not host or len(host) > LONGEST_HOST or _NO_URL.search(address):
        raise ConfigError(
            f"{name} isn't a valid URL. Use one like http://localhost:8000/v1."
        )


def _sent_in_clear(endpoint: Endpoint) -> ConfigError:
    host = endpoint.host
    return ConfigError(
        f"Your {endpoint.product} key would be sent to {host} without encryption. "
        f"Use https://, or add http://{host} to the setting api_key_hosts."
    )


def set_variable(names: Sequence[str]) -> str:
    """The first of some environment variables that is set, else the first, if any."""
    is_set = (name for name in names if os.environ.get(name, "").strip())
    return next(is_set, next(iter(names), ""))


def missing_key(kind: str, key_variable: str) -> ConfigError:
    """The error for a missing key, with the ways to continue."""
    return ConfigError(
        f"{PRODUCTS.get(kind, kind)} needs an API key. Set {key_variable}, "
        "or use local:smollm2, which needs none."
    )


def redact(text: str, secret: str) -> str:
    """A text without the key, which error messages of servers quote.

    Also without parts of it, and of it reversed or in the form of a URL.
    """
    if not secret:
        return text
    if len(secret) < PART_LENGTH:
        return text.replace(secret, HIDDEN) if len(secret) >= SHORTEST else text
    for form in (secret, quote(secret, safe=""), secret[::-1]):
        text = _without_parts(text.replace(form, HIDDEN), form)
    return _without_ends(text, secret)


def _without_ends(text: str, secret: str) -> str:
    """A text in which a key that the server has masked shows its last four characters.

    Servers mask the middle of a key and echo both of its ends.
    """
    for size in range(PART_LENGTH - 1, 2, -1):
        begins = rf"(?<![\w-]){re.escape(secret[:size])}(?={_MASK})"
        text = re.sub(begins, "", text)
    for size in range(PART_LENGTH - 1, SHOWN_LENGTH, -1):
        ends = rf"({_MASK}){re.escape(secret[-size:])}(?![\w-])"
        text = re.sub(ends, rf"\g<1>{secret[-SHOWN_LENGTH:]}", text)
    return text


def _without_parts(text: str, secret: str) -> str:
    """A text in which each part of a secret of eight characters or more is hidden."""
    last = len(secret) - PART_LENGTH + 1
    parts = {secret[at : at + PART_LENGTH] for at in range(last)}
    if not any(part in text for part in parts):
        return text
    found, at = [], 0
    while at < len(text):
        if text[at : at + PART_LENGTH] not in parts:
            found.append(text[at])
            at += 1
            continue
        at += PART_LENGTH
        while at < len(text) and text[at - PART_LENGTH + 1 : at + 1] in parts:
            at += 1
        found.append(HIDDEN)
    return "".join(found)


def given_key(key: str) -> ReadKey | None:
    """A function that returns a key; None for an empty one."""
    return (lambda: key) if key.strip() else None


def keyring_key(key_variable: str) -> str:
    """The key that the system keyring has; empty without one, or without `keyring`."""
    if not key_variable or find_spec("keyring") is None:
        return ""
    try:
        import keyring  # noqa: PLC0415  # optional

        return keyring.get_password(KEYRING_SERVICE, key_variable) or ""
    except Exception as error:  # noqa: BLE001  # backends raise errors of their own
        logger.debug("no key from the system keyring: %s", type(error).__name__)
        return ""


class _Redaction(logging.Filter):
    """Hides the secrets of all endpoints in records of the SDKs."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints: WeakSet[Endpoint] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        text = clean = record.getMessage()
        for endpoint in list(self.endpoints):
            clean = endpoint.redacted(clean)
        if clean != text:
            record.msg, record.args = clean, ()
        return True


@cache
def _redaction() -> _Redaction:
    return _Redaction()


def redact_logs(endpoint: Endpoint) -> None:
    """Hide the endpoint's secrets in logs of the SDKs, which must be loaded."""
    found = _redaction()
    found.endpoints.add(endpoint)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in SDK_LOGGERS:
            logging.getLogger(name).addFilter(found)
