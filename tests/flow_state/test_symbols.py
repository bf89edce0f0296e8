"""What symbols are sorted by: the same in every run, and cheap however deep their parts go."""

from __future__ import annotations

from pathlib import Path

from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import choice
from amplint.flow.state.symbols import made_from, symbol
from amplint.flow.state.values import Constant, FunctionValue, Sequence, Unknown, Value
from amplint.source.project import ProjectFile
from amplint.source.texts import SourceFile


def shared(depth: int) -> Value:
    """A tree in which both sides of each node are lists of the same tree."""
    tree: Value = Unknown(symbol("leaf"))
    for level in range(depth):
        tree = choice(is_true(symbol("flag", level)), Sequence((tree,)), Sequence((tree, tree)))
    return tree


def test_each_node_of_a_tree_counts_once() -> None:
    # written out it would have 3 ** 64 leaves
    assert symbol("one of", shared(64)).order != symbol("one of", shared(63)).order


def test_a_name_is_made_from_all_that_is_in_it() -> None:
    model = symbol("made", "model")
    name = symbol("attribute", model, "head")
    for _ in range(64):  # written out it would have 2 ** 64 parts
        name = symbol("joined", name, name)
    assert model in made_from(name)
    assert symbol("made", "other") not in made_from(name)
    assert made_from(model) == set()


def test_parts_of_other_types_and_values_are_told_apart() -> None:
    parts = [1, "1", True, 1.0, None, (1,), (1, 1), frozenset({1}), Constant(1), Constant("1")]
    assert len({symbol("part", part).order for part in parts}) == len(parts)


def test_no_address_in_memory_has_a_say(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text("def one(): ...\n")

    def read() -> ProjectFile:
        return ProjectFile(SourceFile(path, "one.py", path.read_text()), "one")

    first, second = read(), read()
    one, two = (
        symbol("made", FunctionValue(file, file.outline.functions["one"])) for file in (first, second)
    )
    assert one is not two
    assert one.order == two.order
