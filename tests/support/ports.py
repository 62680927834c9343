"""Ports that nobody takes between the moment they are chosen and their use."""

import random
import socket

NEVER_CHOSEN = range(10_000, 32_000)
"""Below the ports that an operating system gives to who asks for any."""


def free_port() -> int:
    """A free port of this machine, which no test beside this one is given."""
    while True:
        port = random.choice(NEVER_CHOSEN)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
