"""nbchat doctor, in processes and environments of its own."""

import contextlib
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from nbchat.cli.main import main
from nbchat.config.settings import TABLE
from nbchat.storage.store import SessionStore

REPOSITORY = Path(__file__).resolve().parents[2]

COMMAND = (
    "import sys; from nbchat.cli.main import main; sys.exit(main(['doctor', '--all']))"
)


def doctor(**environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the doctor in this process, which is quicker than in a new one."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["doctor", "--all"])
    return subprocess.CompletedProcess([], code, out.getvalue(), err.getvalue())


def doctor_process(
    *options: str, python: str = sys.executable, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run the doctor in a new process, where warnings reach stderr."""
    done = subprocess.run(
        [python, *options, "-c", COMMAND],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr
    return done


def row(done: "subprocess.CompletedProcess[str]", name: str) -> str:
    """The line of the report that begins with a name, with single blanks."""
    (found,) = [
        line for line in done.stdout.splitlines() if line.startswith(f"  {name} ")
    ]
    return " ".join(found.split())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "jupyter-config" / "nbchat_config.d"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.slow
def test_every_setting_is_reported_with_its_value_and_origin(site):
    file = site / "50-hub.json"
    values = {"NbChat": {"max_steps": 7, "policy": "tiered"}, "locked": ["policy"]}
    file.write_text(json.dumps(values))
    store = SessionStore()
    store.set_setting("", "attempts", 3)
    store.set_setting("openai", "max_output_tokens", 900)
    store.set_setting("openai:gpt-5", "window", 8_000)
    store.set_setting("openai:gpt-5-nano", "window", 5)
    store.set_setting("", "policy", "off")
    done = doctor_process(
        NBCHAT_MODEL="openai:gpt-5",
        NBCHAT_POLICY="off",
        NBCHAT_SYSTEM_PROMPT="one\ntwo " + "x" * 99,
        OPENAI_API_KEY="sk-secret-1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    origins = {
        "max_steps": f"7 site file {file}",
        "policy": f"tiered site file {file}",
        "attempts": "3 set for all models",
        "max_output_tokens": "900 set for openai",
        "window": "8000 set for openai:gpt-5",
        "model": "openai:gpt-5 environment variable NBCHAT_MODEL",
        "tokenizer": "tiktoken default",
        "summary_prompt": "- default",
        "model for new chats": "openai:gpt-5",
        "openai": "set in OPENAI_API_KEY",
        "gemini": "not set (GEMINI_API_KEY or GOOGLE_API_KEY)",
        "local": "no key needed",
        "writable": "yes, 0 sessions stored",
    }
    for name, text in origins.items():
        if name not in ("policy", "openai", "model"):
            assert row(done, name) == f"{name} {text}"
    assert (
        "openai:gpt-5                              environment variable" in done.stdout
    )
    assert "policy                   tiered" in done.stdout
    assert (
        f"Locked settings\n  policy                   locked by {file}" in done.stdout
    )
    assert "set in OPENAI_API_KEY" in done.stdout
    assert row(done, "system_prompt").startswith("system_prompt one two xxx")
    assert f"policy is locked by {file}, so another value has no effect" in done.stderr


def test_no_part_of_a_key_or_password_is_shown():
    done = doctor(
        ANTHROPIC_API_KEY="sk-ant-1234567890",
        GOOGLE_API_KEY="AIza-0987",
        NBCHAT_BASE_URL="http://me:hunter2@models.example/v1?key=swordfish",
        NBCHAT_SYSTEM_PROMPT="use sk-ant-1234567890",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for secret in ("1234567890", "sk-ant", "AIza", "0987", "hunter2", "swordfish"):
        assert secret not in done.stdout + done.stderr
    assert "http://models.example/v1 " in done.stdout
    assert "use ***" in done.stdout
    assert "set in GOOGLE_API_KEY" in done.stdout


def test_a_broken_site_file_is_one_line_and_the_report_continues(site):
    (site / "10-broken.json").write_text("{")
    done = doctor()
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("nbchat: Found a problem. ")
    assert "10-broken.json isn't JSON" in line
    assert "Versions\n  python" in done.stdout
    assert "not set (ANTHROPIC_API_KEY)" in done.stdout


def test_problems_are_listed_and_counted(tmp_path):
    (tmp_path / "file").write_text("")
    done = doctor(
        NBCHAT_MODEL="openai:gpt-5",
        NBCHAT_STORE_URL=f"sqlite:///{tmp_path}/file/sessions.db",
    )
    assert done.returncode == 1
    _, store, model = done.stdout.split("\n\n")[0].splitlines()
    assert store.startswith("  The database failed (")
    assert model.startswith("  OpenAI needs an API key. Set OPENAI_API_KEY")
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("nbchat:")]
    assert line.endswith("And 1 more, see above.")


def test_the_first_screen_says_what_is_wrong_and_what_is_set(capsys, monkeypatch):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:gpt-5.6-lunna")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1234567")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "Problems"
    assert "isn't a known model. Did you mean" in shown.partition("Settings")[0]
    assert "openai                   set in OPENAI_API_KEY" in shown
    assert "summary_prompt" not in shown
    assert "gemini" not in shown
    assert lines[-1] == "nbchat doctor --all shows the rest."
    assert len(lines) <= 24
    assert "1234567" not in shown


@pytest.mark.slow
def test_a_report_to_attach_has_no_key_name_folder_or_prompt(
    tmp_path, capsys, monkeypatch
):
    secrets = {
        "NBCHAT_SYSTEM_PROMPT": "You work for Acme on project Falcon.",
        "NBCHAT_BASE_URL": "http://ann:hunter2@models.example/v1",
        "OPENAI_API_KEY": "sk-secret-1234567",
        "NBCHAT_MODEL": "openai:m",
        "NBCHAT_OWNER": "Ann Lee",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "report.txt"
    assert main(["doctor", "--report", str(file)]) == 0
    assert f"Saved {file}" in capsys.readouterr().out
    report = file.read_text()
    for secret in ("Falcon", "hunter2", "1234567", "Ann Lee", str(Path.home())):
        assert secret not in report
    assert "http://models.example/v1" in report
    assert "system_prompt            (not in this report)" in report
    assert "Versions" in report
    assert main(["doctor", "--report", str(tmp_path / "no" / "file")]) == 1


@pytest.mark.slow
def test_the_password_of_a_database_is_not_shown():
    done = doctor(NBCHAT_STORE_URL="postgresql://me:hunter2@127.0.0.1:1/chats")
    assert done.returncode == 1
    assert "postgresql://me:***@127.0.0.1:1/chats" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("store_url", "the password hunter2@host"),
        ("base_url", "ann:hunter2@host:80"),
        ("summary_prompt", "see http://ann:hunter2@host"),
    ],
)
def test_a_password_in_what_is_no_address_is_not_shown(name, text):
    done = doctor(NBCHAT_MODEL="ollama:m", **{f"NBCHAT_{name.upper()}": text})
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("place", ["2@127.0.0.1:1/chats", "2/x@127.0.0.1:1/chats"])
def test_a_password_with_an_unescaped_at_is_not_shown_in_part(place):
    done = doctor(
        NBCHAT_STORE_URL=f"postgresql://me:hunter@{place}",
        NBCHAT_BASE_URL="http://me:hunter/2@models.example/v1",
    )
    assert done.returncode == 1
    assert "In a password, write @ as %40" in done.stderr
    assert "hunter" not in done.stdout + done.stderr
    assert "2@" not in done.stdout + done.stderr
    assert "http://models.example/v1 " in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "isn't a valid database URL"),
        ("postgresql+nodriver://127.0.0.1/chats", "NoSuchModuleError|load plugin"),
        ("mysql://127.0.0.1/chats", "No module named 'MySQLdb'"),
    ],
)
def test_an_invalid_database_address_is_one_line(url, said):
    done = doctor(NBCHAT_STORE_URL=url)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert re.search(f"nbchat: Found a problem. .*{said}", line)


def test_a_read_only_store_is_a_problem(tmp_path):
    file = tmp_path / "sessions.db"
    SessionStore(f"sqlite:///{file}").sessions()
    done = doctor(NBCHAT_STORE_URL=f"sqlite:///file:{file}?mode=ro&uri=true")
    assert done.returncode == 1
    assert "attempt to write a readonly database" in done.stderr


def test_a_variable_that_is_no_setting_is_a_problem_with_the_nearest_name():
    done = doctor(NBCHAT_EFORT="5", CHATBOT_USE_TIKTOKEN="true")
    assert done.returncode == 1
    assert "No setting named NBCHAT_EFORT. Did you mean NBCHAT_EFFORT?" in done.stdout
    assert (
        "nbchat doesn't use CHATBOT_USE_TIKTOKEN. Set NBCHAT_TOKENIZER" in done.stdout
    )


def test_checking_a_store_leaves_nothing_in_it():
    assert doctor().returncode == 0
    store = SessionStore()
    with contextlib.closing(sqlite3.connect(store.location)) as database:
        tables = ("sessions", "chat_messages", "session_snapshots", "settings")
        rows = [database.execute(f"SELECT * FROM {t}").fetchall() for t in tables]
    assert rows == [[], [], [], []]


def test_what_is_known_of_the_model_is_reported_with_its_source():
    done = doctor(NBCHAT_MODEL="openai:gpt-5.4-mini", OPENAI_API_KEY="sk-secret-1")
    rows = {
        "context window": "400,000 tokens, from the package genai-prices",
        "largest request": "272,000 tokens, from the provider's documentation",
        "longest answer": "128,000 tokens, from the provider's documentation",
        "retirement": "none known",
    }
    for name, text in rows.items():
        assert row(done, name) == f"{name} {text}"
    assert re.match(r"prices \$0\.\d+ in, \$\d", row(done, "prices"))


def test_a_retired_model_is_a_problem_that_names_its_successor():
    done = doctor(NBCHAT_MODEL="openai:gpt-4-turbo", OPENAI_API_KEY="sk-secret-1")
    assert done.returncode == 1
    line = "gpt-4-turbo was retired on 2026-10-23. Use gpt-6-luna"
    assert line in done.stdout


@pytest.mark.slow
def test_a_model_with_a_typo_is_a_problem_that_names_the_nearest():
    done = doctor(NBCHAT_MODEL="openai:gpt-5.6-lunna", OPENAI_API_KEY="sk-secret-1")
    assert done.returncode == 1
    assert "gpt-5.6-lunna isn't a known model. Did you mean gpt-5.6-luna" in done.stdout
    unlike = doctor(NBCHAT_MODEL="openai:zebra", OPENAI_API_KEY="sk-secret-1")
    assert "Did you mean" not in unlike.stdout


def test_a_missing_embedded_model_is_reported(tmp_path):
    done = doctor(XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0
    assert "downloads at first use (93 MB)" in row(done, "embedded model")
    assert row(done, "model for new chats") == "model for new chats local:smollm2"


@pytest.mark.slow
def test_without_xllamacpp_the_embedded_model_is_a_problem(
    tmp_path,
):
    """A Python that sees every package of this one but a single one."""
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "xllamacpp" not in package.name:
            (tmp_path / package.name).symlink_to(package)
    paths = os.pathsep.join([str(REPOSITORY), str(tmp_path)])
    done = doctor_process("-S", python=sys._base_executable, PYTHONPATH=paths)
    assert done.returncode == 1
    assert "local:smollm2 needs the package xllamacpp. Run: pip install" in done.stderr
    assert row(done, "xllamacpp") == "xllamacpp not installed"


@pytest.mark.slow
def test_the_state_of_the_server_extension_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")  # else the environment's wins
    folder = tmp_path / "jupyter-config" / "jupyter_server_config.d"
    folder.mkdir(parents=True)
    packaged = (REPOSITORY / "jupyter-config/server-config/nbchat.json").read_text()
    (folder / "nbchat.json").write_text(packaged.replace("true", "false"))
    assert row(doctor(), "enabled") == "enabled no"
    (folder / "nbchat.json").write_text(packaged)
    assert row(doctor(), "enabled") == "enabled yes"


@pytest.mark.parametrize(
    ("version", "is_warned_of"), [("7.3.1", True), ("7.4.0", False), ("6.31.0", False)]
)
def test_an_unresponsive_ipykernel_is_reported_with_the_upgrade(
    tmp_path, monkeypatch, version, is_warned_of
):
    folder = tmp_path / f"ipykernel-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: ipykernel\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = doctor()
    assert done.returncode == 0
    assert row(done, "ipykernel") == f"ipykernel {version}"
    assert ('pip install -U "ipykernel>=7.4"' in done.stdout) is is_warned_of


def test_the_report_lists_exactly_the_settings_of_the_table():
    text = doctor().stdout.partition("Settings\n")[2].partition("\nLocked settings")[0]
    assert [line.split()[0] for line in text.splitlines()] == [*TABLE, "IPython's"]
