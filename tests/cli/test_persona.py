"""The persona of jupyter-ai: found by its entry point, answered by `nbchat acp`.

jupyter-ai itself is not installed with the tests; `tests/benchmarks/jupyter_ai.py`
asks the persona in a real JupyterLab. Here small packages have its two names.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PERSONA_MANAGER = """
class PersonaRequirementsUnmet(RuntimeError):
    pass

class PersonaDefaults(dict):
    def __init__(self, **values):
        super().__init__(values)
"""
ACP_PERSONA = """
class BaseAcpPersona:
    def __init__(self, *args, executable):
        self.executable = executable
"""
SCRIPT = """
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

module, name = sys.argv[1].split(":")
persona = getattr(import_module(module), name)("a chat")
assert Path(persona.defaults["avatar_path"]).read_text().startswith("<svg")
request = '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}'
done = subprocess.run(persona.executable, input=request + "\\n", capture_output=True, text=True)
print(persona.defaults["name"], done.stdout)
"""


@pytest.mark.slow
def test_the_entry_point_is_a_persona_whose_program_speaks_the_protocol(tmp_path):
    (tmp_path / "jupyter_ai_persona_manager.py").write_text(PERSONA_MANAGER)
    (tmp_path / "jupyter_ai_acp_client").mkdir()
    (tmp_path / "jupyter_ai_acp_client" / "base_acp_persona.py").write_text(ACP_PERSONA)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry_point = project["entry-points"]["jupyter_ai.personas"]["nbchat"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, entry_point],
        env={
            "PYTHONPATH": f"{ROOT}:{tmp_path}",
            "HOME": str(tmp_path),
            "NBCHAT_STORE_URL": f"sqlite:///{tmp_path / 'chats.db'}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nbchat ")
    assert '"agentInfo"' in done.stdout
