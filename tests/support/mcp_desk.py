"""An MCP server of a help desk, as a process: `python mcp_desk.py [http]`."""

import os
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

desk = MCPServer("desk")


@desk.tool(annotations=ToolAnnotations(read_only_hint=True))
def order(number: str, detail: str = "") -> str:
    """Look up an order."""
    return f"{number} was shipped on May 3" + detail


@desk.tool(annotations=ToolAnnotations(destructive_hint=True))
def cancel(number: str) -> str:
    """Cancel an order."""
    raise ValueError(f"{number} was shipped already")


@desk.tool()
def crash() -> str:
    """End the server."""
    os._exit(3)


@desk.tool()
def pause() -> str:
    """Never answer."""
    import time

    time.sleep(60)
    return "late"


if __name__ == "__main__":
    if "http" in sys.argv:
        desk.run(transport="streamable-http", port=int(sys.argv[2]))
    else:
        Path(sys.argv[1]).write_text(str(os.getpid())) if len(sys.argv) > 1 else None
        desk.run()
