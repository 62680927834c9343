"""How long Markdown with code and formulas takes to become safe HTML.

python tests/benchmarks/rendering.py
"""

import statistics
import time

from nbchat.rendering.markdown import markdown_html

PART = r"""## Step {n}

The mean of $x_1, \dots, x_n$ is \(\bar{{x}}\), and **not** `sum(x)`; see [this](https://a.example).

$$
\bar{{x}} = \frac{{1}}{{n}} \sum_{{i=1}}^n x_i
$$

| name | value |
|---|--:|
| rows | {n} |

```python
def mean(values):
    # the middle of {n}
    return sum(values) / len(values)  # costs $5
```

- one *thing*
- another

"""
ROUNDS = 7


def document(size: int) -> str:
    """Mixed Markdown of about `size` characters."""
    parts, length = [], 0
    while length < size:
        parts.append(PART.format(n=len(parts) + 1))
        length += len(parts[-1])
    return "".join(parts)


def spent(text: str) -> float:
    """Milliseconds of one rendering, the median of several."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        markdown_html(text)
        times.append(1_000 * (time.perf_counter() - began))
    return statistics.median(times)


if __name__ == "__main__":
    markdown_html(document(1_000))
    for size in (8_000, 80_000):
        text = document(size)
        print(
            f"{len(text):6,} characters, {text.count('$$') // 2:3} formulas in blocks: "
            f"{spent(text):6.1f} ms, {len(markdown_html(text)):,} characters of HTML"
        )
