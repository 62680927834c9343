"""The table of providers: address, API and key of each name such as `openrouter:...`.

A row with `models` serves only these: a cloud has models of several makers, each with
an API of its own.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from urllib.parse import urlsplit

from nbchat.errors import ConfigError
from nbchat.providers.endpoint import PRODUCTS, check_url

Api = tuple[str, str]
"""The module of a provider and its class."""

CHAT: Api = ("openai_chat", "OpenAIProvider")
RESPONSES: Api = ("openai_responses", "ResponsesProvider")
MESSAGES: Api = ("anthropic", "AnthropicProvider")

CLAUDE = r"([a-z]+\.)?(anthropic\.)?claude"
"""Names of Anthropic's models, in clouds too."""


@dataclass(frozen=True, slots=True)
class Service:
    """A provider as models name it: `kind` in `kind:model`."""

    kind: str
    api: Api
    address: str = ""
    """Its address; `{A|B}` is the first of some environment variables that is set."""
    address_variable: str = ""
    """The environment variable with another address."""
    path: str = ""
    """End of the address, which people may omit."""
    key_variables: tuple[str, ...] = ()
    own_hosts: tuple[str, ...] = ()
    """Ends of the names of its other servers, such as those of a region."""
    models: str = ""
    """Names of its models, as a regular expression; empty: all."""
    needs_key: bool = True
    tells_limits: bool = False
    """True if its list of models has their windows; a price list knows other models."""
    price_list: str = ""
    """Its name in the price list."""
    extra: str = ""
    """The extra of nbchat with which its credentials can be read."""

    def find_address(self, base_url: str = "") -> str:
        """The address from code, the environment or the table.

        Raises ConfigError if an environment variable is missing for it.
        """
        given = base_url or os.environ.get(self.address_variable, "").strip()
        if not given:
            address = re.sub(r"\{([\w|]+)\}", self._variable, self.address)
            return address.replace("https://global-", "https://")
        check_url(given, "base_url")
        part = self.path.split("/")[1] if self.path else ""
        is_whole = not part or f"/{part}" in urlsplit(given).path
        return given if is_whole else given.rstrip("/") + self.path

    def is_own(self, address: str) -> bool:
        """True if an address is one of its own servers."""
        host = urlsplit(address).hostname or ""
        own = "" if "{" in self.address else urlsplit(self.address).hostname
        return bool(host) and (host == own or f".{host}".endswith(self.own_hosts))

    def _variable(self, found: re.Match[str]) -> str:
        names = found[1].split("|")
        values = (os.environ.get(name, "").strip() for name in names)
        value = next(filter(None, values), "")
        if not value:
            first = self.address_variable or names[0]
            other = f" or {names[0]}" if first != names[0] else ""
            raise ConfigError(
                f"{PRODUCTS[self.kind]} needs an address. "
                f"Set {first}{other}, or base_url."
            )
        return value


ANTHROPIC = Service(
    "anthropic",
    MESSAGES,
    "https://api.anthropic.com",
    "ANTHROPIC_BASE_URL",
    key_variables=("ANTHROPIC_API_KEY",),
    price_list="anthropic",
)
OPENAI = Service(
    "openai",
    RESPONSES,
    "https://api.openai.com/v1",
    "OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    own_hosts=(".api.openai.com", ".openai.azure.com"),
    price_list="openai",
)
GEMINI = Service(
    "gemini",
    ("gemini", "GeminiProvider"),
    "https://generativelanguage.googleapis.com/v1beta/openai",
    "GEMINI_BASE_URL",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    price_list="google",
)
LOCAL = Service("local", ("local", "LocalProvider"), needs_key=False)

AZURE = partial(
    Service,
    "azure",
    own_hosts=(".openai.azure.com", ".services.ai.azure.com", ".azure-api.net"),
)
BEDROCK = partial(
    Service,
    "bedrock",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    own_hosts=(".api.aws",),
    needs_key=False,
    price_list="aws",
    extra="bedrock",
)
VERTEX = partial(
    Service,
    "vertex",
    key_variables=("GOOGLE_OAUTH_ACCESS_TOKEN",),
    own_hosts=(".aiplatform.googleapis.com", "-aiplatform.googleapis.com"),
    needs_key=False,
    price_list="google",
    extra="vertex",
)
"""Clouds, each with a row for Anthropic's models and one for OpenAI's."""

