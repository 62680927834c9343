"""Keys that were typed: who gets them, and where they never appear."""

import pytest
from tables import every

from nbchat.chat.live_changes import LiveSettings
from nbchat.config.api_keys import KEY_VARIABLES, Keys
from nbchat.config.layers import settings
from nbchat.errors import ConfigError
from nbchat.providers.connect import DEFAULT_MODELS, problem_of
from nbchat.providers.endpoint import KEYRING_SERVICE
from nbchat.providers.provider_table import SERVICES
from nbchat.providers.sdk_provider import SdkProvider
from nbchat.storage.factory import build_agent
from nbchat.storage.store import SessionStore

KEY = "sk-ant-typed-0123456789"


class Keyring:
    """A keyring in memory, or one that is locked."""

    def __init__(self, *, is_locked: bool = False) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = is_locked

    def set_password(self, service: str, name: str, key: str) -> None:
        if self.is_locked:
            raise RuntimeError(f"locked, cannot keep {key}")
        self.kept[service, name] = key

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))


def key_of(provider: object) -> str:
    assert isinstance(provider, SdkProvider)
    return provider.endpoint.key()


@pytest.fixture
def store(tmp_path):
    return SessionStore(f"sqlite:///{tmp_path / 'kept.db'}")


def test_a_typed_key_connects_the_model_that_waited_for_it(store):
    config = settings(model="anthropic:claude-haiku-4-5")
    agent = build_agent(config, store=store, connects_later=True)
    assert problem_of(agent.provider).startswith("Anthropic needs an API key")
    LiveSettings(store, config).use_key(agent, "anthropic", f" {KEY}\n")
    assert agent.provider.name == "anthropic:claude-haiku-4-5"
    assert key_of(agent.provider) == KEY


def test_a_key_of_another_provider_chooses_its_default_model(store):
    config = settings()
    agent = build_agent(config, store=store, connects_later=True)
    LiveSettings(store, config).use_key(agent, "gemini", KEY)
    assert agent.provider.name.startswith("gemini:")
    assert key_of(agent.provider) == KEY
    again = build_agent(config, store=store)
    assert key_of(again.provider) == KEY


def test_a_wrong_key_can_be_typed_again(store):
    config = settings(model="openai:gpt-5")
    agent = build_agent(config, store=store, connects_later=True)
    live = LiveSettings(store, config)
    live.use_key(agent, "openai", "sk-wrong-key")
    live.use_key(agent, "openai", KEY)
    assert key_of(agent.provider) == KEY


def test_a_provider_has_a_key_that_was_typed_set_or_kept(monkeypatch):
    keys = Keys()
    assert not any(map(keys.has, KEY_VARIABLES))
    keys.add("openai", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    assert [kind for kind in KEY_VARIABLES if keys.has(kind)] == ["openai", "gemini"]
    assert not keys.has("local")
    ring = Keyring()
    ring.set_password(KEYRING_SERVICE, "ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr("keyring.get_password", ring.get_password)
    assert keys.has("anthropic")


def test_the_environment_comes_first_and_another_address_gets_nothing(monkeypatch):
    keys = Keys()
    keys.add("openai", KEY)
    assert keys.reader("openai")() == KEY
    assert keys.reader("openai", "https://elsewhere.example/v1") is None
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example/v1")
    assert keys.reader("openai") is None
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    assert keys.reader("openai") is None


def test_a_key_appears_in_no_repr_setting_or_file(store, tmp_path):
    config = settings(model="anthropic:claude-haiku-4-5")
    agent = build_agent(config, store=store, connects_later=True)
    LiveSettings(store, config).use_key(agent, "anthropic", KEY)
    seen = [repr(each) for each in (config, config.keys, agent, agent.provider)]
    seen += [repr(config.copy().trait_values()), repr(config.keys.reader("anthropic"))]
    agent.session.append(("user", "hello", "", "", ""))
    seen += [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*.db*")]
    assert not any(KEY in text for text in seen)


def test_a_kept_key_is_where_later_chats_look_for_it():
    ring = Keyring()
    assert Keys(ring).add("anthropic", KEY) == "keyring"
    assert ring.kept == {(KEYRING_SERVICE, "ANTHROPIC_API_KEY"): KEY}
    assert Keys(ring).reader("anthropic") is None  # the connection reads it itself


def test_every_provider_with_a_default_model_takes_a_key():
    assert {*KEY_VARIABLES.values()} > {*DEFAULT_MODELS}
    names = {service.kind: service.key_variables for service in SERVICES}
    assert all(KEY_VARIABLES[kind] == names[kind][0] for kind in KEY_VARIABLES)


def test_a_key_that_no_keyring_keeps_is_used_in_this_kernel_only():
    keys = Keys(Keyring(is_locked=True))
    assert keys.add("anthropic", KEY) == keys.place("anthropic") == "kernel"
    assert keys.reader("anthropic")() == KEY
    assert Keys().add("anthropic", KEY) == "kernel"  # a keyring that keeps nothing


def test_a_key_of_ones_own_server_is_kept_for_its_address_alone():
    ring, address = Keyring(), "https://models.example/v1"
    assert Keys(ring).add("openai", KEY, base_url=address) == "keyring"
    assert ring.kept == {(KEYRING_SERVICE, f"openai at {address}"): KEY}
    again = Keys(ring)
    assert again.place("openai", address) == "keyring"
    assert (again.place("openai"), again.reader("openai")) == ("none", None)
    assert again.reader("openai", "https://other.example/v1") is None


def test_a_typed_key_replaces_that_of_the_environment_until_it_changes(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    keys = Keys()
    keys.add("openai", KEY)
    read = keys.reader("openai")
    assert (read(), keys.place("openai")) == (KEY, "kernel")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-corrected")
    assert read() == "sk-corrected"
    assert keys.reader("openai") is None
    assert keys.place("openai") == "environment"


@every("text", ["", "  ", "two words", "sch\u00fcssel", "a\x00b"])
def test_what_cannot_be_a_key_is_refused(text):
    with pytest.raises(ConfigError, match="isn't a key"):
        Keys().add("openai", text)
    with pytest.raises(ConfigError, match="local takes no key"):
        Keys().add("local", KEY)
