"""What a turn changed in the notebook is undone cell by cell, but not a person's edits."""

import json

from tables import every

from nbchat.conversation.cell_changes import (
    CHARACTERS_KEPT,
    CellChange,
    CellChanges,
    CellState,
    CellUndo,
    counts,
    difference,
    masked,
    undo_of,
)

SECRET = "key = 'sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34'"


def code(source: str, **details: object) -> CellState:
    return CellState("code", source, **details)


def edit(cell: str, before: str, after: str, turn: int = 0) -> CellChange:
    return CellChange(turn, cell, code(before), code(after))


def undone(change: CellChange) -> CellChange:
    return CellChange(change.turn, change.cell, change.after, change.before, True)


def test_a_cell_that_a_turn_changed_twice_goes_back_to_before_the_turn():
    (undo,) = undo_of([edit("a", "1", "2"), edit("a", "2", "3")])
    assert undo == CellUndo("a", left=code("3"), before=code("1"))
    assert undo.outcome(code("3")) == "restored"
    assert undo.restored(code("3")) == (code("1"),)


def test_the_newest_change_is_undone_first():
    changes = [edit("a", "1", "2"), edit("b", "1", "2"), edit("a", "2", "3")]
    assert [undo.cell for undo in undo_of(changes)] == ["a", "b"]


def test_a_cell_that_was_inserted_and_deleted_needs_no_undo():
    inserted = CellChange(0, "a", None, code("1"))
    deleted = CellChange(0, "a", code("1"), None)
    assert undo_of([inserted, deleted]) == []


@every(
    ("left", "before", "present", "outcome"),
    [
        ("2", "1", "2", "restored"),
        ("2", "1", "2 # mine", "edited"),
        ("2", "1", "1", "same"),
        ("2", "1", None, "deleted"),
        ("2", None, "2", "restored"),
        ("2", None, "2 # mine", "edited"),
        ("2", None, None, "same"),
        (None, "1", None, "restored"),
        (None, "1", "1", "same"),
        (None, "1", "1 # mine", "edited"),
    ],
)
def test_only_a_cell_that_is_as_the_turn_left_it_is_restored(
    left, before, present, outcome
):
    states = (None if each is None else code(each) for each in (left, before, present))
    left, before, present = states
    assert CellUndo("a", left, before).outcome(present) == outcome


def test_a_kind_that_a_person_changed_stays():
    undo = CellUndo("a", left=code("2"), before=code("1"))
    assert undo.outcome(CellState("markdown", "2")) == "edited"


def test_a_cell_that_was_moved_goes_back_below_the_one_it_was_below():
    moved = CellChange(0, "a", code("1", above="x"), code("1", above="y"))
    (undo,) = undo_of([moved])
    assert undo.outcome(code("1", above="y")) == "restored"
    assert undo.outcome(code("1", above="x")) == "same"
    assert counts([undo])["moved"] == 1


@every(
    ("above", "below", "outcome"),
    [
        ("c", "d", "restored"),
        ("c", "new", "restored"),
        ("new", "d", "restored"),
        ("b", "c", "moved"),
        ("", "a", "moved"),
        ("a", "b", "same"),
    ],
)
def test_a_cell_that_a_person_moved_since_stays_where_it_is(above, below, outcome):
    before, left = code("1", above="a", below="b"), code("1", above="c", below="d")
    (undo,) = undo_of([CellChange(0, "x", before, left)])
    assert undo.outcome(code("1", above=above, below=below)) == outcome


def test_of_a_cell_that_was_moved_and_changed_the_text_goes_back_wherever_it_is():
    before, moved = code("1", above="a", below="b"), code("1", above="c", below="d")
    by_a_person = code("1", above="", below="a")
    changes = [
        CellChange(0, "x", before, moved),
        CellChange(0, "x", by_a_person, code("2", above="", below="a")),
    ]
    (undo,) = undo_of(changes)
    present = code("2", above="", below="a")
    assert undo.outcome(present) == "restored"
    assert undo.is_moved_since(present)


def test_what_is_undone_is_not_undone_again_until_the_turn_changes_it_again():
    first = edit("a", "1", "2")
    assert undo_of([first, undone(first)]) == []
    (again,) = undo_of([first, undone(first), edit("a", "1", "5")])
    assert (again.left, again.before) == (code("5"), code("1"))


def test_the_difference_shows_what_an_undo_would_take_from_a_person():
    shown = difference(code("x = 2\nmine = 1"), code("x = 1"))
    assert shown.splitlines()[1:] == ["-x = 2", "-mine = 1", "+x = 1"]


def test_a_stored_change_comes_back_without_secrets():
    outputs = json.dumps([{"output_type": "stream", "text": SECRET}])
    change = CellChange(
        4, "a", code(f"a = 1\n{SECRET}", outputs=outputs), None, is_undo=True
    )
    stored = masked(change).to_json()
    assert "sk-proj" not in stored
    read = CellChange.from_json(4, stored)
    assert read == masked(change)
    assert json.loads(read.before.outputs)[0]["output_type"] == "stream"


def test_after_a_restart_a_secret_is_taken_from_the_cell_as_it_is():
    stored = CellChange(0, "a", code(f"a = 1\n{SECRET}"), code(f"a = 2\n{SECRET}"))
    read = CellChange.from_json(0, masked(stored).to_json())
    (undo,) = undo_of([read])
    present = code(f"a = 2\n{SECRET}")
    assert undo.outcome(present) == "restored"
    assert undo.restored(present)[0].source == f"a = 1\n{SECRET}"
    assert undo.outcome(code(f"a = 3\n{SECRET}")) == "edited"


def test_a_deleted_cell_whose_secret_was_not_kept_is_not_restored_with_a_placeholder():
    stored = CellChange(0, "a", code(SECRET), None)
    (undo,) = undo_of([CellChange.from_json(0, masked(stored).to_json())])
    assert undo.outcome(None) == "hidden"


def test_the_last_twenty_turns_are_kept():
    changes = CellChanges()
    for turn in range(30):
        changes.append(edit("a", "1", "2", turn))
    assert changes.turns == [*range(10, 30)]
    assert [each.turn for each in changes.since(28)] == [28, 29]
    assert changes.since(30) == ()
    assert len(changes.of_turn(12)) == 1


def test_the_oldest_turns_go_when_they_are_too_large_together():
    changes = CellChanges()
    for turn in range(4):
        changes.append(edit("a", "1" * (CHARACTERS_KEPT * 2 // 5), "2", turn))
    assert changes.turns == [2, 3]
    changes.append(edit("a", "1" * CHARACTERS_KEPT, "2", 4))
    assert changes.turns == []
