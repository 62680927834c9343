"""Rows of a run against a server with a rate limit, in a process of their own.

python limited_rows.py SERVER STORE NAME ROWS
"""

import sys

from nbchat.agent.agent import Agent
from nbchat.agent.map_agents import map_agents
from nbchat.providers.openai_chat import OpenAIProvider
from nbchat.storage.run_store import Store

if __name__ == "__main__":
    server, url, name, rows = sys.argv[1:]
    provider = OpenAIProvider("m", base_url=f"{server}/v1", window=100_000)
    texts = [f"Ticket {number}" for number in range(int(rows))]
    run = map_agents(Agent(provider), texts, store=Store(url), name=name)
    print((run.table()["value"] == "Done.").sum())
