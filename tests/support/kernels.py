"""A kernel in a process of its own, as JupyterLab starts one for a notebook."""

import os
import tempfile
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from traitlets.config import Config


def without_ports() -> Config:
    """The configuration of a kernel whose sockets are files of its own.

    Ports are chosen before a kernel starts; if another program has taken one when it has
    started, it never answers.
    """
    files = Path(tempfile.gettempdir()) / f"nbchat-kernel-{uuid.uuid4().hex}"
    return Config({"KernelManager": {"transport": "ipc", "ip": str(files)}})


SERVER_WITHOUT_PORTS = "--KernelManager.transport=ipc"
"""The same for all kernels of a Jupyter server."""


class Kernel:
    """A running kernel and the client that talks to it."""

    def __init__(self, notebook: str) -> None:
        self.manager = KernelManager(kernel_name="python3", config=without_ports())
        self.manager.start_kernel(
            env={**os.environ, "JPY_SESSION_NAME": notebook},
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
        self._connect()

    def _connect(self) -> None:
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, *, interrupt_on: str = "", silent: bool = False) -> str:
        """All text a cell shows; the kernel is interrupted when it shows a certain one.

        A silent one counts as no cell.
        """
        request = self.client.execute(code, silent=silent)
        parts: dict[str, str] = {}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            data = content.get("data", {})
            part = content.get("transient", {}).get("display_id", str(len(parts)))
            text = content.get("text", "") + data.get("text/plain", "")
            parts[part] = text + content.get("evalue", "")  # in place of an older one
            shown = "".join(parts.values())
            if interrupt_on and interrupt_on in shown:
                self.manager.interrupt_kernel()
                interrupt_on = ""
            if content.get("execution_state") == "idle":
                return shown
        raise AssertionError(f"the cell did not end; it showed {parts!r}")

    def outputs(self, code: str) -> list[dict[str, Any]]:
        """What a cell displays, by type."""
        request = self.client.execute(code)
        shown = []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            content = message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            is_comm = message["msg_type"].startswith("comm_")
            if "data" in content and not is_comm:
                shown.append(content["data"])
            if content.get("execution_state") == "idle":
                return shown

    def restart(self) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
