"""The answer of the quick server, as a type."""

from typing import Literal

from pydantic import BaseModel


class Decision(BaseModel):
    category: Literal["card", "transfer", "other"]
    ticket: str
