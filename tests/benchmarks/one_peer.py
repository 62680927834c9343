"""What one context manager costs; run by peers.py in that manager's own Python.

    python one_peer.py NAME HISTORY URL

Prints one JSON object. All figures are CPU time of this process. Nothing of nbchat is
imported unless NAME is nbchat, so it runs in an environment that only has the peer.
"""

import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

SIZES = (100, 1_000, 10_000)
REQUEST_SIZE = 1_000
TURNS = 1_000
NEVER = 10**9
"""A threshold that is not reached: the peers decide, and decide to go on."""

ROUNDS, ROUND_SECONDS = 30, 8.0
"""A figure is the median of so many rounds, or of what fits this time, at least 3."""

CAP_SECONDS = 60.0
"""CPU after which a chat is stopped; its cost is then projected from its exponent."""

Message = dict[str, Any]


class Nbchat:
    """An agent's own parts, called as its turn calls them."""

    def __init__(self, kind: str, url: str) -> None:
        from nbchat.agent.agent import Agent
        from nbchat.compaction.engine import CompactionEngine
        from nbchat.providers.anthropic import AnthropicProvider
        from nbchat.providers.openai_chat import OpenAIProvider

        provider = OpenAIProvider if kind == "openai" else AnthropicProvider
        path = "/v1" if kind == "openai" else ""
        self.agent = Agent(
            provider("m", base_url=url + path, api_key=lambda: "k", window=NEVER),
            engine=CompactionEngine(NEVER),
        )

    @staticmethod
    def prepared(message: Message) -> Any:
        from nbchat.conversation.entries import Entry

        text = message.get("content") or ""
        if message["role"] == "tool":
            return [Entry("tool", text, message["tool_call_id"], message["name"])]
        calls = [
            Entry(
                "assistant",
                "",
                c["id"],
                c["function"]["name"],
                c["function"]["arguments"],
            )
            for c in message.get("tool_calls", ())
        ]
        return [*([Entry(message["role"], text)] if text or not calls else []), *calls]

    def add(self, entries: Any) -> None:
        for entry in entries:
            self.agent.session.append(entry)

    def decide(self) -> None:
        assert not self.agent.engine.should_compact(self.agent.session)

    def build(self) -> Any:
        return self.agent.provider._extra_body(self.agent.next_request())

    def send(self) -> None:
        list(self.agent.provider.stream(self.agent.next_request()))


class LangChain:
    """SummarizationMiddleware before a chat model; its default counter is chars / 4."""

    is_exact = False

    def __init__(self, kind: str, url: str) -> None:
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_anthropic import ChatAnthropic
        from langchain_openai import ChatOpenAI

        openai = ChatOpenAI(model="gpt-4o", api_key="k", base_url=f"{url}/v1")
        anthropic = ChatAnthropic(
            model="claude-sonnet-4-5", api_key="k", base_url=url, max_tokens=100
        )
        self.model = openai if kind == "openai" else anthropic
        counter = {"token_counter": openai.get_num_tokens_from_messages}
        self.middleware = SummarizationMiddleware(
            model=self.model,
            trigger=("tokens", NEVER),
            keep=("messages", 20),
            **(counter if self.is_exact else {}),
        )
        self.messages: list[Any] = []

    @staticmethod
    def prepared(message: Message) -> Any:
        from langchain_core.messages import convert_to_messages

        return convert_to_messages([message])

    def add(self, messages: Any) -> None:
        self.messages += messages

    def decide(self) -> None:
        assert self.middleware.before_model({"messages": self.messages}, None) is None

    def build(self) -> Any:
        return self.model._get_request_payload(self.messages)

    def send(self) -> None:
        self.model.invoke(self.messages)


class LangChainExact(LangChain):
    """The same with the model's own counter, tiktoken."""

    is_exact = True


class OpenHands:
    """LLMSummarizingCondenser with a token limit before a LiteLLM model."""

    def __init__(self, kind: str, url: str) -> None:
        from openhands.sdk import LLM
        from openhands.sdk.context.condenser import LLMSummarizingCondenser
        from openhands.sdk.context.view import View

        is_openai = kind == "openai"
        self.llm = LLM(
            model="openai/gpt-4o" if is_openai else "anthropic/claude-sonnet-4-5",
            api_key="k",
            usage_id="peer",
            base_url=f"{url}/v1" if is_openai else url,
            max_input_tokens=NEVER,
            num_retries=0,
        )
        self.condenser = LLMSummarizingCondenser(
            llm=self.llm, max_size=10**6, max_tokens=NEVER
        )
        self.view = View()
        self.chosen: Any = None

    @staticmethod
    def prepared(message: Message) -> Any:
        """Calls and results ride as text: the same bytes, without its tool executor."""
        from openhands.sdk.event import MessageEvent
        from openhands.sdk.llm import Message, TextContent

        calls = message.get("tool_calls")
        text = (message.get("content") or "") + (json.dumps(calls) if calls else "")
        role = "assistant" if message["role"] == "assistant" else "user"
        return MessageEvent(
            source="agent" if role == "assistant" else "user",
            llm_message=Message(role=role, content=[TextContent(text=text)]),
        )

    def add(self, event: Any) -> None:
        self.view.append_event(event)

    def decide(self) -> None:
        from openhands.sdk.agent.utils import prepare_llm_messages

        self.chosen = prepare_llm_messages(self.view, self.condenser, llm=self.llm)
        assert isinstance(self.chosen, list)

    def build(self) -> Any:
        return self.llm.format_messages_for_llm(self.chosen)

    def send(self) -> None:
        self.llm.completion(self.chosen)


