"""MCP servers in the menu of the panel."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from labkit import Notebook
from panels import OWN, choose, panel_of, say
from playwright.sync_api import expect

DESK = Path(__file__).parents[1] / "support" / "mcp_desk.py"

STARTING = 60_000
"""Milliseconds for another Python to load the package mcp, on a busy machine."""


def test_a_server_is_connected_in_the_menu_and_its_tools_are_listed(
    open_shared_notebook: Callable[..., Notebook], screenshot: Callable[[str], Path]
) -> None:
    notebook = open_shared_notebook(OWN)
    servers = {
        "desk": {"command": sys.executable, "args": [str(DESK)]},
        "<b>gone</b>": {"command": "/no/such/program"},
    }
    file = notebook.lab.root / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    panel = panel_of(notebook)
    choose(panel, "MCP servers")
    dialog = panel.get_by_role("dialog")
    rows = dialog.get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(dialog).to_contain_text("<b>gone</b>")
    dialog.get_by_role("button", name="Connect: <b>gone</b>").click()
    expect(dialog).to_contain_text("MCP server '<b>gone</b>'")
    dialog.get_by_role("button", name="Connect: desk").click()
    expect(dialog).to_contain_text("connected, 4 tools", timeout=STARTING)
    dialog.locator("summary", has_text="Tools").click()
    expect(dialog).to_contain_text("desk__order Look up an order.")
    screenshot("connected")
    dialog.get_by_role("button", name="Disconnect: desk").click()
    expect(dialog.get_by_role("button", name="Connect: desk")).to_be_enabled()
    file.write_text("[")
    panel.page.keyboard.press("Escape")
    choose(panel, "MCP servers")
    expect(dialog).to_contain_text("mcp.json")
    panel.page.keyboard.press("Escape")
    file.unlink()
    say(panel, "Still there?")
    expect(panel.locator(".nbc-log")).to_contain_text("I see.")
