"""Usage of any API, as loops of one's own have it."""

from types import SimpleNamespace
from typing import Any

from anthropic.types import Usage as AnthropicUsage
from openai.types import CompletionUsage
from openai.types.responses import ResponseUsage
from tables import every

from nbchat.compaction.engine import CompactionEngine
from nbchat.conversation.entries import Usage
from nbchat.providers.wire_format import usage_of

CHAT = {
    "prompt_tokens": 900,
    "completion_tokens": 50,
    "total_tokens": 950,
    "prompt_tokens_details": {"cached_tokens": 800},
}
RESPONSES = {
    "input_tokens": 900,
    "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 0},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 950,
}
ANTHROPIC = {
    "input_tokens": 100,
    "cache_read_input_tokens": 800,
    "cache_creation_input_tokens": 0,
    "output_tokens": 50,
}
GEMINI = {
    "promptTokenCount": 900,
    "cachedContentTokenCount": 800,
    "candidatesTokenCount": 30,
    "thoughtsTokenCount": 20,
    "totalTokenCount": 950,
}
BEDROCK = {"inputTokens": 100, "cacheReadInputTokens": 800, "outputTokens": 50}
LANGCHAIN = {
    "input_tokens": 900,
    "output_tokens": 50,
    "input_token_details": {"cache_read": 800},
}

REPORTS: dict[str, Any] = {
    "chat completions": CHAT,
    "the SDK's chat completions": CompletionUsage.model_validate(CHAT),
    "a whole response": {"id": "x", "choices": [], "usage": CHAT},
    "an object of a whole response": SimpleNamespace(usage=SimpleNamespace(**CHAT)),
    "responses": RESPONSES,
    "the SDK's responses": ResponseUsage.model_validate(RESPONSES),
    "Anthropic": ANTHROPIC,
    "the SDK's Anthropic": AnthropicUsage.model_validate(ANTHROPIC),
    "Gemini": GEMINI,
    "a whole answer of Gemini": {"candidates": [], "usageMetadata": GEMINI},
    "Bedrock": BEDROCK,
    "LangChain": LANGCHAIN,
    "ours": Usage(900, 50, 800),
}


@every("name", REPORTS)
def test_the_usage_of_every_api_counts(name: str):
    usage = usage_of(REPORTS[name])
    found = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    assert found == (900, 50, 800)
    engine = CompactionEngine(900)
    engine.update_token_count("a message", REPORTS[name])
    assert engine.input_tokens == 900
    assert engine.should_compact()


@every("report", [None, {}, "text", {"usage": None}, 7, {"input_tokens": "x"}])
def test_what_is_no_report_counts_nothing(report: Any):
    assert usage_of(report) == Usage()


def test_of_rounds_within_a_reply_only_the_last_stays_in_the_context():
    usage = usage_of({**ANTHROPIC, "iterations": [ANTHROPIC, ANTHROPIC]})
    assert (usage.input_tokens, usage.context_tokens) == (1_800, 950)


def test_ollama_counts_in_its_own_words():
    usage = usage_of({"prompt_eval_count": 900, "eval_count": 50})
    assert (usage.input_tokens, usage.output_tokens) == (900, 50)
