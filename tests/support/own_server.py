"""A server of one's own that speaks OpenAI's chat API, with a list of models."""

from fault_server import (
    AnthropicDialect,
    FaultServer,
    OpenAIDialect,
    Recorded,
    Response,
    answer,
    failure,
)


class OwnServer(FaultServer):
    """Answers every question with a model that it has, for whoever has its key."""

    def __init__(self, *models: str, key: str = "", says: str = "From my server."):
        super().__init__()
        self.models = models or ("qwen3:8b",)
        self.key = key
        self.says = says
        self.address = f"{self.url}/v1"
        self.details: dict[str, object] = {}

    @property
    def chats(self) -> list[Recorded]:
        """The requests for an answer."""
        return [each for each in self.requests if each.body]

    def next_response(self, request: Recorded) -> Response:
        self.requests.append(request)
        sent = {k.lower(): each for k, each in request.headers.items()}
        if self.key and sent.get("authorization") != f"Bearer {self.key}":
            return failure(401, {"message": "Incorrect API key provided."})
        if request.path.endswith("/models"):
            rows = [{"id": name, "object": "model"} for name in self.models]
            return answer({"object": "list", "data": [r | self.details for r in rows]})
        if not request.path.endswith("/chat/completions"):
            return failure(404)
        if request.body.get("model") not in self.models:
            return failure(404, {"message": f"model {request.body['model']} not found"})
        return OpenAIDialect().text(self.says)


class MessagesServer(FaultServer):
    """A server of one's own that speaks Anthropic's API alone."""

    def next_response(self, request: Recorded) -> Response:
        self.requests.append(request)
        if request.path.startswith("/v1/models"):
            listed = {"id": "claude-x", "type": "model", "display_name": "X"}
            return answer({"data": [listed], "has_more": False})
        if request.path == "/v1/messages":
            return AnthropicDialect().text("From Anthropic's API.")
        return failure(404)
