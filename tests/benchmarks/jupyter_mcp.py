"""Read and run a notebook of a real JupyterLab through jupyter-mcp-server.

PYTHONPATH=. python tests/benchmarks/jupyter_mcp.py URL TOKEN NOTEBOOK [PROGRAM]

URL and TOKEN are of a JupyterLab that runs in an environment with jupyter-mcp-server,
NOTEBOOK a file of it, and PROGRAM the path of `jupyter-mcp-server` there.
"""

import os
import sys

from nbchat.agent.mcp import McpServer, McpServers


def main(url: str, token: str, notebook: str, program: str) -> None:
    addresses = dict.fromkeys(("JUPYTER_URL", "DOCUMENT_URL", "RUNTIME_URL"), url)
    tokens = dict.fromkeys(("JUPYTER_TOKEN", "DOCUMENT_TOKEN", "RUNTIME_TOKEN"), token)
    server = McpServer(
        "jupyter",
        program,
        args=("start", "--transport", "stdio"),
        env={**addresses, **tokens, "PATH": os.environ["PATH"]},
    )
    with McpServers([server], connect_seconds=60) as servers:
        print(servers, *servers.problems.values(), f"{len(servers.tools)} tools")
        tools = {each.name: each.function for each in servers.tools}
        name = {"notebook_name": "book", "notebook_path": notebook}
        print(tools["jupyter__use_notebook"](**name, mode="connect"))
        print(tools["jupyter__read_notebook"](notebook_name="book"))
        print(tools["jupyter__execute_cell"](cell_index=0))


if __name__ == "__main__":
    main(*[*sys.argv[1:], "jupyter-mcp-server"][:4])
