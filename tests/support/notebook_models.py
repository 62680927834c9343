"""Models behind OpenAI's API that do the work of two notebooks, with faults of real ones."""

import json
import re
from typing import Any

from fault_server import FaultServer, OpenAIDialect, Recorded, Response, failure
from retail_shop import retail_scenarios
from ticket_desk import recorded_decisions

SUMMARY = "<summary>\nTickets of a bank were decided, one after the other.\n</summary>"


class NotebookModel(FaultServer):
    """A model that answers by the messages it reads."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a notebook finds it."""
        return {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{self.url}/v1"}

    def next_response(self, request: Recorded) -> Response:
        self.requests.append(request)
        if not request.body:
            return failure(404)
        messages = request.body["messages"]
        usage = (len(json.dumps(messages)) // 4, 20, 0)
        reply = self.reply(request.body, messages)
        if isinstance(reply, str):
            return OpenAIDialect().text(reply, usage=usage)
        name, arguments = reply
        call = (f"call_{len(self.requests)}", name, json.dumps(arguments))
        return OpenAIDialect().calls(call, usage=usage)

    def reply(
        self, body: dict[str, Any], messages: list[dict[str, Any]]
    ) -> str | tuple[str, dict[str, Any]]:
        """A text, or a call with its arguments."""
        raise NotImplementedError


class TriageModel(NotebookModel):
    """Decides tickets: one in seven wrong, one in ten first in words of its own.

    As one agent for all it forgets to note every fortieth ticket.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made = recorded_decisions()

    def reply(
        self, body: dict[str, Any], messages: list[dict[str, Any]]
    ) -> str | tuple[str, dict[str, Any]]:
        texts = [str(each.get("content")) for each in messages]
        if "response_format" in body:
            is_first = sum(each["role"] == "user" for each in messages) == 1
            return self._decision(" ".join(texts), is_first=is_first)
        if body.get("tool_choice", "none") == "none":
            return SUMMARY
        if messages[-1]["role"] == "tool":
            return "Noted."
        ticket = re.findall(r"\b(T\d{3}): ", texts[-1])[-1]
        number = next(n for n, e in enumerate(self._made) if e.ticket.id == ticket)
        if number % 40 == 39:
            return "This one is clear."
        return "decide", {"ticket": ticket, "category": self._category(number)}

    def _decision(self, text: str, *, is_first: bool) -> str:
        number = next(n for n, e in enumerate(self._made) if e.ticket.text in text)
        if number % 10 == 3 and is_first:
            return '{"category": "the card of the customer"}'
        return json.dumps({"category": self._category(number)})

    def _category(self, number: int) -> str:
        place = number + 20 if number % 7 == 6 else number
        return self._made[place % len(self._made)].ticket.true_category


class RetailModel(NotebookModel):
    """Serves the customers of the shop; of one it forgets the last action."""

    def reply(
        self, body: dict[str, Any], messages: list[dict[str, Any]]
    ) -> str | tuple[str, dict[str, Any]]:
        prompt = next(str(e["content"]) for e in messages if e["role"] == "user")
        scenario = next(e for e in retail_scenarios() if e.prompt in prompt)
        actions = list(scenario.actions)
        done = sum(len(each.get("tool_calls") or ()) for each in messages)
        if scenario.id == "16":
            del actions[-1]
        if done < len(actions):
            name, arguments = actions[done]
            return name, dict(arguments)
        return "All of it is done."
