"""Rules from a file of the project: which one is found, and what of it is sent."""

import os
from pathlib import Path

import pytest

from nbchat.conversation.entries import Entry
from nbchat.conversation.rules_file import (
    LIMIT_BYTES,
    GivenRules,
    RulesFile,
    RulesReader,
    SentRules,
    find,
    read,
    rules_in,
)
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError
from nbchat.providers.tokens import TokenCounter

COUNT = TokenCounter().count

RULES = "# Conventions\n\n- Plots have a title.\n- Prices are in euros."


def written(path: Path, content: str | bytes = RULES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def test_the_nearest_file_is_found_up_to_the_folder_with_git(project):
    written(project.parent / "AGENTS.md")
    assert find(project / "a" / "b") is None
    top = written(project / "AGENTS.md")
    assert find(project / "a" / "b") == (top, project)
    near = written(project / "a" / "AGENTS.md")
    assert find(project / "a" / "b") == (near, project)
    assert find(project) == (top, project)


def test_rules_of_nbchat_come_before_those_for_all_agents(project):
    written(project / "a" / "AGENTS.md")
    own = written(project / ".nbchat" / "rules.md")
    assert find(project / "a") == (own, project)


def test_a_worktree_of_git_ends_at_its_own_folder(project):
    written(project / "AGENTS.md")
    written(project / "tree" / ".git", "gitdir: ../.git/worktrees/tree\n")
    assert find(project / "tree" / "a") is None


def test_without_git_only_the_folder_itself_is_looked_into(tmp_path):
    here = tmp_path / "a"
    written(tmp_path / "AGENTS.md")
    assert find(here) is None
    assert find(tmp_path) == (tmp_path / "AGENTS.md", tmp_path)


def test_a_folder_of_that_name_is_no_file_of_rules(project):
    (project / "AGENTS.md").mkdir()
    assert find(project) is None


def test_rules_are_sent_as_a_labelled_file_and_no_one_has_typed_them(project):
    rules = read(written(project / "AGENTS.md"), project, count=COUNT)
    assert rules is not None
    assert rules.text == RULES
    entry = rules.entry
    assert entry.attachment_text == (
        "Rules from the file AGENTS.md. They hold unless the user says otherwise, and "
        f"until newer ones replace them.\n\n{RULES}"
    )
    assert entry.is_rules
    assert entry.is_attachment
    assert not entry.is_prompt


def test_the_newest_rules_of_a_conversation_hold(project):
    path = written(project / ".nbchat" / "rules.md")
    old = read(path, project, count=COUNT)
    new = read(written(path, "Use tabs.\r\n"), project, count=COUNT)
    assert old
    assert new
    said = [old.entry, Entry("user", "Hello"), new.entry, Entry("user", "Again")]
    found = rules_in(Session(said).included_transcript)
    assert found
    assert (found.name, found.text, found.title, found.digest) == (
        ".nbchat/rules.md",
        "Use tabs.",
        "Rules from the file .nbchat/rules.md",
        new.digest,
    )
    assert rules_in([*said, new.ending]) is None
    assert rules_in([Entry("user", "Hello")]) is None


@pytest.mark.parametrize("details", ['{"rules": 7, "data": 1}', '{"rules": "x"}', "["])
def test_an_entry_that_only_looks_like_rules_has_none(details):
    assert rules_in([Entry("user", "caption", "", "file", details)]) is None


def test_of_5_mb_at_most_2000_tokens_are_sent_and_the_label_says_so(project):
    text = "- Äpfel are sorted by the day of their harvest.\n" * 100_000
    path = written(project / "AGENTS.md", text)
    rules = read(path, project, count=COUNT)
    assert rules is not None
    assert 1_900 < COUNT(rules.text) <= 2_000
    assert text.startswith(rules.text)
    assert rules.text.endswith("harvest.")
    assert rules.title == (
        "Rules from the file AGENTS.md (only its beginning, up to 2,000 tokens)"
    )


def test_a_file_is_not_read_beyond_what_can_be_sent(project):
    path = written(project / "AGENTS.md", RULES)
    os.truncate(path, LIMIT_BYTES + 10**12)  # sparse: reading it all would not end
    with pytest.raises(ConfigError, match="not a text file in UTF-8"):
        read(path, project, count=COUNT)


@pytest.mark.parametrize("text", ["x" * 50_000, " " * 60_000 + "x", "é" * 50_000])
def test_one_long_line_is_cut_where_the_limit_is(project, text):
    rules = read(written(project / "AGENTS.md", text), project, count=COUNT)
    assert rules is not None
    assert COUNT(rules.text) <= 2_000
    assert len(rules.text) <= 16_000
    assert "\ufffd" not in rules.text


def test_bytes_that_are_not_utf_8_are_replaced_and_the_label_says_so(project):
    path = written(project / "AGENTS.md", "Größe in Metern.".encode("latin-1"))
    rules = read(path, project, count=COUNT)
    assert rules is not None
    assert rules.text == "Gr\ufffd\ufffde in Metern."
    assert rules.note == "bytes that are not UTF-8 are shown as \ufffd"
    again = rules_in([rules.entry])
    assert again
    assert again.title == rules.title


@pytest.mark.parametrize("content", [b"\x89PNG\0\0", "Use tabs.".encode("utf-16")])
def test_a_file_that_is_no_text_is_refused_in_one_line(project, content):
    path = written(project / "AGENTS.md", content)
    with pytest.raises(ConfigError) as caught:
        read(path, project, count=COUNT)
    assert str(caught.value) == ("AGENTS.md isn't used: it's not a text file in UTF-8.")


@pytest.mark.parametrize("content", ["", " \n\r\n", "\ufeff"])
def test_a_blank_file_has_no_rules(project, content):
    path = written(project / "AGENTS.md", content)
    assert read(path, project, count=COUNT) is None


def test_a_link_out_of_the_project_is_refused_in_one_line(project):
    (project / "AGENTS.md").symlink_to(written(project.parent / "secret", "key=1"))
    found = find(project)
    assert found
    with pytest.raises(ConfigError) as caught:
        read(*found, count=COUNT)
    assert str(caught.value) == (
        f"AGENTS.md isn't used: it's a link to a file outside of {project}."
    )
    (project / ".nbchat").symlink_to(written(project.parent / "x" / "rules.md").parent)
    found = find(project)
    assert found
    with pytest.raises(ConfigError, match=r"^\.nbchat/rules\.md isn't used"):
        read(*found, count=COUNT)


def test_a_link_within_the_project_is_followed(project):
    (project / "AGENTS.md").symlink_to(written(project / "CLAUDE.md"))
    found = find(project)
    assert found
    rules = read(*found, count=COUNT)
    assert rules
    assert (rules.name, rules.text) == ("AGENTS.md", RULES)


def test_a_link_to_itself_and_a_missing_file_are_refused_in_one_line(project):
    loop = project / "AGENTS.md"
    loop.symlink_to(loop)
    assert find(project) is None
    for path in (loop, project / "missing.md"):
        for reading in (read, RulesReader().read):
            with pytest.raises(ConfigError) as caught:
                reading(path, project, count=COUNT)
            assert "can't be read" in str(caught.value)
            assert "\n" not in str(caught.value)


def test_a_yes_holds_for_one_content_of_one_file(project):
    here, there = project / "AGENTS.md", project / "a" / "AGENTS.md"
    first = read(written(here), count=COUNT)
    same = read(written(here, RULES.replace("\n", "\r\n")), count=COUNT)
    elsewhere = read(written(there), count=COUNT)
    changed = read(written(here, f"{RULES} Always."), count=COUNT)
    assert first
    assert same
    assert elsewhere
    assert changed
    assert same.consent_key == first.consent_key
    assert len(first.consent_key) == 64
    assert len({first.consent_key, elsewhere.consent_key, changed.consent_key}) == 3


def test_a_change_beyond_the_cut_needs_another_yes(project):
    line = "- Apples are sorted by the day of their harvest.\n"
    path = project / "AGENTS.md"
    first = read(written(path, line * 500), count=COUNT)
    second = read(written(path, line * 499), count=COUNT)
    assert first
    assert second
    assert first.text == second.text
    assert first.consent_key != second.consent_key


def test_a_file_is_read_again_only_after_it_changed(project):
    path, reader, counted = written(project / "AGENTS.md"), RulesReader(), []

    def count(text: str) -> int:
        counted.append(text)
        return COUNT(text)

    rules = reader.read(path, project, count=count)
    assert reader.read(path, project, count=count) is rules
    assert len(counted) == 1
    changed = reader.read(written(path, "Use tabs."), project, count=count)
    assert changed
    assert changed.text == "Use tabs."


def test_given_rules_are_followed_and_the_last_ones_hold_while_unreadable(
    project, caplog
):
    path = written(project / "team.md")
    given = GivenRules(path, count=COUNT)
    assert _text(given(None)) == RULES
    written(path, "Use tabs.")
    assert _text(given(None)) == "Use tabs."
    path.unlink()
    assert _text(given(None)) == "Use tabs."
    assert "Its last rules stay in force." in caplog.text


def test_rules_are_sent_once_then_again_when_they_change_or_end(project):
    path, sent, session = written(project / "AGENTS.md"), SentRules(), Session()
    hello = Entry("user", "data", "", "file", '{"data": "1"}')

    def next_message(rules: RulesFile | None) -> list[str]:
        said = sent.news(lambda _known: rules, session, [hello])
        for each in [*said, Entry("user", "Hello")]:
            session.append(each)
        return [each.content.partition(".")[0] for each in said]

    first = read(path, count=COUNT)
    second = read(written(path, "Use tabs."), count=COUNT)
    assert next_message(None) == ["data"]
    assert next_message(first) == ["Rules from the file AGENTS", "data"]
    assert next_message(first) == ["data"]
    assert next_message(second) == ["Rules from the file AGENTS", "data"]
    assert _text(rules_in(session.transcript[:])) == "Use tabs."
    assert next_message(None) == ["The rules from the file AGENTS", "data"]
    assert next_message(None) == ["data"]
    assert rules_in(session.transcript[:]) is None


def test_rules_of_a_message_that_is_sent_again_are_not_sent_twice(project):
    rules = read(written(project / "AGENTS.md"), count=COUNT)
    assert rules
    again = [rules.entry, Entry("user", "data", "", "file", '{"data": "1"}')]
    sent = SentRules().news(lambda known: known, Session(), again)
    assert [each.is_rules for each in sent] == [True, False]
    assert SentRules().news(None, Session(), again) == again
    ended = SentRules().news(lambda _known: None, Session(), again)
    assert [each.is_rules for each in ended] == [False]


def _text(rules: RulesFile | None) -> str:
    return rules.text if rules else ""
