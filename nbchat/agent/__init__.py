"""One turn of a chat: ask the model, run its tools, compact when it is time."""
