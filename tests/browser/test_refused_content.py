"""What a person sees when a server refuses content, or an answer is cut off."""

from collections.abc import Callable
from pathlib import Path

from panel_page import OpenPanelPage
from panels import say
from playwright.sync_api import expect

Screenshot = Callable[[str], Path]

REFUSING = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
from refusing_server import RefusingServer, png, takes_no_pictures
from nbchat.agent.agent import Agent
from nbchat.jupyter.panel.chat_ui import ChatUI
from fault_server import OpenAIDialect
def shot() -> bytes:
    "Take a picture."
    return png()
server = RefusingServer("openai", takes_no_pictures())
server.script(OpenAIDialect().calls(("c1", "shot", "{{}}")))
ui = ChatUI(Agent(server.provider(model="text-only"), tools=[shot]))
ui
"""

CUT = """
from nbchat.agent.agent import Agent
from nbchat.errors import ConnectionFailed
from nbchat.jupyter.panel.chat_ui import ChatUI
from nbchat.testing import ScriptedProvider, says
from nbchat.conversation.events import TextDelta
class Cutting(ScriptedProvider):
    cuts = 1
    def stream(self, request, *, stop=None):
        if self.cuts:
            self.cuts = 0
            yield TextDelta("The parcel is")
            raise ConnectionFailed("the connection to 127.0.0.1 was lost")
        return (yield from super().stream(request, stop=stop))
ui = ChatUI(Agent(Cutting(says("in Bergen."))))
ui
"""


def test_one_line_says_what_was_left_out_and_opens(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
):
    notebook = open_panel_page(REFUSING)
    panel = notebook.run(0).locator(".nbc")
    say(panel, "look")
    notebook.await_answers()
    card = panel.locator(".nbc-tool")
    card.locator("summary").click()
    expect(card.locator(".nbc-tool-picture")).to_contain_text("picture that shot")
    expect(panel.locator(".nbc-user")).to_have_text(["look"])
    screenshot("picture-of-a-tool")
    card.locator("summary").click()
    line = panel.locator(".nbc-left-out")
    expect(line).to_contain_text("text-only doesn't accept the picture that shot")
    expect(line).to_contain_text("stays in the chat")
    expect(panel.locator(".nbc-spent")).to_contain_text("2 requests")
    reason = line.get_by_text("image_url is only supported by certain models.")
    expect(reason).to_be_hidden()
    line.get_by_text("Show").click()
    expect(reason).to_be_visible()
    screenshot("refused-content")


def test_an_answer_that_was_cut_off_is_kept_and_continued(
    open_panel_page: OpenPanelPage, screenshot: Screenshot
):
    notebook = open_panel_page(CUT)
    panel = notebook.run(0).locator(".nbc")
    say(panel, "Where is it?")
    expect(panel.locator(".nbc-assistant")).to_contain_text("The parcel is")
    expect(panel.get_by_role("button", name="Try again")).to_be_visible()
    screenshot("cut-off")
    panel.get_by_role("button", name="Continue", exact=True).click()
    expect(panel.locator(".nbc-assistant").last).to_have_text("in Bergen.")
    expect(panel.locator(".nbc-assistant").first).to_contain_text("The parcel is")
    expect(panel.locator(".nbc-error")).to_have_count(0)
