"""Sessions are exported to files and imported again."""

import json
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import without_ports
from nbclient import NotebookClient
from tables import every

from nbchat.agent.agent import Agent
from nbchat.conversation.entries import (
    Compaction,
    Entry,
    Rule,
    Usage,
    prefix_hash,
)
from nbchat.conversation.session import Session
from nbchat.errors import HistoryError, NbchatError
from nbchat.storage.export import FORMATS, Format, exported, format_named, imported
from nbchat.testing import ScriptedProvider, calls, says

pytestmark = pytest.mark.usefixtures("garbage_kept")

LONG = "The customer asks about order W100 and its parcel. " * 20

HOSTILE = "<script>alert(1)</script><img src=http://evil.example/?q=1 onerror=alert(1)>"


def refund(order: str) -> str:
    """Give money back."""
    return f"{order} refunded"


def full_session() -> Session:
    """Calls, results, two compactions, an undo, pins, a picture, and odd characters."""
    session = Session(session_id="s1")
    agent = Agent(
        ScriptedProvider(
            calls("refund", order="W1"),
            says(LONG),
            says("<summary>W1 is refunded.</summary>"),
            says(LONG),
            says("<summary>W1 is refunded; more was said.</summary>"),
            says("bye \ud800 \0 ```` \u2028"),
        ),
        tools=[refund],
        session=session,
    )
    agent.ask("refund W1")
    list(agent.pin("Refund only once."))
    list(agent.compact())
    agent.ask("say more")
    list(agent.compact())
    list(agent.undo_compaction())
    picture = {"media_type": "image/png", "data": "aGk="}
    session.append(
        Entry("user", "see", tool_name="image", tool_args=json.dumps(picture))
    )
    agent.ask("and this?")
    return session


def parts(session: Session) -> tuple[object, ...]:
    """All that must come back."""
    held = (session.transcript, session.compactions, session.usages, session.pins)
    return (session.session_id, *map(list, held))


texts = st.text(st.characters(), max_size=12)  # lone surrogates and null bytes, too
entries = st.builds(
    Entry,
    st.sampled_from(["user", "assistant", "tool", "thinking", "summary"]),
    *[texts] * 4,
)
usages = st.builds(
    Usage, *[st.integers(0, 10**9)] * 4, st.booleans(), st.integers(0, 9)
)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    transcript = draw(st.lists(entries, max_size=8))
    places = st.sets(st.integers(1, max(1, len(transcript))))
    counted = sorted(draw(places)) if transcript else []
    stop = draw(st.integers(0, len(transcript)))
    record = Compaction(
        draw(texts),
        0,
        stop,
        draw(texts),
        cost=draw(usages),
        status=draw(st.sampled_from(["done", "failed", "undone"])),
        prefix_hash=prefix_hash(transcript[:stop]),
        replacements=tuple((0, text) for text in draw(st.lists(texts, max_size=2))),
    )
    return Session(
        transcript,
        session_id=draw(texts),
        compactions=[record],
        usages=[(place, draw(usages)) for place in counted],
        pins=draw(st.lists(texts, max_size=2)),
    )


@pytest.mark.parametrize("form", ["json", "ipynb"])
def test_a_session_comes_back_as_it_was(form):
    session = full_session()
    again = imported(exported(session, form))
    assert parts(again) == parts(session)
    assert again.history == session.history
    assert again.usage == session.usage
    assert len(session.compactions) >= 3
    assert exported(again, form) == exported(session, form)


@pytest.mark.slow
@given(sessions(), st.sampled_from(["json", "ipynb"]))
def test_any_session_comes_back_as_it_was(session, form):
    text = exported(session, form)
    text.encode("ascii")
    assert parts(imported(text)) == parts(session)


@pytest.mark.slow
@given(sessions())
def test_any_session_can_be_exported_in_every_format(session):
    for form in FORMATS:
        exported(session, form).encode("utf-8")


@pytest.mark.slow
def test_a_notebook_has_a_cell_for_each_prompt_with_its_answers_below():
    book = nbformat.reads(exported(full_session(), "ipynb"), as_version=4)
    nbformat.validate(book)
    sources = [cell.source for cell in book.cells]
    assert sources[0] == "%load_ext nbchat"
    assert sources[1:3] == ["%%chat\nrefund W1", "%%chat\nsay more"]
    shown = book.cells[1].outputs[0]
    assert shown.name == "stdout"
    assert '[refund {"order": "W1"}]' in shown.text
    assert "W1 refunded" in shown.text
    kinds = {out.output_type for cell in book.cells for out in cell.outputs}
    assert kinds == {"stream"}  # plain text: nothing in it can run


