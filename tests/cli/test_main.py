"""The `nbchat` command: the demo as a process, and one line for each error."""

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import nbformat
import pytest
from child_processes import ending_with_us
from fault_server import OpenAIDialect
from hosted_model import HostedModel

from nbchat import __version__ as nbchat_version
from nbchat.cli.main import _copied, _prepared_model, lab_command, main, require
from nbchat.conversation.session import Session
from nbchat.errors import ConfigError
from nbchat.providers.model_download import model_file
from nbchat.storage.autosave import save_session
from nbchat.storage.export import VERSION, exported
from nbchat.storage.schema import VERSIONS
from nbchat.storage.store import SessionStore


def nbchat(
    *arguments: str, folder: Path, in_terminal: bool = False
) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, as from a shell."""
    code = "import sys; from nbchat.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *arguments]
    if in_terminal:
        wide = f"stty rows 40 columns 160; {shlex.join(command)}"
        command = ["script", "-qec", wide, "/dev/null"]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.slow
def test_the_demo_triages_tickets_compacts_and_says_what_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """From another folder, on a model that answers at once.

    `test_notebooks.py` runs the same notebook on the embedded model.
    """
    server = HostedModel(OpenAIDialect())
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    done = nbchat("demo", "--tickets", "4", folder=tmp_path, in_terminal=True)
    server.close()
    assert done.returncode == 0, done.stdout
    assert "4 tickets, model openai:" in done.stdout
    assert "tickets closed    4 in" in done.stdout
    assert "compaction 1" in done.stdout
    shown = [*re.finditer(r"(\d+)/(\d+) .*?4 of 4 tickets", done.stdout)]  # the bar
    assert int(shown[0][1]) < int(shown[0][2])  # the last cells take time, too
    assert shown[-1][1] == shown[-1][2]
    assert "openai:gpt-6-luna: 1 of 4 categories right\n" in done.stdout
    assert "of 50 held-out tickets right" in done.stdout.splitlines()[-1]
    saved = tmp_path / "nbchat-demo" / "ticket_triage-executed.ipynb"
    assert str(saved) in done.stdout
    book = nbformat.read(saved, as_version=4)
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    text = saved.read_text(encoding="utf-8")
    assert "1 of 4 categories right" in text
    assert "Compaction occurred" in text
    assert "sk-test" not in text


@pytest.mark.slow
def test_without_a_key_the_demo_runs_on_the_embedded_model():
    model_file("smollm2")  # downloads it, if no test has done so
    assert _prepared_model() == "local:smollm2"


@pytest.mark.slow
def test_commands_without_a_notebook_do_not_load_what_runs_notebooks():
    command = "import sys, nbchat.cli.main; print([*sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert "'nbchat.cli.main'" in done.stdout
    for library in ("nbformat", "nbconvert", "nbclient", "IPython"):
        assert f"'{library}'" not in done.stdout


def test_an_invalid_number_of_tickets_is_one_line(capsys):
    for number in ("0", "3", "51"):
        assert main(["demo", "--tickets", number]) == 1
        assert "Choose 4 to 50" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["demo", "--folder", str(file / "below")]) == 1
    error = capsys.readouterr().err
    assert "Choose another with --folder" in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_cell_that_fails_is_one_line_and_the_notebook_is_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:no-key")
    done = nbchat("demo", folder=tmp_path)
    assert done.returncode == 1
    assert "ConfigError" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "tickets," not in done.stdout.replace(
        "tickets, model", ""
    )  # no bar in a file
    assert (tmp_path / "nbchat-demo" / "ticket_triage-executed.ipynb").exists()


def test_without_the_extra_one_line_says_what_to_install():
    with pytest.raises(ConfigError, match=r"need no_such_package. .*\[local\]"):
        require("pandas", "no_such_package")


def test_existing_notebooks_are_never_overwritten(tmp_path):
    (tmp_path / "quickstart.ipynb").write_text("mine")
    copies = _copied(("ticket_triage", "quickstart"), tmp_path)
    assert copies[0].read_text(encoding="utf-8").startswith("{")
    assert copies[1].read_text() == "mine"


def test_sessions_are_listed(capsys):
    assert main(["sessions"]) == 0
    assert capsys.readouterr() == ("", "There are no sessions.\n")
    assert main(["sessions", "--before", "s1"]) == 0
    assert capsys.readouterr().err == "There are no sessions before s1.\n"


def test_a_session_with_an_odd_title_is_listed(capsys):
    save_session(SessionStore(), Session([("user", "a\ud800 b")], session_id="odd"))
    assert main(["sessions"]) == 0
    assert capsys.readouterr().out.endswith("1  a\ufffd b\n")
    assert main(["export", "\udcff", "--to", "md"]) == 1


def test_without_a_command_the_commands_are_listed(capsys):
    assert main([]) == 2
    assert "\n    demo " in capsys.readouterr().err


def saved(*entries: tuple[str, str], session_id: str) -> Session:
    session = Session(entries, session_id=session_id, pins=["Be kind."])
    save_session(SessionStore(), session)
    return session


@pytest.mark.slow
def test_a_session_is_exported_and_imported_under_another_id(tmp_path, capsysbinary):
    session = saved(("user", "hi \ud800"), ("assistant", "ho"), session_id="s1")
    for form in ("json", "ipynb"):
        file = tmp_path / f"session.{form}"
        assert main(["export", "s1", "--to", form, "--output", str(file)]) == 0
        assert main(["import", str(file), "--accept"]) == 0
        new_id = capsysbinary.readouterr().out.split()[0].decode()
        assert new_id != "s1"
        again = SessionStore().load(new_id)
        assert (again.transcript, again.pins) == (session.transcript, session.pins)
    assert len(SessionStore().sessions()) == 3


@pytest.mark.slow
def test_an_imported_session_keeps_its_id_unless_it_is_taken(
    tmp_path, monkeypatch, capsys
):
    saved(("user", "hi"), session_id="s1")
    file = tmp_path / "session.json"
    assert main(["export", "s1", "--to", "json", "--output", str(file)]) == 0
    monkeypatch.setenv("NBCHAT_STORE_URL", f"sqlite:///{tmp_path / 'other.db'}")
    assert main(["import", str(file), "--accept"]) == 0
    assert capsys.readouterr().out == "s1  1 messages\n"
    hostile = json.loads(file.read_text()) | {"session_id": "../../x"}
    file.write_text(json.dumps(hostile))
    assert main(["import", str(file), "--accept"]) == 0
    assert ".." not in capsys.readouterr().out


def test_an_export_without_a_file_is_printed(tmp_path, capsysbinary):
    saved(("user", "hi"), ("assistant", "**ho**"), session_id="s1")
    assert main(["export", "s1", "--to", "md"]) == 0
    shown = capsysbinary.readouterr().out.decode()
    assert shown == "# hi\n\n## You\n\nhi\n\n## Assistant\n\n**ho**\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["export", "s2", "--to", "md"],
            "There's no session 's2'. nbchat sessions lists yours.",
        ),
        (["export", "s1", "--to", "md", "--output", "/dev/null/x"], "Can't write"),
        (["import", "no-such-file.json"], "Can't read no-such-file.json: No such"),
        (["import", "binary.json"], "Can't read binary.json: it's not UTF-8"),
        (["import", "other.json"], "This isn't an exported session"),
        (["import", "/dev/zero"], "/dev/zero is larger than 256,000,000 bytes"),
        (["import", "empty.json"], "a session without messages"),
    ],
)
def test_an_export_or_import_that_fails_is_one_line(
    tmp_path, monkeypatch, capsys, command, said
):
    monkeypatch.chdir(tmp_path)
    Path("binary.json").write_bytes(b"\xff\xfe")
    Path("other.json").write_text("{}")
    Path("empty.json").write_text(exported(Session(), "json"))
    saved(("user", "hi"), session_id="s1")
    assert main(command) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_sessions_are_listed_from_the_store_of_the_site_file(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "jupyter-config" / "nbchat_config.d"
    folder.mkdir(parents=True)
    url = f"sqlite:///{tmp_path / 'hub.db'}"
    (folder / "50-hub.json").write_text(json.dumps({"NbChat": {"store_url": url}}))
    save_session(SessionStore(url), Session([("user", "hello hub")], session_id="h1"))
    assert main(["sessions"]) == 0
    assert "hello hub" in capsys.readouterr().out


def test_the_version_is_printed_with_those_of_the_database_and_of_files(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    shown = (
        f"nbchat {nbchat_version} (database {VERSIONS[-1]}, exported files {VERSION})"
    )
    assert capsys.readouterr().out == f"{shown}\n"


@pytest.mark.slow
def test_jupyterlab_gets_its_own_options(tmp_path: Path, capfd):
    assert main(["lab", "--folder", str(tmp_path), "--version"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == version("jupyterlab")


def test_an_unknown_option_of_another_command_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--no-browser"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --no-browser" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["sesions"], "there's no 'sesions'. Did you mean sessions?"),
        (["x"], "there's no 'x'. Choose one of demo, lab, run"),
        (["export", "s1", "--to", "htm"], "there's no 'htm'. Did you mean html?"),
    ],
)
def test_a_mistyped_word_names_the_nearest(capsys, typed: list[str], said: str):
    with pytest.raises(SystemExit) as ended:
        main(typed)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.kernel
def test_the_address_that_jupyterlab_prints_opens_the_notebook(tmp_path: Path):
    notebook = tmp_path / "two words.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), notebook)
    server = subprocess.Popen(
        ending_with_us([*lab_command(notebook), "--no-browser", "--ServerApp.port=0"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with server:
        lines = iter(server.stdout.readline, "")
        address = next(line for line in lines if "?token=" in line)
        server.terminate()
        server.stdout.read()
    assert "/lab/tree/two%20words.ipynb?token=" in address
