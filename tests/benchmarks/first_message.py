"""Gates P8 and P9: what loading costs, and how soon the first message is answered.

    python tests/benchmarks/first_message.py

Each run is a fresh Python with IPython in it: `%load_ext nbchat`, the panel, a view's
hello, so many seconds in which a person types, and a message to a server on this
machine that answers at once. Milliseconds from Enter to the first delta on its way to
the page, less the time the server took; medians and the slowest of five.

The figures are printed and never asserted: machines differ.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "support"))

RUNS = 5
TYPING_SECONDS = (3.0, 0.0)
KINDS = ("openai", "anthropic")


def main() -> None:
    """Print a line for each model and each time of typing."""
    for kind in KINDS:
        for seconds in TYPING_SECONDS:
            runs = [measured(kind, seconds) for _ in range(RUNS)]
            load = [run["load"] for run in runs]
            first = [run["first"] for run in runs]
            print(
                f"{kind:9}  %load_ext {told(load)}   first message after"
                f" {seconds:g} s of typing {told(first)}",
                flush=True,
            )


def told(figures: list[float]) -> str:
    """The median and the worst."""
    return f"{statistics.median(figures):6.1f} ms (at most {max(figures):6.1f})"


def measured(kind: str, typing_seconds: float) -> dict[str, float]:
    """The figures of a run in a Python of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, __file__, kind, str(typing_seconds)],
            env={
                **os.environ,
                "NBCHAT_STORE_URL": f"sqlite:///{folder}/chat.db",
                "OPENAI_API_KEY": "k",
                "ANTHROPIC_API_KEY": "k",
            },
            capture_output=True,
            text=True,
            check=True,
        )
    figures: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return figures


def one_run(kind: str, typing_seconds: float) -> None:
    """What `measured` starts."""
    import ipykernel.ipkernel  # noqa: F401  # a kernel has loaded it
    from fault_server import AnthropicDialect, FaultServer, OpenAIDialect
    from IPython.core.interactiveshell import InteractiveShell

    server = FaultServer()
    dialect = OpenAIDialect() if kind == "openai" else AnthropicDialect()
    server.script(*[dialect.text("Hello there.")] * 3)
    shell = InteractiveShell.instance()
    began = time.perf_counter()
    shell.run_line_magic("load_ext", "nbchat")
    load = time.perf_counter() - began
    path = "/v1" if kind == "openai" else ""
    shell.run_line_magic("config", f"NbChat.model = '{kind}:m'")
    shell.run_line_magic("config", f"NbChat.base_url = '{server.url}{path}'")
    shell.run_line_magic("config", "NbChat.window = 100_000")  # the server has no list
    panel = shell.run_line_magic("chat", "")
    sent: list[tuple[float, Any]] = []
    panel._sync._send = lambda content: sent.append((time.perf_counter(), content))
    panel.receive({"type": "hello"})
    time.sleep(typing_seconds)
    began = time.perf_counter()
    panel.receive({"type": "send", "text": "Hello?"})
    panel.wait(60)
    time.sleep(0.3)
    texts = ('"op": "text"', '"op": "block"')
    first = next(
        moment
        for moment, content in sent
        if any(text in json.dumps(content) for text in texts)
    )
    served = own_time(server.url + path, dialect.text("Hello there."), server)
    figures = {"load": 1e3 * load, "first": 1e3 * (first - began - served)}
    print("\n" + json.dumps(figures), flush=True)
    os._exit(0)


def own_time(url: str, response: Any, server: Any) -> float:
    """Seconds the server takes for an answer that a plain client reads."""
    import urllib.request

    server.script(response)
    request = urllib.request.Request(f"{url}/x", b"{}", {"Content-Length": "2"})
    began = time.perf_counter()
    with urllib.request.urlopen(request) as answered:
        answered.read()
    return time.perf_counter() - began


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_run(sys.argv[1], float(sys.argv[2]))
    main()