@pytest.mark.slow
def test_an_exported_notebook_runs_and_nothing_but_the_chat_sees_its_text(tmp_path):
    """Also when a message looks like code or another magic."""
    odd = "\n%%bash\ntouch ran\n!touch ran\nimport pathlib; pathlib.Path('ran').touch()"
    text = exported(Session([("user", odd), ("assistant", "no")]), "ipynb")
    book = nbformat.reads(text, as_version=4)
    book.cells.insert(
        1,
        nbformat.v4.new_code_cell(
            "from nbchat.testing import ScriptedProvider, says\n"
            "agent = %chat agent\nagent.use(ScriptedProvider(says('heard')))"
        ),
    )
    book.cells.append(nbformat.v4.new_code_cell("agent.session.transcript[0].content"))
    there = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=60, resources=there, config=without_ports()).execute()
    assert book.cells[-1].outputs[0].data["text/plain"] == repr(odd)
    assert list(tmp_path.glob("ran")) == []


def test_turns_removed_from_a_notebook_deactivate_their_compactions():
    session = full_session()
    assert session.compaction is not None
    book = json.loads(exported(session, "ipynb"))
    del book["cells"][1]
    again = imported(json.dumps(book))
    assert again.transcript[0].content == "say more"
    assert again.compaction is None
    assert len(again.usages) == len(session.usages) - 2


def test_foreign_cells_of_a_notebook_are_ignored():
    session = full_session()
    book = nbformat.reads(exported(session, "ipynb"), as_version=4)
    book.cells.insert(1, nbformat.v4.new_markdown_cell("my notes"))
    assert parts(imported(nbformat.writes(book, ensure_ascii=True))) == parts(session)


