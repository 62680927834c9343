"""Execute a notebook with values for the cell that is tagged `parameters`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import papermill
from papermill.exceptions import PapermillException, PapermillExecutionError

from nbchat.errors import NbchatError


def run_notebook(file: Path, output: Path, parameters: Mapping[str, str]) -> None:
    """Execute a copy of a notebook and save it as `output`, also if a cell fails.

    A value is read as JSON, and is a text where it is none. Raises NbchatError in one
    line for a notebook without a `parameters` cell, and for a cell that fails.
    """
    try:
        book = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it's not a notebook"
        raise NbchatError(f"Can't read {file}: {reason}") from None
    tags = [tag for cell in book.cells for tag in cell.metadata.get("tags", [])]
    if parameters and "parameters" not in tags:
        raise NbchatError(
            f"{file} has no cell tagged `parameters`. Tag one, or leave out -p."
        )
    values = {name: _value(text) for name, text in parameters.items()}
    spec = book.metadata.get("kernelspec", {})
    kernel, language = spec.get("name", "python3"), spec.get("language", "python")
    try:
        papermill.execute_notebook(
            str(file),
            str(output),
            values,
            kernel_name=kernel,
            language=language,
            cwd=str(Path.cwd()),
        )
    except PapermillExecutionError as error:
        raise NbchatError(
            f"A cell failed: {error.ename}: {error.evalue}. See {output}."
        ) from None
    except (PapermillException, OSError) as error:
        raise NbchatError(f"{file} can't run: {error}") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
