"""Ask the persona of jupyter-ai in a real JupyterLab, over the chat's own WebSocket.

In an environment with `pip install -e ".[acp]" jupyter-ai-acp-client`:

    PYTHONPATH=.:tests/support python tests/benchmarks/jupyter_ai.py

The model is a server of this machine. Prints what the persona answered.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from fault_server import OpenAIDialect
from hosted_model import HostedModel
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

PERSONA = "jupyter-ai-personas::nbchat::NbchatPersona"
EXTENSIONS = (
    "jupyterlab_chat",
    "jupyter_ai_router",
    "jupyter_ai_persona_manager",
    "jupyter_ai_acp_client",
)
ANSWER = "Some tickets are closed."
SECONDS = 60


def started_lab(folder: str, port: int, model: HostedModel) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        **model.environment,
        "NBCHAT_STORE_URL": f"sqlite:///{folder}/chats.db",
        "HOME": folder,
    }
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        f"--port={port}",
        "--IdentityProvider.token=t",
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.jpserver_extensions={dict.fromkeys(EXTENSIONS, True)}",
    ]
    with (Path(folder) / "lab.log").open("wb") as log:
        return subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=log
        )


async def opened_chat(port: int) -> WebSocketClientConnection:
    address = f"127.0.0.1:{port}"
    while True:
        try:
            await AsyncHTTPClient().fetch(f"http://{address}/api/status?token=t")
        except OSError:
            await asyncio.sleep(0.5)
        else:
            break
    return await websocket_connect(f"ws://{address}/api/chat/ws/chat.chat?token=t")


async def received(chat: WebSocketClientConnection, wanted: str) -> dict[str, Any]:
    """The next message of the server that holds a text."""
    while True:
        text = await chat.read_message()
        if text is None:
            raise EOFError("the server closed the chat")
        if wanted in text:
            message: dict[str, Any] = json.loads(text)
            return message


async def ask(port: int) -> str:
    chat = await opened_chat(port)
    await received(chat, PERSONA)
    message = {
        "type": "client",
        "action": "send",
        "id": uuid.uuid4().hex,
        "body": "Hello.",
        "metadata": {"to_persona": PERSONA},
    }
    await chat.write_message(json.dumps(message))
    answer = await received(chat, ANSWER)
    return str(answer["message"]["body"])


def main() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = HostedModel(OpenAIDialect())
    with tempfile.TemporaryDirectory() as folder:
        lab = started_lab(folder, port, model)
        try:
            print(asyncio.run(asyncio.wait_for(ask(port), SECONDS)))
        finally:
            lab.terminate()
            lab.wait()
            model.close()


if __name__ == "__main__":
    main()
