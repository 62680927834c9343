"""Contents of a notebook for a chat to attach, without a notebook."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nbchat.chat.attachments.mentions import Cell


@dataclass
class Desk:
    """A notebook in a few values."""

    folder: Path = Path()
    values: Mapping[str, object] = field(default_factory=dict)
    cells: Mapping[int, Cell] = field(default_factory=dict)
    positions: Mapping[int, Cell] = field(default_factory=dict)
    traceback: str = ""

    def variables(self) -> Mapping[str, object]:
        return self.values

    def cell(self, number: int | None) -> Cell | None:
        return self.cells.get(max(self.cells, default=0) if number is None else number)

    def cell_at(self, position: int) -> Cell | None:
        return self.positions.get(position)

    def error(self, shown: str = "", source: str = "") -> str:
        return f"{shown} in {source}" if shown else self.traceback
