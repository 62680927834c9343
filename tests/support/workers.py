"""How the tests are shared out when several processes run them (`pytest -n 2`)."""

from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/browser/", "tests/jupyter/test_kernel_versions.py")
"""One process has all of these: they share a server and a page, or measure time."""


class Shares(LoadScopeScheduling):
    """The browser's tests to one process, all others as processes are free.

    The marker `xdist_group` would say the same, but has no effect under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "together" if nodeid.startswith(TOGETHER) else nodeid
