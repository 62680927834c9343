"""Writes `.ci/recipe.yaml`, the recipe for conda-forge, from `pyproject.toml`."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]

ARCHIVE = (
    "https://pypi.org/packages/source/j/jupyter-nbchat/"
    "jupyter_nbchat-${{ version }}.tar.gz"
)

RECIPE = """\
# For conda-forge. .ci/conda_recipe.py makes it from pyproject.toml.
# A release replaces the checksum by that of its source archive.
schema_version: 1

context:
  version: "{version}"

package:
  name: {name}
  version: ${{{{ version }}}}

source:
  url: {archive}
  sha256: "{zeros}"

build:
  number: 0
  noarch: python
  script: python -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
      - nbchat = nbchat.cli.main:main

requirements:
  host:
    - python >=3.11
    - pip
    - hatchling >=1.27
  run:
    - python >=3.11
{run}

tests:
  - python:
      imports:
        - nbchat
      pip_check: true
  - script:
      - nbchat --version

about:
  homepage: {homepage}
  summary: {summary}
  license: MIT
  license_file: LICENSE
  documentation: {documentation}
  repository: {source}
"""


def recipe() -> str:
    """The recipe's text."""
    urls = PROJECT["urls"]
    names = (line.replace(">", " >", 1) for line in PROJECT["dependencies"])
    return RECIPE.format(
        name=PROJECT["name"],
        version=PROJECT["version"],
        zeros="0" * 64,
        archive=ARCHIVE,
        run="\n".join(f"    - {line}" for line in names),
        summary=PROJECT["description"],
        homepage=urls["Homepage"],
        documentation=urls["Documentation"],
        source=urls["Source"],
    )


if __name__ == "__main__":
    (HERE / "recipe.yaml").write_text(recipe(), "utf-8")
