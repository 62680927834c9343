"""Choose ports that no other program is given before they are used."""

import random
import socket

NEVER_CHOSEN = range(10_000, 32_000)
"""Below the ports that an operating system chooses itself."""


def free_port() -> int:
    """A free port of this machine, at random, so that tests side by side differ."""
    while True:
        port = random.choice(NEVER_CHOSEN)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
