"""Settings stored for all models, a provider or a model, merged with the layers."""

from pathlib import Path

import pytest

from nbchat.config.layers import settings
from nbchat.config.settings import MODEL_SETTINGS, TABLE
from nbchat.storage.saved_settings import (
    Target,
    settings_in_force,
    with_saved_settings,
)
from nbchat.storage.store import SessionStore

MODEL = "openai:gpt-5-mini"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(f"sqlite:///{tmp_path / 'kept.db'}")


def test_every_setting_that_can_be_stored_is_listed_with_its_row_of_the_table(store):
    found = settings_in_force(settings(), store, Target(MODEL))
    assert tuple(each.name for each in found) == MODEL_SETTINGS
    for each in found:
        row = TABLE[each.name]
        assert (each.help, each.kind, each.choices) == (row.help, row.kind, row.choices)


def test_settings_are_listed_with_their_value_and_origin(store, monkeypatch):
    store.set_setting("openai", "attempts", 3)
    monkeypatch.setenv("NBCHAT_TOP_P", "0.7")
    found = {
        each.name: each for each in settings_in_force(settings(), store, Target(MODEL))
    }
    assert (found["attempts"].value, found["attempts"].origin) == (
        "3",
        "set for openai",
    )
    assert found["top_p"].origin == "environment variable NBCHAT_TOP_P"
    assert found["temperature"].origin == "default"
    assert "tiered" in found["policy"].choices
    assert (found["automatic"].kind, found["temperature"].kind) == ("choice", "float")
    assert found["effort"].choices == ("off", "low", "medium", "high", "default")
    assert (found["effort"].value, found["automatic"].value) == ("default", "true")


def test_a_setting_is_listed_with_the_scope_it_is_stored_for(store):
    def scope() -> str | None:
        found = settings_in_force(settings(), store, Target(MODEL))
        return next(each.scope for each in found if each.name == "attempts")

    assert scope() is None
    store.set_setting("", "attempts", 3)
    assert scope() == ""
    store.set_setting(MODEL, "attempts", 5)
    assert scope() == MODEL
    store.set_setting(MODEL, "attempts", None)
    assert scope() == ""
    store.set_setting("", "attempts", None)
    assert scope() is None


def test_a_store_that_cannot_be_read_changes_nothing(tmp_path):
    (tmp_path / "folder.db").mkdir()
    broken = SessionStore(f"sqlite:///{tmp_path / 'folder.db'}")
    config = settings(policy="early")
    assert with_saved_settings(config, broken).policy == "early"


def test_a_value_of_another_version_is_ignored(store):
    store.set_setting("", "effort", "chatty")
    store.set_setting("", "forgotten", 1)
    assert with_saved_settings(settings(), store).effort is None
