"""Compacts once when it is imported: a fork server's children then do so in 50 ms.

The first compaction of a process takes a second, for patterns and encodings are read.
"""

from nbchat.agent.agent import Agent
from nbchat.testing import ScriptedProvider, says

_agent = Agent(ScriptedProvider(says("one " * 200), says("<summary>two</summary>")))
_agent.ask("first")
list(_agent.compact())
