"""Rows of runs against servers with a rate limit, in a process of their own.

python limited_rows.py NAME ROWS SERVER STORE [SERVER STORE ...]
"""

import sys
from itertools import pairwise

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import map_agents
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.storage.run_store import Store

if __name__ == "__main__":
    name, rows, *places = sys.argv[1:]
    texts = [f"Ticket {number}" for number in range(int(rows))]
    for server, url in [*pairwise(places)][::2]:
        provider = OpenAIProvider("m", base_url=f"{server}/v1", window=100_000)
        run = map_agents(Agent(provider), texts, store=Store(url), name=name)
        print((run.table()["value"] == "Done.").sum())
