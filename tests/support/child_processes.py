"""Programs that tests start, and that must not outlive them."""

import shutil
from collections.abc import Iterable


def ending_with_us(command: Iterable[str]) -> list[str]:
    """The command, ended by the kernel should this process be killed.

    A killed pytest runs no teardown. Only Linux has `setpriv`; elsewhere the command
    is as it was.
    """
    setpriv = shutil.which("setpriv")
    guard = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
    return [*guard, *command]
