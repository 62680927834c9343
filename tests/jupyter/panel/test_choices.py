"""Queries for settings and completions."""

import json
from typing import get_args

import numpy as np
import pandas as pd
from notebook_desk import Desk
from panel_protocol import known

from nbchat.agent.agent import Agent
from nbchat.jupyter.panel import protocol
from nbchat.jupyter.panel.queries import (
    ANSWERS,
    MOST_NAMES,
    completions,
    paths_list,
    settings_list,
)
from nbchat.storage.saved_settings import SettingInForce
from nbchat.testing import ScriptedProvider


def test_settings_are_listed_with_the_scopes_of_the_model() -> None:
    agent = Agent(ScriptedProvider(name="openai:gpt-5"))
    share = SettingInForce("window_share", "0.8", "Help.", "float", "default", (), None)
    policies = ("auto", "off")
    policy = SettingInForce(
        "policy", "auto", "Help.", "choice", "default", policies, None
    )
    answer = known(settings_list(agent, [share, policy]))
    assert (answer["provider"], answer["model"]) == ("openai", "openai:gpt-5")
    assert [row["name"] for row in answer["settings"]] == ["window_share", "policy"]
    assert answer["settings"][1]["choices"] == ["auto", "off"]


def test_completions_are_commands_kinds_and_variables_the_newest_first() -> None:
    values = {"df": [1], "Ann": 1, "_x": 1, "math": json, "api_key": "sk-1", "a b": 1}
    lines = {"new": "start another session", "pin": "[text]  keep a rule"}
    answer = known(completions(lines, Desk(values=values)))
    assert answer["commands"] == [
        {"name": "new", "arguments": "", "help": "start another session"},
        {"name": "pin", "arguments": "[text]", "help": "keep a rule"},
    ]
    names = [each["name"] for each in answer["names"]]
    assert names == ["cell", "file:", "image:", "error", "api_key", "Ann", "df"]
    assert answer["names"][-1]["help"] == "list"
    assert "sk-1" not in json.dumps(answer)


def test_tables_and_arrays_are_completed_with_their_shapes() -> None:
    table = pd.DataFrame({"city": ["Bonn"] * 1_200, "price": 1})
    values = {"n": np.zeros(()), "a": np.zeros((2, 3)), "df": table, "s": table.city}
    helps = {
        each.name: each.help for each in completions({}, Desk(values=values)).names
    }
    assert helps["df"] == "pandas.DataFrame, 1,200 x 2"
    assert helps["s"] == "pandas.Series, 1,200"
    assert helps["a"] == "numpy.ndarray, 2 x 3"
    assert helps["n"] == "numpy.ndarray"


def test_paths_are_completed_with_folders_first(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("dates.csv", "data/b.csv", "data/a.csv", ".hidden", "other"):
        (tmp_path / name).touch()
    found = [each["name"] for each in known(paths_list(tmp_path, "da"))["paths"]]
    assert found == ["data/", "dates.csv"]
    inside = [each.name for each in paths_list(tmp_path, "data/").paths]
    assert inside == ["data/a.csv", "data/b.csv"]
    assert ".hidden" not in str(paths_list(tmp_path, ""))
    assert paths_list(tmp_path, "none/\0").paths == ()


def test_completions_are_limited_in_number() -> None:
    many = Desk(values={f"v{n}": n for n in range(MOST_NAMES * 2)})
    names = completions({}, many).names
    assert len(names) == MOST_NAMES + 4
    assert names[-1].name == f"v{MOST_NAMES}"  # those defined before are omitted
    assert completions({}, None).names == ()


def test_each_question_of_a_view_has_an_answer() -> None:
    messages = get_args(protocol.ViewToKernel)
    asked = {each for each in messages if issubclass(each, protocol.Question)}
    assert asked - {protocol.Earlier} == ANSWERS.keys()  # the state has earlier items