SERVICES: tuple[Service, ...] = (
    ANTHROPIC,
    OPENAI,
    GEMINI,
    # https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
    AZURE(
        MESSAGES,
        "https://{ANTHROPIC_FOUNDRY_RESOURCE}.services.ai.azure.com/anthropic",
        "ANTHROPIC_FOUNDRY_BASE_URL",
        path="/anthropic",
        key_variables=("ANTHROPIC_FOUNDRY_API_KEY", "AZURE_OPENAI_API_KEY"),
        models=CLAUDE,
        price_list="anthropic",
    ),
    AZURE(
        RESPONSES,
        "{AZURE_OPENAI_ENDPOINT}/openai/v1",
        "AZURE_OPENAI_ENDPOINT",
        path="/openai/v1",
        key_variables=("AZURE_OPENAI_API_KEY",),
        price_list="azure",
    ),
    BEDROCK(
        MESSAGES,
        "https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/anthropic",
        "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
        models=CLAUDE,
    ),
    BEDROCK(
        RESPONSES,
        "https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/openai/v1",
        "AWS_BEDROCK_BASE_URL",
    ),
    VERTEX(
        MESSAGES,
        "https://{CLOUD_ML_REGION|GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com/v1",
        "ANTHROPIC_VERTEX_BASE_URL",
        models=CLAUDE,
    ),
    VERTEX(
        RESPONSES,
        "https://{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com/v1/projects/"
        "{GOOGLE_CLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION}/publishers/openai/v1",
    ),
    Service(
        "ollama",
        CHAT,
        "http://localhost:11434/v1",
        "OLLAMA_BASE_URL",
        path="/v1",
        key_variables=("OLLAMA_API_KEY",),
        own_hosts=(".ollama.com",),
        needs_key=False,
        tells_limits=True,
    ),
    Service(
        "openrouter",
        CHAT,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_BASE_URL",
        key_variables=("OPENROUTER_API_KEY",),
        tells_limits=True,
        price_list="openrouter",
    ),
    Service(
        "lmstudio",
        CHAT,
        "http://localhost:1234/v1",
        "LMSTUDIO_BASE_URL",
        path="/v1",
        key_variables=("LM_API_TOKEN",),
        needs_key=False,
        tells_limits=True,
    ),
    Service(
        "vllm",
        CHAT,
        "http://localhost:8000/v1",
        "VLLM_BASE_URL",
        path="/v1",
        key_variables=("VLLM_API_KEY",),
        needs_key=False,
        tells_limits=True,
    ),
    LOCAL,
)

KINDS = tuple(dict.fromkeys(service.kind for service in SERVICES))
"""The names of all providers."""

CLOSED = {
    "github": (
        "GitHub Models closed on July 30, 2026, so {model!r} can't be used anymore. "
        "Use another provider, such as openrouter:{name} or openai:{name}."
    )
}
"""Messages about providers that no longer exist."""


NEAREST = 3
"""Names that are shown instead of a wrong one."""


def service_of(kind: str, model: str) -> Service:
    """The row that serves a model; raises ConfigError if there is none."""
    rows = [service for service in SERVICES if service.kind == kind]
    for service in rows:
        if re.match(service.models, model):
            return service
    raise ConfigError(unknown_kind(f"{kind}:{model}"))


def unknown_kind(model: str, listed: Iterable[str] = ()) -> str:
    """One line about a model whose provider is unknown, or that has none.

    It suggests the nearest names that are `listed`, with their providers.
    """
    kind, colon, name = model.partition(":")
    if kind in CLOSED:
        return CLOSED[kind].format(model=model, name=name.rpartition("/")[2] or "NAME")
    if kind in KINDS and not name:
        return f"{model!r} names no model. Write one, as in {kind}:NAME."
    nearest = get_close_matches(kind, KINDS, n=1) if colon else []
    if nearest and nearest[0] != kind:
        right = f"{nearest[0]}:{model.partition(':')[2]}"
        return f"No provider named {kind}. Did you mean {right}?"
    seen = f"No provider named {kind}." if colon else f"{model!r} has no provider."
    bare = {each.partition(":")[2]: each for each in reversed([*listed])}
    if near := get_close_matches(model, bare, NEAREST):
        return f"{seen} Did you mean {' or '.join(bare[each] for each in near)}?"
    known = ", ".join(KINDS)
    return f"{seen} Write a model as provider:name, with one of {known}."
