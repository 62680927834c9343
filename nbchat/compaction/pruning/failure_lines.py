"""Find the lines of a text that report a failure.

A failed call needs its message to be repaired, so these lines are never cut. Counts of
zero ("0 failed", "error: none") are no failures.
"""

import re
from collections.abc import Sequence

CONTEXT_LINES, FOLLOWING_LINES = 3, 12
"""Lines kept before a line that reports a failure, and after it."""

PART_LINES = 100
"""Lines of a part; of a longer one the first and the last half as many are parts."""

LINE_LENGTH = 2_000
"""Characters of a line that are looked at."""

_ZERO = r"""(?!["']?\s?[:=]\s?(?:0\b|(?i:none|no|null|false)\s?(?:$|[,;.}\]])))"""
"""Not followed by a value that means none."""

_PATTERNS = (
    r"Traceback \(most recent call last\)",
    r"^(?:E {1,9})?(?:[\w$]{1,80}\.){0,12}[A-Z]\w{0,80}(?:Error|Exception)(?:[:(]|$)",
    r"\b(?i:exit|return)[ _-]?(?i:code|status)[\"']?(?: is| was)?\s?[:=]?\s?-?[1-9]",
    r"\b(?i:exited)(?: with)?(?: code| status)? -?[1-9]",
    r"\b(?i:non-?zero exit)",
    r"\b[1-9]\d{0,8} (?i:failed|failures?|errors?)\b",
    rf"(?<!\b0 )(?<!\b[Nn]o )\b(?:FAIL(?:ED|URES?)?|ERRORS?|FATAL|CRITICAL)\b{_ZERO}",
    rf"(?:^|[\s\]:>])(?i:error)(?:\[\w{{1,20}}\]| [A-Z]{{1,5}}\d{{1,6}})?{_ZERO}:\s",
    r"^\s{0,20}(?i:failed|unable|cannot|could not)\b",
    r"\bnpm ERR!|^fatal: |\bpanic: |\bSegmentation fault\b|\bcore dumped\b|^not ok\b",
    r"\b(?:command not found|No such file or directory|Permission denied)\b",
    r"(?:Fehler|Erreur|Errore|Erro|Ошибка|错误|錯誤|エラー|오류)\s?[:\uff1a]",
)  # fmt: skip
IN_FILES = 4
"""How many of the patterns count in files: the others occur in source code."""

_FAILURE = re.compile("|".join(_PATTERNS))

_FAILURE_IN_FILE = re.compile("|".join(_PATTERNS[:IN_FILES]))


def failed_lines(lines: Sequence[str], *, is_file: bool = False) -> list[int]:
    """Indices of the lines that report a failure."""
    search = (_FAILURE_IN_FILE if is_file else _FAILURE).search
    return [
        index
        for index, line in enumerate(lines)
        if search(line[:LINE_LENGTH])
        or (len(line) > LINE_LENGTH and search(line[-LINE_LENGTH:]))
    ]


def failed_parts(lines: Sequence[str], *, is_file: bool = False) -> list[range]:
    """Ranges of lines that report failures, with the lines around; apart, in order.

    A traceback is kept to its end: the first line after it that is not indented.
    """
    parts: list[range] = []
    for index in failed_lines(lines, is_file=is_file):
        start = max(index - CONTEXT_LINES, 0)
        stop = min(_end(lines, index), len(lines))
        if parts and start <= parts[-1].stop:
            parts[-1] = range(parts[-1].start, max(stop, parts[-1].stop))
        else:
            parts.append(range(start, stop))
    return [piece for part in parts for piece in _ends(part)]


def _ends(part: range) -> list[range]:
    half = PART_LINES // 2
    return [part] if len(part) <= PART_LINES else [part[:half], part[-half:]]


def _end(lines: Sequence[str], index: int) -> int:
    if "Traceback (most recent" not in lines[index]:
        return index + 1 + FOLLOWING_LINES
    indent = len(lines[index]) - len(lines[index].lstrip())
    for after in range(index + 1, len(lines)):
        line = lines[after]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return after + 1
    return len(lines)
