"""Read the vocabulary by which tokens are counted, once for all forked processes."""

from nbchat.providers.tokens import load_encoding

load_encoding("o200k_base")
