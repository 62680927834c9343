"""`nbchat run`: a notebook with other values of its parameters, in a real kernel."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from nbchat.cli.main import main


def write(file, *sources: str, tags: tuple[str, ...] = ("parameters",)) -> str:
    first, *others = sources
    cells = [new_code_cell(first, metadata={"tags": list(tags)})]
    nbformat.write(new_notebook(cells=cells + [new_code_cell(s) for s in others]), file)
    return str(file)


@pytest.mark.slow
def test_parameters_replace_the_values_of_the_tagged_cell(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    book = write(tmp_path / "book.ipynb", "count, name = 1, 'a'", "print(name * count)")
    assert main(["run", book, "-p", "count", "3", "-p", "name", "ab"]) == 0
    saved = tmp_path / "book-executed.ipynb"
    assert str(saved) in capfd.readouterr().out
    executed = nbformat.read(saved, as_version=4)
    assert executed.cells[-1].outputs[0].text == "ababab\n"
    assert nbformat.read(book, as_version=4).cells[-1].outputs == []


@pytest.mark.slow
def test_a_cell_that_fails_is_one_line_and_the_notebook_is_saved(tmp_path, capfd):
    book = write(tmp_path / "book.ipynb", "count = 1", "1 / 0")
    output = tmp_path / "out.ipynb"
    assert main(["run", book, "--output", str(output)]) == 1
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith("nbchat: A cell failed: ZeroDivisionError")
    assert str(output) in said
    assert output.exists()


@pytest.mark.slow
def test_a_notebook_without_the_tag_is_refused(tmp_path, capsys):
    book = write(tmp_path / "book.ipynb", "count = 1", tags=())
    assert main(["run", book, "-p", "count", "3"]) == 1
    assert "no cell tagged `parameters`" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, "not a notebook"])
def test_a_file_that_is_no_notebook_is_one_line(tmp_path, capsys, content):
    file = tmp_path / "book.ipynb"
    if content is not None:
        file.write_text(content)
    assert main(["run", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"Can't read {file}" in error
    assert error.count("\n") == 1
