"""JupyterLab whose kernels are forked from a process that has imported nbchat already.

`python -m forked_kernels` takes the options of `python -m jupyterlab`. Starting a kernel,
a panel in it and ending it takes 0.7 s of computing in place of 2.3 s. The tests in
`tests/jupyter` start kernels as users do.
"""

import asyncio
import atexit
import gc
import multiprocessing
import os
import sys
import threading
from importlib.metadata import EntryPoint
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

IMPORTED = (
    "forked_kernels",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "nbchat.jupyter.magics",
    "nbchat.jupyter.panel.chat_ui",
    "nbchat.providers.openai_chat",
    "nbchat.testing",
    "warm_tokens",
)
"""Modules that kernels need. Importing them starts no thread and reads no setting."""


def main() -> NoReturn:
    """Run JupyterLab."""
    from jupyterlab.labapp import LabApp

    multiprocessing.get_context("forkserver").set_forkserver_preload([*IMPORTED])
    group = KernelProvisionerFactory.GROUP_NAME
    value = f"forked_kernels:{ForkedProvisioner.__name__}"
    KernelProvisionerFactory.provisioners["forked"] = EntryPoint("forked", value, group)
    os.environ[KernelProvisionerFactory.default_provisioner_name_env] = "forked"
    sys.exit(LabApp.launch_instance())


class ForkedProvisioner(LocalProvisioner):
    """Forks kernels in place of starting Python for each."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> Any:
        """Start the kernel of a command `python ... -m ipykernel_launcher ...`."""
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        started = multiprocessing.get_context("forkserver").Process(
            target=run_kernel, args=(arguments, options["env"], options.get("cwd"))
        )
        await asyncio.to_thread(started.start)  # the first one imports for a second
        self.process = ForkedKernel(started)  # type: ignore[assignment]
        self.pid = self.pgid = started.pid
        return self.connection_info


class ForkedKernel:
    """A running kernel with the methods of `subprocess.Popen` that jupyter_client calls."""

    stdin = stdout = stderr = None

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


def run_kernel(
    arguments: list[str], environment: dict[str, str], folder: str | None
) -> NoReturn:
    """Be a kernel to its end, in a process group of its own."""
    from ipykernel.kernelapp import launch_new_instance

    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop(KernelProvisionerFactory.default_provisioner_name_env)
    os.chdir(folder or Path.cwd())
    sys.argv = ["ipykernel_launcher", *arguments]
    gc.freeze()  # else each collection looks at all that was imported
    try:
        launch_new_instance()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        os._exit(0)  # nothing is freed object by object, which takes half a second


if __name__ == "__main__":
    main()
