"""How many structured answers of the embedded model are valid?

python tests/benchmarks/structured.py [--tickets 20]
"""

import argparse
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from nbchat import Agent
from nbchat.errors import NbchatError

DATA = Path(__file__).parents[2] / "notebooks" / "data" / "tickets.jsonl"


class Decision(BaseModel):
    category: Literal["card", "transfer", "other"]
    priority: Literal["low", "normal", "high"]
    reason: str


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=20)
    count = parser.parse_args().tickets
    lines = DATA.read_text(encoding="utf-8").splitlines()[:count]
    agent = Agent("local:smollm2", system="You triage tickets.")
    valid = 0
    for line in lines:
        prompt = f"Ticket: {json.loads(line)['text']}"
        try:
            answer = agent.another().ask(prompt, output=Decision)
        except NbchatError as error:
            print(error)
        else:
            valid += isinstance(answer.value, Decision)
    print(f"{valid} of {len(lines)} answers are valid")


if __name__ == "__main__":
    main()
