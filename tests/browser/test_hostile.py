"""Hostile texts in a real JupyterLab: nothing runs, nothing is fetched, nothing is kept."""

import json
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import nbformat
import pytest
from fault_server import FaultServer, OpenAIDialect
from hostile import ATTRIBUTES, FAMILIES, PAYLOADS, TAGS
from kernels import without_ports
from labkit import REPOSITORY, Lab, Notebook, load_empty
from nbclient import NotebookClient
from panel_page import OpenPanelPage, PanelServer
from panels import choose
from playwright.sync_api import Dialog, Locator, Page, expect

from nbchat.conversation.entries import Entry
from nbchat.conversation.session import Session
from nbchat.jupyter.panel import queries, transcript
from nbchat.storage.export import exported

OpenNotebook = Callable[..., Notebook]
Screenshot = Callable[[str], Path]

PANEL = {
    *("section", "header", "footer", "form", "textarea", "button"),
    *("dl", "fieldset", "input", "label", "legend", "option", "select", "small"),
    "u",  # a link whose paragraph is still being written
    *TAGS,
}
"""Elements of the panel, its own controls included."""

OWN_ATTRIBUTES = {
    *("aria-atomic", "aria-busy", "aria-controls", "aria-expanded", "aria-hidden"),
    *("aria-live", "aria-valuemax", "aria-valuemin", "aria-valuenow"),
    *("aria-valuetext", "data-level", "data-lm-suppress-shortcuts", "data-theme"),
    *("disabled", "hidden", "open", "placeholder", "role", "rows", "tabindex"),
    *("aria-haspopup", "data-action", "data-item", "data-key", "data-kind"),
    *("data-end", "data-key-of", "data-length", "data-missing"),
    *("data-divider", "data-icon", "data-label", "data-size", "dir"),
    *(
        "aria-orientation",
        "data-name",
        "data-position",
        "data-retry",
        "data-refusal",
        "data-seen-to",
        "data-continue",
    ),
    *("data-excluded", "data-mark", "data-number", "data-seen", "inert"),
    *("data-part", "data-session", "data-step", "scope", "spellcheck"),
    *("aria-autocomplete", "aria-modal", "data-first", "min", "step", "title", "type"),
    *("autocomplete", "data-address", "data-model", "data-open"),
}
"""Attributes of the panel's own controls, and of what a person has unfolded."""

SETUP = f"""
import json, sys
sys.path.insert(0, {str(REPOSITORY / "tests" / "support")!r})
from hostile import MARKDOWN, PAYLOADS, banner, notices
from IPython.display import HTML, display
from nbchat.agent.agent import Agent
from nbchat.jupyter.cell_output import Banner
from nbchat.chat.commands import Commands
from nbchat.errors import AuthenticationFailed
from nbchat.conversation.events import EntryAdded, RetryScheduled, ToolRequested
from nbchat.conversation.entries import FAILED, INCOMPLETE, Compaction, Entry
from nbchat.conversation.search import find
from nbchat.conversation.session import Session
from nbchat.storage.store import Origin, SessionStore
from nbchat.testing import ScriptedProvider, calls, fails, says
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.chat.chat_events import CommandReplied, QueueChanged, MessagesReturned

texts = list(PAYLOADS.values())
"""

EVEN, ODD = (
    list(PAYLOADS.values())[part] for part in (slice(0, None, 2), slice(1, None, 2))
)
"""Texts of each family, where the HTML of all is looked at without a browser, too
(`rendering/test_hostile_texts.py`), or where the page makes no HTML of them."""

SESSION = """
texts = texts[::2]
def entries(number, text):
    yield Entry("user", text)
    yield Entry("user", "see", "", text, json.dumps({"media_type": text}))
    yield Entry("thinking", text, "", text, "{}")
    yield Entry("assistant", "", f"c{number}", text, json.dumps({text: text}))
    yield Entry("tool", text, f"c{number}", text, FAILED if number % 2 else "")
    yield Entry("assistant", text, tool_args=INCOMPLETE if number % 2 else "")
    yield Entry("summary", f"<summary>{text}</summary><facts>{text}</facts>")

said = [entry for pair in enumerate(texts) for entry in entries(*pair)]
told = [
    Compaction(f"k{number}", 0, 1, f"<summary>{text}</summary><facts>{text}</facts>",
               model=text, trigger=text, policy=text, reason=text, note=text,
               created_at=text, revision=text, committed_at=number)
    for number, text in enumerate(texts)
]
session = Session(said, compactions=told)
ui = ChatUI(Agent(ScriptedProvider(), session=session), height="800px")
ui
"""

