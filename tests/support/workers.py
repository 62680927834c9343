"""How several processes share the tests (`pytest -n 2`)."""

from collections.abc import Mapping

from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/browser/", "tests/jupyter/test_kernel_versions.py")
"""One process runs all of these: they share a server and a browser, or measure time."""

BY_FILE = (
    "tests/agent/test_live_output.py",
    "tests/agent/test_mcp.py",
    "tests/agent/test_telemetry.py",
    "tests/jupyter/test_kernel.py",
    "tests/jupyter/test_notebook_mcp.py",
    "tests/jupyter/test_server.py",
    "tests/storage/test_large.py",
    "tests/storage/test_migrations.py",
    "tests/storage/test_owners.py",
    "tests/storage/test_postgres.py",
    "tests/storage/test_redaction.py",
    "tests/test_architecture.py",
    "tests/test_docs.py::test_the_",
    "tests/test_package.py",
)
"""One process runs all such tests of a file: they share what is slow to start."""

EMBEDDED = (
    "tests/providers/test_connect.py::test_a_real_llama",
    "tests/providers/test_llama_cpp.py",
    "tests/providers/test_local.py",
    "tests/providers/test_openai_responses.py::test_a_real_llama",
)
"""One process runs all of these: they share the embedded model."""


class Shares(LoadScopeScheduling):
    """The browser's tests to one process, all others as processes are free.

    The marker `xdist_group` would say the same, but has no effect under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(TOGETHER):
            return "together"
        if nodeid.startswith(EMBEDDED):
            return "embedded"
        return nodeid.partition("::")[0] if nodeid.startswith(BY_FILE) else nodeid

    @staticmethod
    def _pending_of(workload: Mapping[str, Mapping[str, bool]]) -> int:
        """The tests that a process has not finished, which were given to it last.

        Counting all of them after each test takes a second.
        """
        pending = 0
        for unit in reversed(workload.values()):
            left = sum(not is_done for is_done in unit.values())
            if not left:
                break
            pending += left
        return pending
