"""A model behind a provider's API that decides the tickets of the demo."""

import json
import re

from fault_server import (
    AnthropicDialect,
    FaultServer,
    OpenAIDialect,
    Recorded,
    Response,
    failure,
)

DECISIONS = {
    "search_help_articles": {"query": "transfer fee"},
    "set_category": {"category": "transfer_fee_charged"},
    "set_priority": {"priority": "low"},
    "assign_team": {"team": "payments"},
    "reply_draft": {"text": "We will look into it."},
}


class HostedModel(FaultServer):
    """A model behind a provider's API that calls whatever tool it is told to."""

    def __init__(self, dialect: OpenAIDialect | AnthropicDialect) -> None:
        super().__init__()
        self.dialect = dialect

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which nbchat finds this model."""
        kind = self.dialect.kind.upper()
        path = "/v1" if kind == "OPENAI" else ""
        return {f"{kind}_API_KEY": "sk-test", f"{kind}_BASE_URL": f"{self.url}{path}"}

    def next_response(self, request: Recorded) -> Response:
        self.requests.append(request)
        if not request.body:
            return failure(404)
        choice = request.body.get("tool_choice", "none")
        usage = (1_500, 20, 0)
        if '"json_schema"' in json.dumps(request.body):
            category = DECISIONS["set_category"]["category"]
            found = re.search(r'"enum": \["(\w+)"', json.dumps(request.body))
            answer = json.dumps({"category": found[1] if found else category})
            return self.dialect.text(answer, usage=usage)
        if isinstance(choice, str) or choice.get("type") in ("none", "auto"):
            text = "<summary>Some tickets are closed.</summary>"
            return self.dialect.text(text, usage=usage)
        name = choice.get("name") or choice["function"]["name"]
        arguments = json.dumps(DECISIONS.get(name, {}))
        call = (f"call_{len(self.requests)}", name, arguments)
        return self.dialect.calls(call, usage=usage)
