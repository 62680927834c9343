"""The files of a release: workflows, forms, and the recipe for conda."""

import runpy
from pathlib import Path
from typing import Any

import yaml
from tables import every

ROOT = Path(__file__).parents[1]
FORMS = [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml"]


def workflow(name: str) -> dict[str, Any]:
    text = (ROOT / ".github" / "workflows" / name).read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@every("file", FORMS)
def test_every_workflow_and_form_is_yaml(file: Path):
    assert isinstance(yaml.safe_load(file.read_text("utf-8")), dict)


def test_the_recipe_for_conda_has_the_versions_of_the_package():
    made = runpy.run_path(str(ROOT / ".ci" / "conda_recipe.py"))["recipe"]()
    assert (ROOT / ".ci" / "recipe.yaml").read_text("utf-8") == made
    assert yaml.safe_load(made)["package"]["name"] == "jupyter-nbchat"


def test_a_release_is_published_without_a_stored_password():
    job = workflow("publish.yml")["jobs"]["publish"]
    assert job["permissions"] == {"id-token": "write"}
    assert "password" not in str(job)


def test_only_the_step_that_publishes_may_write():
    for name in ("tests.yml", "docs.yml", "publish.yml"):
        assert workflow(name)["permissions"] == {"contents": "read"}


def test_the_workflow_tests_every_version_of_python_that_is_promised():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    minor = "3.11", *workflow("tests.yml")["jobs"]["quick"]["strategy"]["matrix"]["python"]  # fmt: skip
    assert all(f"Programming Language :: Python :: {each}" in project for each in minor)