PEERS = {
    "nbchat": Nbchat,
    "langchain": LangChain,
    "langchain-exact": LangChainExact,
    "openhands": OpenHands,
}


class Bench:
    """Measures one peer on one history."""

    def __init__(self, name: str, history: list[Message], url: str) -> None:
        self.peer = PEERS[name]
        self.said = [self.peer.prepared(message) for message in history]
        self.url = url

    def figures(self) -> dict[str, Any]:
        """All of them, in milliseconds unless they say otherwise."""
        warm = self.holding(4)
        warm.decide()  # loads vocabularies
        return {
            "cold": self.cold(),
            "decide": [self.decide(size) for size in SIZES],
            "own": [self.own(kind) for kind in ("openai", "anthropic")],
            "send": [self.send(kind) for kind in ("openai", "anthropic")],
            **self.chat(),
        }

    def holding(self, size: int, kind: str = "openai") -> Any:
        """A new peer that has heard the first messages."""
        peer = self.peer(kind, self.url)
        for message in self.said[:size]:
            peer.add(message)
        return peer

    def cold(self) -> float:
        """A thousand messages never seen before, added and counted."""
        started = time.process_time()
        self.holding(REQUEST_SIZE).decide()
        return (time.process_time() - started) * 1e3

    def decide(self, size: int) -> float:
        """Two new messages in a conversation of a size: added, counted, decided."""
        peer = self.holding(size)

        def turn(place: int) -> None:
            self.hear(peer, place)
            peer.decide()

        return self.median(turn, size)

    def own(self, kind: str) -> float:
        """The same and the request's fields, at a thousand messages."""
        peer = self.holding(REQUEST_SIZE, kind)

        def turn(place: int) -> None:
            self.hear(peer, place)
            peer.decide()
            peer.build()

        return self.median(turn, REQUEST_SIZE)

    def send(self, kind: str) -> float:
        """The same and the whole request through the SDK to a server on this machine."""
        peer = self.holding(REQUEST_SIZE, kind)

        def turn(place: int) -> None:
            self.hear(peer, place)
            peer.decide()
            peer.send()

        return self.median(turn, REQUEST_SIZE)

    def chat(self) -> dict[str, float]:
        """A chat of a thousand turns without compaction: decide and build each time."""
        peer = self.peer("openai", self.url)
        spent: list[float] = []
        started = time.process_time()
        while len(spent) < TURNS and (not spent or spent[-1] < CAP_SECONDS):
            self.hear(peer, 2 * len(spent))
            peer.decide()
            peer.build()
            spent.append(time.process_time() - started)
        turns = len(spent)
        exponent = statistics.linear_regression(*self.logarithms(spent)).slope
        total = spent[-1] * (TURNS / turns) ** exponent
        return {"chat_seconds": total, "exponent": exponent, "turns": turns}

    def hear(self, peer: Any, place: int) -> None:
        for message in self.said[place : place + 2]:
            peer.add(message)

    def median(self, turn: Any, size: int) -> float:
        turn(size)
        taken: list[float] = []
        while len(taken) < ROUNDS and (sum(taken) < ROUND_SECONDS or len(taken) < 3):
            place = size + 2 + 2 * len(taken)
            started = time.process_time()
            turn(place)
            taken.append(time.process_time() - started)
        return statistics.median(taken) * 1e3

    @staticmethod
    def logarithms(spent: list[float]) -> tuple[list[float], list[float]]:
        """Turns and seconds for the slope, from a tenth of the chat on."""

        places = [len(spent) * share // 10 for share in range(1, 11)]
        return [math.log(p) for p in places], [math.log(spent[p - 1]) for p in places]


if __name__ == "__main__":
    name, history, url = sys.argv[1:]
    bench = Bench(name, json.loads(Path(history).read_text(encoding="utf-8")), url)
    print("\n" + json.dumps(bench.figures()))