NOTICES = """
import tempfile
store = SessionStore(f"sqlite:///{tempfile.mkdtemp()}/hostile.db")
for number, text in enumerate(texts):
    begun = Session([Entry("user", text)], session_id=f"s{number}")
    store.add_entries(begun, 0, 1, Origin("n", model="m"))
(reply,) = Commands(store)(ui.agent, "/sessions")
listed = reply.text
put = ui._show
put(CommandReplied(listed))
for number, text in enumerate(texts[::3]):
    put(CommandReplied(text))
    for event in notices(text):
        put(event)
    put(EntryAdded(len(said) + number, Entry("user", "next")))  # an error stays above it
    put(RetryScheduled(number, 9.0, text))
    put(ToolRequested(Entry("assistant", "", "c", text, "{}")))
    put(QueueChanged((text,)))
put(QueueChanged(tuple(texts)))
put(MessagesReturned(tuple(texts)))
put(CommandReplied("all notices are shown"))
"""

STREAM = """
whole = "\\n\\n".join(texts)
ui = ChatUI(Agent(ScriptedProvider(
    says(whole, delay_seconds=0.0005),
    calls(texts[0], **{text: text for text in texts}),
    says("the stream is over"),
    fails(AuthenticationFailed(whole)),
    name=texts[1] + " the name", window=10_000_000,
)), height="800px")
ui
"""

ASK = "ui.ask(whole); ui.wait(); ui.ask('again'); ui.wait(); ui.ask('again'); ui.wait()"

DIALOGS = """
import tempfile
texts = texts[::2]
store = SessionStore(f"sqlite:///{tempfile.mkdtemp()}/sessions.db")
for number, text in enumerate(texts):
    begun = Session([Entry("user", text)], session_id=f"s{number}")
    store.add_entries(begun, 0, 1, Origin(text, model=text))
known = Commands(store)
whole = "\\n\\n".join(texts)
summary = f"<summary>{whole}</summary><facts>{whole}</facts>"
record = Compaction("k", 0, 1, summary, model=whole, reason=whole, committed_at=len(texts))
said = [Entry("user", text) for text in texts]
session = Session(said, session_id="s0", compactions=[record], pins=texts)
provider = ScriptedProvider(name=texts[1] + " the name", window=10_000_000)
ui = ChatUI(Agent(provider, session=session), commands=known,
            height="800px")
ui
"""

SURFACES = """
import itertools
import tempfile
texts = texts[1::2]
from nbchat.agent.mcp import ServerState
from nbchat.storage.saved_settings import SettingInForce
from nbchat.conversation.entries import MemoryLine
from nbchat.conversation.tools import Tool
from nbchat.storage.branches import Branch

class Families(SessionStore):
    def family(self, session_id):
        ids = [text for text in texts if len(text) < 1_000]
        others = [Branch(each, "2", "2", ((session_id, 0),)) for each in ids]
        return [Branch(session_id, "1", "1"), *others]

def settings(_agent):
    for text, kind in zip(texts, itertools.cycle(("text", "choice", "bool", "int"))):
        yield SettingInForce(text, text, text, kind, text, (text,), text)

def servers():
    for text in texts:
        tool = Tool(text[:50], text, {"type": "object", "properties": {}}, print)
        yield ServerState(text, text, text, (tool,))
        yield ServerState(text, text, text, None, text)

store = Families(f"sqlite:///{tempfile.mkdtemp()}/surfaces.db")
for number, text in enumerate(texts):
    begun = Session([Entry("user", "words")], session_id=f"s{number}")
    store.add_entries(begun, 0, 1, Origin("n", model="m"))
    store.rename(f"s{number}", text)
whole = "\\n\\n".join(f"{n}. {text}" for n, text in enumerate(texts, 1_000))
told = (MemoryLine("work", text, n) for n, text in enumerate(texts))
memory = (MemoryLine("work", "Work:", None), *told)
lines = "\\n".join(f'{text}:\\n- "{text}"' for text in texts)
summary = f"<summary>\\n{whole}\\n</summary>\\n<facts>\\n{lines}\\n</facts>"
record = Compaction("k", 0, len(texts), summary, memory=memory, committed_at=len(texts))
said = [Entry("user", f"{n}. {text}") for n, text in enumerate(texts, 1_000)]
session = Session(said, session_id="s0", compactions=[record])
known = Commands(store)
known.live_settings.listed, known.servers.listed = settings, servers
ui = ChatUI(Agent(ScriptedProvider(), session=session), commands=known,
            height="800px")
ui
"""

