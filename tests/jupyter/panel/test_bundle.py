import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from panel_protocol import FROM_VIEWS, PROTOCOL, is_valid
from playwright._impl._driver import compute_driver_executable

from nbchat.jupyter.panel import frontend

FOLDER = Path(frontend.__file__).parent
MODULES = sorted((FOLDER / "src").glob("*.js"))
UNIT_TESTS = sorted((Path(__file__).parent / "frontend").glob("*.test.mjs"))


def test_the_bundle_is_made_from_the_modules_as_they_are() -> None:
    files = [*MODULES, FOLDER / "package-lock.json", FOLDER / "../protocol.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    header = frontend.script().partition("\n")[0]
    hint = f"cd {FOLDER} && npm install && npm run build"
    assert digest in header, hint


def test_script_and_style_are_small_and_contact_only_their_own_server() -> None:
    others = r"https?://|@import|\bimport\b|url\(|XMLHttp|sendBeacon|Socket|EventSource"
    bundle = frontend.script()
    for text in (bundle, frontend.style()):
        assert len(text) < 150_000
        assert not re.search(others, text)
    assert re.findall(r"fetch\(.*?\)", bundle) == re.findall(
        r'fetch\(\w+,\{\.\.\.\w+,mode:"same-origin"\}\)', bundle
    )


def test_the_modules_send_and_apply_the_messages_of_the_protocol() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in MODULES)
    sent = set(re.findall(r'(?:send|ask|query)\(\{ type: "(\w+)"', text))
    assert sent == {each["properties"]["type"]["const"] for each in FROM_VIEWS}
    applied = re.findall(r'if \(op === "(\w+)"\)', text)
    known = re.findall(r'"op": \{"const": "(\w+)"', json.dumps(PROTOCOL))
    assert known
    assert sorted(applied) == sorted(known)
    assert is_valid({"type": "resync", "seq": -1}, "view_to_kernel")
    assert not is_valid({"type": "send", "text": "", "id": "x"}, "view_to_kernel")


@pytest.mark.slow
@pytest.mark.parametrize("file", UNIT_TESTS, ids=lambda file: file.name)
def test_what_needs_no_browser_passes_in_node(file: Path) -> None:
    node, _ = compute_driver_executable()  # Playwright brings one
    done = subprocess.run(
        [node, "--test", file], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
