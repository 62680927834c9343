"""What an empty chat offers, and a key that is typed into the panel."""

import json

import numpy as np
import pandas as pd
from notebook_desk import Desk
from panel_views import Panel, Replying

from nbchat.agent.agent import Agent
from nbchat.chat.live_changes import LiveSettings
from nbchat.errors import ConfigError
from nbchat.testing import ScriptedProvider

KEY = "sk-typed-0123456789"


def offered(**notebook) -> list[str]:
    panel = Panel(Agent(ScriptedProvider()), resolver=Desk(**notebook))
    answer = panel.answer_to(type="start")
    panel.close()
    assert [each["provider"] for each in answer["providers"]] == [
        "anthropic",
        "openai",
        "gemini",
    ]
    assert answer["trial"]["model"] == "local:smollm2"
    return [each["label"] for each in answer["suggestions"]]


def test_suggestions_come_from_the_notebook():
    frame = pd.DataFrame(np.zeros((1204, 5)))
    notebook = {"orders": frame, "total": 3, "_hidden": frame}
    assert offered(values=notebook, traceback="ZeroDivisionError") == [
        "Explain the last error",
        "Describe orders (1,204 x 5)",
        "Plot orders",
    ]
    assert offered(values={"x": 1}) == []


class Taking(LiveSettings):
    """Takes keys for all providers but one, and notes them."""

    def use_key(self, agent, kind, key):
        if kind == "local":
            raise ConfigError("local takes no key")
        self.used = (kind, key)
        return "keyring"


def test_a_typed_key_goes_to_the_chat_and_comes_back_nowhere():
    commands = Replying(lambda *_: ())
    commands.live_settings = taking = Taking(commands.store)
    panel = Panel(Agent(ScriptedProvider()), commands=commands)
    answer = panel.answer_to(type="use_key", provider="openai", key=KEY)
    assert answer == {
        "type": "key_used",
        "model": "scripted:model",
        "place": "keyring",
    }
    assert taking.used == ("openai", KEY)
    panel.sent.clear()
    refused = panel.answer_to(type="use_key", provider="local", key=KEY)
    assert refused == {"type": "refused", "reason": "local takes no key"}
    assert KEY not in json.dumps(
        [panel.sent, panel.snapshot(), panel.get_state()], default=str
    )
    panel.close()
