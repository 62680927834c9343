"""Text for terminals, and text that any encoder accepts."""

import re

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def displayable(text: str) -> str:
    """Replace lone surrogates with U+FFFD, so that any encoder accepts the text."""
    return _SURROGATE.sub("\ufffd", text)


def terminal_text(text: str) -> str:
    """Replace what a terminal would act on: control and direction characters."""
    return _CONTROL.sub("\ufffd", displayable(text).replace("\r\n", "\n"))
