"""A user's module: `mypy` finds no fault in it (checked with the package, by CI)."""

from typing import assert_type

from nbchat import (
    PRESETS,
    Agent,
    Answer,
    Approvals,
    ChatUI,
    Compacted,
    Session,
    TextDelta,
    Turn,
    Usage,
    build_agent,
    settings,
    tool,
)
from nbchat.errors import NbchatError, RateLimited
from nbchat.testing import ScriptedProvider, says


def lookup(order: str) -> str:
    return order


agent = Agent(ScriptedProvider(says("Hello.")), tools=[lookup], approve=Approvals())
turn = agent.run("hi")
assert_type(turn, Turn)
for event in turn:
    match event:
        case TextDelta(text):
            assert_type(text, str)
        case Compacted(compaction):
            assert_type(compaction.tokens_before, int)
        case _:
            pass
try:
    answer = agent.chat("hi")
    assert_type(answer, Answer)
    assert_type(answer.usage, Usage)
    print(answer.upper(), answer.stop_reason == "end_turn", len(answer.events))
except RateLimited as error:
    assert_type(error.retry_after, float | None)
except NbchatError:
    raise
assert_type(agent.session, Session)
panel = ChatUI(build_agent(settings(store_url="sqlite://"), tools=[lookup]))
print(panel, sorted(PRESETS), tool)
agent.ask(3)  # type: ignore[arg-type]  # an error, so the types are known
