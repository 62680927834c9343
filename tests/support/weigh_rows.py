"""Run agents with two tools over rows, and print what that has loaded into memory."""

import json
import sys

from nbchat import Store, map_agents

SDKS = ("openai", "anthropic", "tiktoken")

loaded = [name for name in SDKS if name in sys.modules]

# ruff: noqa: E402  # imported after what was loaded is noted
from map_desk import Decision, tickets

from nbchat import Agent, connect, tool
from nbchat.providers.tokens import load_encoding

provider = connect("openai:m", base_url=sys.argv[1], api_key=lambda: "k")


@tool(read_only=True)
def get_ticket(ticket: str) -> str:
    """Get a ticket."""
    return ticket * 1_000


def make_agent() -> Agent:
    return Agent(provider, tools=[get_ticket], system="You triage tickets.")


run = map_agents(
    make_agent,
    tickets(8),
    key="id",
    prompt="text",
    output=Decision,
    store=Store(sys.argv[2]),
).wait()
found = {
    "loaded": loaded,
    "done": run.counts.done,
    "vocabularies": load_encoding.cache_info().currsize,
    "anthropic": "anthropic" in sys.modules,
}
print(json.dumps(found))
