"""nbchat where an operating system has no POSIX modules, as on Windows."""

import pkgutil
import subprocess
import sys

import pytest

import nbchat

HIDDEN = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
"""Modules of the standard library that only POSIX systems have."""

MISSING = ("fork", "getuid", "geteuid", "getgid", "mkfifo", "killpg", "setsid")
"""Functions of `os` that only POSIX systems have."""

NEEDS_JUPYTER_AI = "nbchat.cli.persona"
"""Imported by jupyter-ai alone, which is no dependency of the tests."""

IMPORT_ALL = f"""
import importlib, os, socket, sys
names = sys.argv[1:]
for name in names:  # with the packages that it needs, which ask for the system's name
    importlib.import_module(name)
for name in [each for each in sys.modules if each.partition(".")[0] == "nbchat"]:
    del sys.modules[name]
for name in {HIDDEN!r}:
    sys.modules[name] = None
for name in {MISSING!r}:
    delattr(os, name)
del socket.AF_UNIX
for name in names or {HIDDEN!r}:
    importlib.import_module(name)
"""


def modules() -> list[str]:
    found = pkgutil.walk_packages(nbchat.__path__, "nbchat.")
    return [each.name for each in found if each.name != NEEDS_JUPYTER_AI]


def importing(names: list[str]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", IMPORT_ALL, *names]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_module_is_imported_without_the_modules_that_only_posix_has():
    done = importing(modules())
    assert done.returncode == 0, done.stderr[-2_000:]


def test_a_module_that_only_posix_has_would_be_noticed():
    assert "import of fcntl halted" in importing([]).stderr
