"""Files that nbchat writes are private, and a planted link changes nothing."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from nbchat.cli.main import main
from nbchat.config.private_files import create_private, write_private
from nbchat.conversation.session import Session
from nbchat.errors import StoreError
from nbchat.storage.autosave import save_session
from nbchat.storage.export import MarkdownLog
from nbchat.storage.session_log import write_session_log
from nbchat.storage.store import SessionStore

SESSION = Session([("user", "hi"), ("assistant", "hello")], session_id="s")


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


def test_every_kind_of_file_is_private(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setenv("NBCHAT_STORE_URL", url)
    store = SessionStore(url)
    save_session(store, SESSION)
    MarkdownLog(str(tmp_path / "logs")).write(SESSION)
    write_session_log(SESSION, tmp_path / "log.md")
    assert main(["export", "s", "--to", "json", "--output", f"{tmp_path}/s.json"]) == 0
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {each.suffix for each in files} >= {".db", ".md", ".json"}
    assert {each.name: mode(each) for each in files} == {
        each.name: 0o600 for each in files
    }
    store.close()


URIS = (
    *("file:{}?uri=true", "file:{}?mode=rwc&uri=true", "file://{}?uri=1"),
    *("file://localhost{}?uri=true", "file:{}?cache=private&uri=yes"),
)


@pytest.mark.parametrize("uri", URIS)
def test_a_database_named_by_a_uri_is_private(uri, tmp_path):
    folder = tmp_path / "my chats"
    folder.mkdir()
    named = str(folder / "s.db").replace(" ", "%20")
    store = SessionStore(f"sqlite:///{uri.format(named)}")
    before = os.umask(0o022)
    try:
        save_session(store, SESSION)
    finally:
        os.umask(before)
    found = {each.name: mode(each) for each in folder.iterdir()}
    assert found == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///file:mem1?mode=memory&cache=shared&uri=true",
        "sqlite:///file::memory:?uri=true",
        "sqlite://",
        "sqlite:///file:{}/missing.db?mode=ro&uri=true",
        "sqlite:///file:{}/missing.db?mode=rw&uri=true",
    ],
)
def test_a_database_in_memory_or_one_to_be_read_makes_no_file(
    url, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    store = SessionStore(url.format(tmp_path))
    with suppress(StoreError):
        save_session(store, SESSION)
    assert list(tmp_path.iterdir()) == []
    store.close()


def test_a_planted_link_is_replaced_and_its_target_unchanged(tmp_path, victim):
    log, export, session_log = (tmp_path / name for name in ("s.md", "e", "l"))
    for each in (log, export, session_log):
        each.symlink_to(victim)
    MarkdownLog(str(tmp_path)).write(SESSION)
    write_private(export, "new")
    write_session_log(SESSION, session_log)
    assert victim.read_text() == "precious"
    assert not any(each.is_symlink() for each in (log, export, session_log))
    assert create_private(victim) is False
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path):
    link = tmp_path / "new.db"
    link.symlink_to(tmp_path / "elsewhere")
    assert create_private(link) is False
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_many_that_write_a_file_at_once_do_not_disturb_each_other(tmp_path):
    file = tmp_path / "log.md"
    with ThreadPoolExecutor(8) as pool:
        written = pool.map(lambda text: write_private(file, text), ["abc", "de"] * 80)
        assert [*written] == [None] * 160
    assert file.read_text() in ("abc", "de")
    assert [*tmp_path.iterdir()] == [file]


def test_a_device_is_not_replaced(tmp_path):
    with pytest.raises(OSError, match="not a regular file"):
        write_private(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