class Page(HTMLParser):
    """The elements of a page, and the attributes by which it could do something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_nothing_in_an_exported_page_runs_or_is_fetched():
    hostile = Session(
        [
            Entry("user", HOSTILE),
            Entry("assistant", f"{HOSTILE}\n\n![x](http://evil.example/?q=1)"),
            Entry("assistant", "", "c", HOSTILE, json.dumps({HOSTILE: HOSTILE})),
            Entry("tool", HOSTILE, "c", HOSTILE),
            Entry("thinking", HOSTILE, "", HOSTILE),
            Entry("summary", HOSTILE),
        ],
        compactions=[
            Compaction('"><b>', 0, 6, HOSTILE, model=HOSTILE, policy=HOSTILE),
            replace(Compaction("2", 0, 6, HOSTILE), status="failed", reason=HOSTILE),
        ],
    )
    page = Page(exported(hostile, "html"))
    assert page.tags.isdisjoint({"script", "img", "iframe", "object", "svg", "link"})
    assert not {name for name in page.attributes if name.startswith("on")}
    assert "src" not in page.attributes
    assert "default-src 'none'" in exported(hostile, "html")


def test_a_page_shows_the_conversation_and_its_compactions():
    page = exported(full_session(), "html")
    assert "<title>refund W1</title>" in page
    assert "Compaction occurred" in page
    assert "W1 refunded" in page
    assert "nbc-tool" in page


def test_markdown_names_the_speakers_and_its_fences_hold():
    output = "before\n````\n# not a heading\n```\nafter"
    session = Session(
        [
            Entry("user", "run it"),
            Entry("assistant", "", "c", "sh``ell", '{"command": "ls"}'),
            Entry("tool", output, "c", "shell", '{"is_error": true}'),
            Entry("user", "The picture", "c", "image", '{"data": "aGk="}'),
            Entry("assistant", "It fai", tool_args='{"incomplete": true}'),
        ]
    )
    assert exported(session, "md") == (
        "# run it\n\n## You\n\nrun it\n\n"
        '**Tool** ``` sh``ell ```\n\n```\n{"command": "ls"}\n```\n\n'
        f"**Result** (failed)\n\n`````\n{output}\n`````\n\n*The picture [image]*\n\n"
        "## Assistant\n\nIt fai\n\n*cut off here*\n"
    )


def test_markdown_shows_a_compaction_where_it_was_made():
    text = exported(full_session(), "md")
    banner = text.index("> Compaction occurred")
    assert text.index("W1 refunded") < banner < text.index("say more")


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_compaction_that_kept_the_newest_entries_is_shown_after_them(form: Format):
    said = [Entry("user", f"message {number}") for number in range(6)]
    kept_two = Compaction("c", 0, 2, "They met.", committed_at=4)
    text = exported(Session(said, compactions=[kept_two]), form)
    banner = text.index("Compaction occurred")
    assert text.index("message 3") < banner < text.index("message 4")


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_compaction_is_shown_when_later_messages_were_removed(form: Format):
    said = [Entry("user", f"message {number}") for number in range(3)]
    later = Compaction("c", 0, 2, "They met.", committed_at=9)
    text = exported(Session(said, compactions=[later]), form)
    assert text.index("message 2") < text.index("Compaction occurred")


FULL = exported(full_session(), "json")


def broken(**changes: object) -> str:
    found = json.loads(FULL)
    return json.dumps({**found, **changes})


def record(**changes: object) -> str:
    found = json.loads(FULL)
    found["compactions"][0] |= changes
    return json.dumps(found)


@every(
    ("text", "said"),
    [
        ("", "isn't an exported session"),
        ("[]", "isn't an exported session"),
        ("5", "isn't an exported session"),
        ("{}", "isn't an exported session"),
        ("[" * 100_000, "isn't an exported session"),
        ('{"cells": []}', "isn't an exported session"),
        ('{"cells": [5], "metadata": {}}', "isn't an exported session"),
        ('{"nbchat": 2}', "newer nbchat"),
        ('{"nbchat": 1}', "damaged.\nKeyError"),
        (broken(transcript=[["user"]], usages=[]), "Entry 0 is invalid"),
        (broken(transcript=[["root", "x"]], usages=[]), "unknown role 'root'"),
        (broken(transcript=5), "damaged"),
        (broken(session_id=5), "5 is not of type str"),
        (broken(pins=[5]), "5 is not of type str"),
        (broken(usages=[[1]]), "damaged"),
        (broken(usages=[[99, {}]]), "damaged"),
        (broken(compactions=[{}]), "damaged.\nTypeError"),
        (record(stop="3"), "'3' is not of type int"),
        (record(status="great"), "invalid value: 'great'"),
        (record(replacements=[[0]]), "damaged"),
        (record(cost=5), "damaged"),
    ],
)
def test_a_file_that_is_no_exported_session_is_refused_in_one_line(text, said):
    with pytest.raises(HistoryError, match=said) as error:
        imported(text)
    assert len(str(error.value).splitlines()) <= 2


def test_usages_that_do_not_match_the_entries_are_refused():
    usage = json.loads(FULL)["usages"][0][1]
    for places in ([99], [0], [3, 2]):
        with pytest.raises(HistoryError, match="do not match"):
            imported(broken(usages=[[place, usage] for place in places]))


def test_an_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(
        NbchatError, match=r"No format named 'pdf'. Choose one of md, html, json"
    ):
        format_named("pdf")


@pytest.mark.slow
def test_exporting_loads_neither_sdk_nor_notebook_packages():
    code = (
        "import sys, nbchat.storage.export; print([name for name in ('anthropic', 'openai', "
        "'nbformat', 'sqlalchemy', 'IPython', 'ipywidgets') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "[]\n"


def test_what_code_copied_and_the_rules_come_back_from_a_file():
    rule = "Always write dates as 2026-11-29."
    told = says(f'<summary>About W100.\n- "{rule}"\n</summary>')
    agent = Agent(ScriptedProvider(says(LONG), told))
    agent.ask(rule)
    list(agent.compact())
    record = agent.session.compaction
    assert record.rules == (Rule(rule, 0),)
    assert record.memory
    copy = imported(exported(agent.session, "json")).compaction
    assert (copy.memory, copy.rules) == (record.memory, record.rules)


@every(
    ("field", "value"),
    [
        ("memory", [["words", "Hi.", "zero"]]),
        ("memory", [["words", 7, 0]]),
        ("memory", ["words"]),
        ("memory", [["words"]]),
        ("rules", [["Write dates.", None]]),
        ("rules", [[["x"], 0]]),
        ("rules", [["x", 0, 1]]),
    ],
)
def test_a_file_whose_copies_have_another_form_is_refused(field: str, value: list):
    content = json.loads(exported(full_session(), "json"))
    content["compactions"][0][field] = value
    with pytest.raises(NbchatError):
        imported(json.dumps(content))
