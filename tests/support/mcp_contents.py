"""An MCP server whose tools return the contents that a file holds, exactly.

python mcp_contents.py contents.json      # {"tool": [blocks] or a whole result}
"""

import json
import sys
from pathlib import Path
from typing import Any

CONTENTS: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}}
    for name in CONTENTS
]


def result_of(asked: dict[str, Any]) -> dict[str, Any] | None:
    match asked["method"]:
        case "initialize":
            return {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "contents", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            found = CONTENTS[asked["params"]["name"]]
            return {"content": found} if isinstance(found, list) else found
    return None


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result = result_of(asked)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        unknown = {"error": {"code": -32601, "message": "no such method"}}
        answer |= unknown if result is None else {"result": result}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
