"""The command line: the demo for real, and one line for what cannot be."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from nbchat.cli import _copied, main, require
from nbchat.errors import ConfigError


def nbchat(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own, as from a shell."""
    command = "import sys; from nbchat.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", command, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_the_demo_triages_tickets_compacts_and_says_what_happened(tmp_path: Path):
    """The README's first command, with fewer tickets, from another folder."""
    done = nbchat("demo", "--tickets", "3", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 tickets, model local:smollm2" in done.stdout
    assert "tickets handled   3 in" in done.stdout
    assert "compaction 1" in done.stdout
    assert "3/3" in done.stdout  # the progress bar
    saved = tmp_path / "nbchat-demo" / "ticket_triage-executed.ipynb"
    assert str(saved) in done.stdout
    book = nbformat.read(saved, as_version=4)
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert "Compaction occurred" in saved.read_text(encoding="utf-8")


def test_a_number_of_tickets_that_cannot_be_is_one_line(capsys):
    assert main(["demo", "--tickets", "0"]) == 1
    assert "choose 1 to 30" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["demo", "--folder", str(file / "below")]) == 1
    error = capsys.readouterr().err
    assert "choose another with --folder" in error
    assert error.count("\n") == 1


def test_a_cell_that_fails_is_one_line_and_the_notebook_is_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("NBCHAT_MODEL", "openai:no-key")
    done = nbchat("demo", folder=tmp_path)
    assert done.returncode == 1
    assert "ConfigError" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "nbchat-demo" / "ticket_triage-executed.ipynb").exists()


def test_without_the_extra_one_line_says_what_to_install():
    with pytest.raises(ConfigError, match=r"need no_such_package; .*\[local\]"):
        require("pandas", "no_such_package")


def test_notebooks_of_the_user_are_never_written_over(tmp_path):
    (tmp_path / "quickstart.ipynb").write_text("mine")
    copies = _copied(("ticket_triage", "quickstart"), tmp_path)
    assert copies[0].read_text(encoding="utf-8").startswith("{")
    assert copies[1].read_text() == "mine"


def test_sessions_are_listed(capsys):
    assert main(["sessions"]) == 0
    assert capsys.readouterr().out == ""


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "demo" in capsys.readouterr().err
