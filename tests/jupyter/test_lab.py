"""The extension of JupyterLab, as it was built. What it does: tests/browser/test_beside."""

import hashlib
import json
import re
from pathlib import Path

import nbchat
from nbchat.jupyter import magics

FOLDER = Path(magics.__file__).parent / "lab"
BUILT = FOLDER / "labextension"
(SCRIPT,) = (BUILT / "static").iterdir()


def test_the_extension_is_made_from_its_modules_as_they_are():
    modules = sorted((FOLDER / "src").glob("*.js"))
    others = [
        FOLDER / each for each in ("build.mjs", "schema/plugin.json", "style.css")
    ]
    whole = b"".join(file.read_bytes() for file in [*modules, *others])
    header = SCRIPT.read_text(encoding="utf-8").partition("\n")[0]
    hint = "cd nbchat/jupyter/panel/frontend && npm install && npm run build"
    assert hashlib.sha256(whole).hexdigest() in header, hint


def test_jupyterlab_finds_one_small_file_of_this_version():
    about = json.loads((BUILT / "package.json").read_text())
    assert about["version"] == nbchat.__version__
    assert BUILT / about["jupyterlab"]["_build"]["load"] == SCRIPT
    assert SCRIPT.stat().st_size < 20_000


def test_it_asks_kernels_for_a_function_that_exists_and_contacts_no_server():
    script = SCRIPT.read_text(encoding="utf-8")
    for name in (magics.__name__, magics.open_beside.__name__):
        assert name in script
    assert not re.search(r"fetch\(|XMLHttp|sendBeacon|Socket|EventSource", script)
