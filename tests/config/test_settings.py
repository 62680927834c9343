"""The table of settings, what is made from it, and the layers that set values."""

import os
import re
import subprocess
import sys
from inspect import signature

import pytest
from tables import every

from nbchat.agent.agent import Agent
from nbchat.chat.live_changes import APPLY
from nbchat.cli.main import main
from nbchat.compaction.engine import CompactionEngine
from nbchat.compaction.policies import Policy
from nbchat.config.layers import settings
from nbchat.config.settings import TABLE, NbChat, Setting
from nbchat.errors import ConfigError

OWNERS = {"policy": Policy, "engine": CompactionEngine, "agent": Agent}


def test_the_table_holds_every_trait_that_can_be_configured():
    assert set(TABLE) == set(NbChat.class_trait_names(config=True))


@every("row", TABLE.values())
def test_every_row_says_all_that_the_surfaces_need(row: Setting):
    assert re.fullmatch(r"[\w].*\.", row.help)
    assert row.scope in ("configuration", "model")
    assert row.kind in ("choice", "bool", "int", "float", "text")
    owner, _, attribute = row.apply.partition(".")
    if attribute:
        known = signature(OWNERS[owner]).parameters
        assert attribute in known
    else:
        assert owner in {*APPLY, "model", "live_variables"}


def test_every_setting_can_come_from_its_environment_variable(monkeypatch):
    for row in TABLE.values():
        numbers = {"int": "7", "float": "0.5", "bool": "false"}
        typed = row.choices[0] if row.choices else numbers.get(row.kind, "text")
        monkeypatch.setenv(row.variable, typed)
        found = settings()
        assert row.text(getattr(found, row.name)) == typed
        assert found.origins[row.name] == f"environment variable {row.variable}"


def test_there_are_at_most_35_settings():
    assert len(TABLE) <= 35


def test_a_command_lists_exactly_the_table(capsys):
    assert main(["settings"]) == 0
    listed = re.findall(r"^\| `(\w+)` \|", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(TABLE)


@every(
    ("values", "message"),
    [
        ({"max_steps": 0}, "max_steps can't be 0. Use a whole number of at least 1"),
        ({"attempts": "x"}, "attempts can't be 'x'. Use a whole number from 1 to 100"),
        ({"top_p": 2.0}, "top_p can't be 2.0. Use a number from 0 to 1"),
        ({"automatic": "x"}, "automatic can't be 'x'. Choose one of true, ask, false"),
        (
            {"policy": "tird"},
            "policy can't be 'tird'. Choose one of single-summary, tiered, ",
        ),
        ({"model": 5}, "model can't be 5. Use text"),
        ({"modell": "x"}, "No setting named modell. Did you mean model?"),
    ],
)
def test_a_bad_setting_is_named_in_one_line(values, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        settings(**values)
    assert "\n" not in str(refused.value)


NEW_ROW = """
    courage = Int(
        None, allow_none=True, min=0, help="What the model takes."
    ).tag(config=True, scope="model", apply="agent.max_steps")
"""

ADD_ROW = f"""
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

spec = find_spec("nbchat.config.settings")
source = Path(spec.origin).read_text()
before, mark, after = source.partition("    def __setattr__")
module = sys.modules[spec.name] = module_from_spec(spec)
exec(before + {NEW_ROW!r} + mark + after, module.__dict__)

from nbchat.cli.main import main
from nbchat.storage.factory import build_agent
from nbchat.chat.live_changes import LiveSettings
from nbchat.config.layers import settings
from nbchat.jupyter.panel.queries import settings_list
from nbchat.storage.store import SessionStore

assert build_agent().max_steps == 7
store = SessionStore()
config = settings(courage=8)
agent = build_agent(config, store=store)
assert agent.max_steps == 8
live = LiveSettings(store, config)
config.observe(lambda change: live.follow(agent, change), names=["courage"])
config.courage = 9
assert agent.max_steps == 9
config.explicit = frozenset()
live.set(agent, "courage", "10")
assert agent.max_steps == 10
dialog = settings_list(agent, live.listed(agent))
assert "courage" in [row.name for row in dialog.settings]
listed = live.listed(agent)
assert [row.value for row in listed if row.name == "courage"] == ["10"]
main(["settings"])
main(["doctor"])
"""


@pytest.mark.slow
def test_a_row_of_the_table_is_all_that_a_new_setting_needs():
    done = subprocess.run(
        [sys.executable, "-c", ADD_ROW],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "NBCHAT_COURAGE": "7"},
    )
    assert done.returncode == 0, done.stderr
    for line in (
        r"\| `courage` \|  \| What the model takes\. \| yes \|",
        r"  courage +7 +environment variable NBCHAT_COURAGE",
    ):
        assert re.search(line, done.stdout)
