"""Writing the summary: prompts, requests, checks of the answers, fallbacks."""
