"""An address as it may be shown: without who logs in there, and without its query."""

import re


def without_login(text: str) -> str:
    """An address without user, password and query; any other text as it is.

    All before the last @ goes: one in a password may stand there unescaped.
    """
    found = re.fullmatch(r"([\w+.-]+://)(.*)", text.strip(), re.DOTALL)
    if not found:
        return text
    scheme, rest = found.groups()
    if not rest.startswith("/"):  # the path of a file may hold an @
        rest = rest.rpartition("@")[2]
    return scheme + re.split("[?#]", rest, maxsplit=1)[0]