CONTEXTS = """
places = [
    Entry("assistant", template.replace("{}", text))
    for number, template in enumerate(MARKDOWN)
    for text in texts[number % 4::4] if len(text) < 1_000
]
ui = ChatUI(Agent(ScriptedProvider(), session=Session(places)), height="800px")
ui
"""

OUTPUTS = """
shown = [[Banner(banner(text)), find([Entry("user", text)], 0)] for text in texts]
display(HTML("".join(each._repr_html_() for pair in shown for each in pair)))
"""

VIOLATIONS = """
(roots, [tags, attributes]) => roots.flatMap(root => [...root.querySelectorAll("*")])
    .flatMap(element => {
        const tag = element.localName;
        const found = tags.includes(tag) ? [] : [`<${tag}>`];
        for (const { name, value } of element.attributes) {
            const isStyle = name === "style" && element.closest(".nbc-log, .nbc-live")
                && !/^text-align:(left|center|right)$/.test(value);
            const isControl = ["id", "value"].includes(name)
                && ["ul", "li", "option"].includes(tag) && !element.closest(".nbc-log, .nbc-live");
            const isOwn = isControl || (attributes.includes(name) && !isStyle);
            if (!isOwn) found.push(`<${tag} ${name}=${value}>`);
        }
        const isLink = element.hasAttribute("href");
        if (isLink && !["http:", "https:", "mailto:"].includes(element.protocol)) {
            found.push(element.outerHTML);
        }
        return found;
    })
"""


class Watch:
    """What the page did since the watch began: requests, dialogs, popups, complaints."""

    def __init__(self, page: Page, url: str) -> None:
        """Begin to watch a page of the server at an address."""
        self.page = page
        self._own = (url, url.replace("http", "ws", 1), "blob:", "data:")
        self.requests: list[str] = []
        self.others: list[str] = []
        page.context.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("dialog", self._dismiss)
        page.on("popup", lambda popup: self.others.append(popup.url))
        page.on("download", lambda download: self.others.append(download.url))
        page.on("console", lambda message: self._listen(message.text))

    def assert_quiet(self) -> None:
        """Nothing ran in any frame, and nobody but the server was asked for anything."""
        marks = [frame.evaluate("window.nbchatPwned") for frame in self.page.frames]
        assert set(marks) == {None}
        assert self.others == []
        assert [
            url
            for url in self.requests
            if not url.startswith(self._own) or "evil" in url or "Pwned" in url
        ] == []

    def _dismiss(self, dialog: Dialog) -> None:
        self.others.append(dialog.message)
        dialog.dismiss()

    def _listen(self, text: str) -> None:
        if "Content Security Policy" in text or "evil.example" in text:
            self.others.append(text)


@pytest.fixture
def watch(
    page: Page, panel_server: PanelServer, monkeypatch: pytest.MonkeyPatch
) -> Watch:
    """A watch on the blank page, where a panel shows all of its transcript at once."""
    monkeypatch.setattr(transcript, "PAGE_ITEMS", 10**9)
    monkeypatch.setattr(transcript, "PAGE_CHARACTERS", 10**9)
    monkeypatch.setattr(queries, "MOST_SESSIONS", 10**9)
    return Watch(page, panel_server.url)


def violations(roots: Locator) -> list[str]:
    """What is in the page and not on the lists."""
    known = [sorted(PANEL), sorted({*ATTRIBUTES, *OWN_ATTRIBUTES})]
    found: list[str] = roots.evaluate_all(VIOLATIONS, known)
    return sorted(set(found))


def await_count(root: Locator, selector: str, count: int) -> None:
    """Wait for that many elements; `expect` would print a page of hostile text."""
    found = -1
    for _ in range(1_200):
        found = root.locator(selector).count()
        if found >= count:
            break
        root.page.wait_for_timeout(50)
    assert found == count


def unfold(page: Page, root: Locator) -> None:
    """Open all that is folded, and pass the mouse and the focus over the page."""
    root.evaluate(
        """async root => {
            for (const part of root.querySelectorAll("details")) part.open = true;
            for (const part of root.querySelectorAll("a, summary, pre, math, td")) {
                for (const name of ["mouseover", "pointerenter", "focus"]) {
                    part.dispatchEvent(new Event(name, { bubbles: true }));
                }
            }
            await new Promise(done => setTimeout(done, 200));
        }"""
    )
    page.mouse.move(300, 300)
    page.mouse.wheel(0, -100_000)


def test_hostile_texts_run_nothing_and_send_nothing_wherever_they_appear(
    open_panel_page: OpenPanelPage, watch: Watch, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(SETUP + SESSION, NOTICES)
    panel = notebook.run(0).locator(".nbc")
    log = panel.locator(".nbc-log")
    await_count(log, ".nbc-user", 2 * len(EVEN))
    await_count(log, ".nbc-banner", len(EVEN))
    notebook.run(1)
    await_count(log, ".nbc-note:has-text('all notices are shown')", 1)
    await_count(log, ".nbc-error", len(EVEN[::3]))
    unfold(page, panel)
    screenshot("places")
    assert violations(panel) == []
    watch.assert_quiet()


def test_hostile_texts_that_stream_in_run_nothing_and_send_nothing(
    open_panel_page: OpenPanelPage, watch: Watch, page: Page, screenshot: Screenshot
) -> None:
    notebook = open_panel_page(SETUP + STREAM, ASK)
    panel = notebook.run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_contain_text("the name")
    notebook.start(1)
    expect(panel.locator(".nbc-live .nbc-md > *").nth(50)).to_be_attached()
    assert violations(panel) == []
    notebook.join()
    await_count(panel, ".nbc-log .nbc-error", 1)
    await_count(panel, ".nbc-log .nbc-assistant", 2)
    unfold(page, panel)
    screenshot("streamed")
    assert violations(panel) == []
    watch.assert_quiet()


def test_hostile_texts_anywhere_in_markdown_run_nothing_and_send_nothing(
    open_panel_page: OpenPanelPage, watch: Watch, page: Page
) -> None:
    panel = open_panel_page(SETUP + CONTEXTS).run(0).locator(".nbc")
    count = 5 * sum(len(text) < 1_000 for text in PAYLOADS.values())
    await_count(panel, ".nbc-assistant", count)
    unfold(page, panel)
    assert violations(panel) == []
    watch.assert_quiet()


def test_hostile_texts_in_a_cells_output_run_nothing_and_send_nothing(
    open_shared_notebook: OpenNotebook, page: Page, lab: Lab
) -> None:
    watch = Watch(page, lab.url)
    outputs = open_shared_notebook(SETUP + OUTPUTS).run(0)
    await_count(outputs, ".nbc-cell", len(PAYLOADS))
    unfold(page, page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)"))
    assert violations(outputs.locator(".nbc-banner")) == []
    assert outputs.locator("script, img, iframe, object, embed, base").count() == 0
    watch.assert_quiet()


FETCHING = (
    "link, img:not([src^='data:']), picture, source, video, audio, iframe, object, embed, style, meta, base"
    ", script, image, feImage, [ping], [srcset], [poster], [background], [style*=url]"
)
"""What fetches, looks up a name or reports a click without being asked."""


ASKING = (
    *("images that tell", "styles", "frames, plugins and forms", "SVG"),
    *("script elements", "Markdown around it", "requests without a click"),
)
"""Families of texts that ask for addresses."""


def test_a_markdown_export_in_jupyterlabs_preview_fetches_nothing(
    page: Page, lab: Lab, screenshot: Screenshot
) -> None:
    texts = [text for family in ASKING for text in FAMILIES[family]]
    roles = cycle(("user", "assistant", "tool"))
    said = [Entry(next(roles), text, "c", "t") for text in texts]
    session = Session([*said, Entry("assistant", "the end of the export")])
    (lab.root / "hostile.md").write_text(exported(session, "md"), encoding="utf-8")
    if not page.url.startswith(lab.url):
        load_empty(page, lab)
    watch = Watch(page, lab.url)
    page.evaluate(
        """() => { void window.jupyterapp.commands.execute(
            'docmanager:open', {path: 'hostile.md', factory: 'Markdown Preview'}) }"""
    )
    shown = page.locator(".jp-MarkdownViewer:not(.lm-mod-hidden)")
    expect(shown.get_by_text("the end of the export")).to_be_attached()
    unfold(page, shown)
    screenshot("preview")
    found = shown.locator(FETCHING)
    assert found.evaluate_all("all => all.map(each => each.outerHTML)") == []
    page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")
    watch.assert_quiet()


def test_hostile_texts_in_every_dialog_run_nothing_and_send_nothing(
    open_panel_page: OpenPanelPage, watch: Watch, page: Page, screenshot: Screenshot
) -> None:
    panel = open_panel_page(SETUP + DIALOGS).run(0).locator(".nbc")
    expect(panel.locator(".nbc-model")).to_contain_text("the name")
    dialog = panel.get_by_role("dialog")
    for opener, rows, count in (
        (["More", "History"], ".nbc-row", len(EVEN)),
        (["More", "Pins"], "li", len(EVEN)),
        (["More", "Sessions"], "li", len(EVEN)),
        (["Edit"], "textarea", 1),
    ):
        panel.get_by_role("button", name=opener[0], exact=True).last.click()
        for item in opener[1:]:
            panel.get_by_role("menuitem", name=item).click()
        shown = dialog.locator(rows).nth(min(count, 100) - 1)
        shown.wait_for(state="attached")
        unfold(page, panel)
        screenshot(opener[-1])
        assert violations(panel) == []
        page.keyboard.press("Escape")
    panel.locator(".nbc-model").click()
    expect(dialog.get_by_role("region", name="Trial model")).to_be_visible()
    page.keyboard.press("Escape")
    panel.locator(".nbc-open-context").click()
    expect(dialog.get_by_role("table").first).to_be_visible()
    assert violations(panel) == []
    watch.assert_quiet()


def test_hostile_texts_in_memory_settings_servers_titles_and_branches_are_only_text(
    open_panel_page: OpenPanelPage, watch: Watch, page: Page, screenshot: Screenshot
) -> None:
    panel = open_panel_page(SETUP + SURFACES).run(0).locator(".nbc")
    dialog = panel.get_by_role("dialog")
    switch = panel.locator(".nbc-switch").first
    expect(switch).to_contain_text("/")
    assert violations(panel) == []
    for item, rows, count in (
        ("Settings", ".nbc-setting", len(set(ODD))),
        ("MCP servers", "li.nbc-session", 2 * len(ODD)),
        ("Sessions", "li.nbc-session", len(ODD)),
    ):
        choose(panel, item)
        await_count(dialog, rows, count)
        unfold(page, panel)
        screenshot(item)
        assert violations(panel) == []
        page.keyboard.press("Escape")
    panel.locator("button[data-action=view]").click()
    await_count(dialog, ".nbc-copied li", len(ODD))
    dialog.locator(".nbc-source").last.click()
    await_count(dialog, ".nbc-found", 1)
    unfold(page, panel)
    screenshot("View")
    assert violations(panel) == []
    page.keyboard.press("Escape")
    switch.get_by_role("button", name="Later version").click()
    expect(panel.locator(".nbc-error")).to_be_attached()
    assert violations(panel) == []
    watch.assert_quiet()


KEY, PROMPT, ANSWER = "sk-canary-4711", "the canary sings at", "half past seven"
SECRETS = (KEY, PROMPT, ANSWER)

OPEN = """
import os
from pathlib import Path
from nbchat.agent.agent import Agent
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.providers.connect import connect
os.environ["OPENAI_BASE_URL"] = Path("address.txt").read_text()
ui = ChatUI(Agent(connect("openai:gpt-4o", api_key=Path("key.txt").read_text)))
ui
"""


@pytest.fixture
def model_server() -> Iterator[FaultServer]:
    """A model on this machine that gives the secret answer."""
    server = FaultServer()
    server.script(*[OpenAIDialect().text(f"At {ANSWER}.")] * 3)
    yield server
    server.close()


def hide(folder: Path, server: FaultServer) -> None:
    """Leave key, address and prompt where a cell finds them without naming them."""
    (folder / "key.txt").write_text(KEY)
    (folder / "address.txt").write_text(f"{server.url}/v1")
    (folder / "prompt.txt").write_text(f"When does {PROMPT}?")


def test_a_notebook_run_by_nbclient_contains_no_part_of_the_chat(
    tmp_path: Path, model_server: FaultServer
) -> None:
    hide(tmp_path, model_server)
    cells = [OPEN, "ui.ask(Path('prompt.txt').read_text()); ui.wait()", "ui.session"]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(
        notebook, timeout=120, resources=resources, config=without_ports()
    ).execute()
    saved = nbformat.writes(notebook)
    assert "widget-state" in saved
    assert "Session of 2 messages" in saved
    assert [secret for secret in SECRETS if secret in saved] == []
    assert PROMPT in json.dumps(model_server.requests[-1].body)
