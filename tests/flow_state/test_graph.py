"""State machines over graphs: which paths are told apart, and how often a called function is walked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from amplint.events import Backward, CacheCleared, Event, Handled, LoopIterated, Place
from amplint.findings import Span
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import Condition, asked, both, negation
from amplint.flow.state.graph import Calls, Graph, Happens, Relevant, Run, together
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import TRUE


def place(line: int) -> Place:
    return Place("a.py", ("a.py", line), lambda: Span(line, 1, line, 2), lambda: "")


def flag(name: str) -> Condition:
    return asked(is_true(symbol("test", name)))


def event(line: int) -> Event:
    return Backward(place(line), (), "backward")


def happens(line: int, condition: Condition = TRUE) -> Happens:
    return Happens(condition, event(line))


def calls(graph: Graph, line: int = 99, condition: Condition = TRUE) -> Calls:
    return Calls(condition, graph, place(line))


def graph(*items: Happens | Calls) -> Graph:
    made = Graph()
    made.items += items
    return made


KINDS: frozenset[type[Event]] = frozenset({Backward, LoopIterated})


@dataclass
class Ear:
    """A machine whose state is what ``step`` makes of it, and the lines that it heard."""

    step: Callable[[tuple[int, ...], int], tuple[int, ...]]

    def __post_init__(self) -> None:
        self.heard: list[tuple[tuple[int, ...], int]] = []

    def hear(self, state: tuple[int, ...], happened: Event) -> tuple[int, ...]:
        self.heard.append((state, happened.place.line))
        return self.step(state, happened.place.line)


def kept(state: tuple[int, ...], line: int) -> tuple[int, ...]:
    return (*state, line)


def unchanged(state: tuple[int, ...], line: int) -> tuple[int, ...]:
    return state


def test_a_flag_that_is_asked_again_keeps_its_answer() -> None:
    ear = Ear(kept)
    ends = Run(KINDS, ear.hear).over(
        graph(happens(1, flag("p")), happens(2, flag("p")), happens(3, negation(flag("p")))), ()
    )
    assert set(ends) == {(1, 2), (3,)}


def test_what_the_caller_knows_holds_in_the_called_function() -> None:
    inner = graph(happens(2, flag("p")), happens(3, negation(flag("p"))))
    ends = Run(KINDS, Ear(kept).hear).over(graph(calls(inner, 1, flag("p"))), ())
    assert set(ends) == {(2,), ()}


def test_what_the_called_function_decided_holds_after_it() -> None:
    inner = graph(happens(1, flag("p")))
    ends = Run(KINDS, Ear(kept).hear).over(graph(calls(inner), happens(2, negation(flag("p")))), ())
    assert set(ends) == {(1,), (2,)}


@pytest.mark.parametrize("flags", [2, 20])
def test_many_flags_are_told_apart(flags: int) -> None:
    """Something is opened under one of many flags and closed under the same one, with the others in between."""
    around = [flag(f"many {index}") for index in range(flags)]
    items = [happens(line + 1, condition) for line, condition in enumerate(around + around)]
    toggled = Ear(lambda state, _: () if state else (1,))
    assert Run(KINDS, toggled.hear).over(graph(*items), ()) == [()]


def test_a_function_is_walked_once_for_a_state() -> None:
    """Thirty functions each of which calls the next one twice: a thousand million calls."""
    made = graph(happens(1))
    for _ in range(30):
        made = graph(calls(made), calls(made))
    ear = Ear(unchanged)
    Run(KINDS, ear.hear).over(made, ())
    assert ear.heard == [((), 1)]


def test_a_function_is_walked_again_for_another_state() -> None:
    inner = graph(happens(1))
    ear = Ear(lambda state, line: (*state, line)[-2:])
    Run(KINDS, ear.hear).over(graph(calls(inner), calls(inner), calls(inner), calls(inner)), ())
    assert ear.heard == [((), 1), ((1,), 1), ((1, 1), 1)]


def test_a_function_is_walked_again_where_the_caller_knows_more() -> None:
    inner = graph(happens(1, flag("p")), happens(2, negation(flag("p"))))
    ear = Ear(unchanged)
    Run(KINDS, ear.hear).over(
        graph(calls(inner, 8, flag("p")), calls(inner, 9, negation(flag("p")))),
        (),
    )
    assert ear.heard == [((), 1), ((), 2)]


def test_events_of_calls_say_who_called() -> None:
    found: list[tuple[int, ...]] = []

    def hear(state: int, happened: Event) -> int:
        found.append(tuple(call.line for call in happened.place.calls))
        return state

    Run(KINDS, hear).over(graph(calls(graph(calls(graph(happens(1)), 5)), 7)), 0)
    assert found == [(7, 5)]


def test_what_is_about_others_is_not_heard() -> None:
    """Odd lines are of use to all, the others are about themselves. Runs share what is known of a graph."""
    relevant = Relevant(KINDS, lambda happened: None if happened.place.line % 2 else (happened.place.line,))
    told = graph(happens(1), happens(2), calls(graph(happens(4), happens(5), happens(2))), happens(3))
    for subject, expected in ((2, (1, 2, 5, 2, 3)), (4, (1, 4, 5, 3)), (6, (1, 5, 3))):
        run = Run(KINDS, Ear(kept).hear, relevant=relevant, subject=subject)
        assert run.over(told, ()) == [expected]


def test_a_call_with_nothing_but_loops_is_left_out() -> None:
    loop = Happens(TRUE, LoopIterated(place(4), (), "loop", 0))
    ear = Ear(kept)
    Run(KINDS, ear.hear).over(graph(happens(1), calls(graph(loop)), happens(2)), ())
    assert [line for _, line in ear.heard] == [1, 2]
    ear = Ear(kept)
    Run(KINDS, ear.hear).over(graph(calls(graph(loop, happens(3)))), ())
    assert [line for _, line in ear.heard] == [4, 3]


def test_different_events_come_once_for_all_calls() -> None:
    inner = graph(happens(1), Happens(TRUE, CacheCleared(place(2), ())))
    outer = graph(calls(inner), calls(inner), happens(3))
    assert [one.place.line for one in outer.different(frozenset({Backward}))] == [3, 1]
    assert [one.place.line for one in outer.events()] == [1, 2, 1, 2, 3]


def test_nothing_is_told_on_a_path_that_has_forgotten_something() -> None:
    """Forty flags are more than a path remembers: it may seem that something is still open where all is closed."""
    around = [flag(f"forgotten {index}") for index in range(40)]
    items = [happens(line + 1, condition) for line, condition in enumerate(around + around)]
    told: list[tuple[int, ...]] = []

    def hear(state: tuple[int, ...], happened: Event) -> tuple[int, ...]:
        if happened.place.line == 81 and state:
            told.append(state)
        return () if state else (1,)

    run = Run(KINDS, hear)
    run.over(graph(*items, happens(81)), ())
    assert run.cut
    assert not told


def test_of_paths_that_would_have_to_remember_too_much_some_are_walked() -> None:
    """What is open on all of forty paths is told on those that are left."""
    around = [flag(f"kept {index}") for index in range(40)]
    steps = [happens(line + 2, condition) for line, condition in enumerate(around + around)]
    told: list[tuple[int, ...]] = []

    def hear(state: tuple[int, ...], happened: Event) -> tuple[int, ...]:
        line = happened.place.line
        if line == 99:
            told.append(state[:1])
            return state
        return (state[0], line) if state else (line,)

    run = Run(KINDS, hear)
    run.over(graph(happens(1), *steps, happens(99)), ())
    assert run.cut
    assert set(told) == {(1,)}


def test_what_happens_on_both_of_two_ways_is_one_item() -> None:
    yes, no = flag("way"), negation(flag("way"))
    one = [happens(1, yes), happens(2, yes), happens(4, yes)]
    other = [happens(1, no), happens(3, no), happens(4, no)]
    found = together(one, other)
    assert [item.event.place.line for item in found if isinstance(item, Happens)] == [1, 2, 3, 4]
    assert [item.condition for item in found] == [TRUE, yes, no, TRUE]


def test_a_path_that_ends_in_a_call_goes_no_further() -> None:
    """``if p: report(); raise`` in a function: what its caller does then is done where p is false alone."""
    p = flag("p")
    made = graph(happens(1, p), happens(2, negation(p)))
    made.end = negation(p)
    ear = Ear(kept)
    assert Run(KINDS, ear.hear).over(graph(calls(made), happens(3)), ()) == [(2, 3)]
    assert ear.heard == [((), 1), ((), 2), ((2,), 3)]


def test_only_paths_that_come_to_the_end_are_walked() -> None:
    """``if not p: raise``: whether p is true need not be asked at each event that follows."""
    made = graph(happens(1), happens(2, flag("p")), happens(3, both(flag("p"), flag("q"))))
    made.end = flag("p")
    ear = Ear(kept)
    assert Run(KINDS, ear.hear).over(graph(calls(made), happens(4, negation(flag("p")))), ()) == [
        (1, 2, 3),
        (1, 2),
    ]


def test_what_happens_only_before_an_error_is_heard() -> None:
    made = graph(happens(1, negation(flag("p"))), happens(2, flag("p")))
    made.end = flag("p")
    ear = Ear(kept)
    Run(KINDS, ear.hear).over(graph(calls(made)), ())
    assert [line for _, line in ear.heard] == [1, 2]


def test_what_was_tried_is_taken_to_have_been_done() -> None:
    """``try: a() except: b()`` and what follows: b is heard, and no path goes on without a."""
    raised = flag("raised")
    left = Happens(raised, Handled(place(3), ()))
    ear = Ear(kept)
    tried = graph(happens(1, negation(raised)), happens(2, raised), left, happens(4))
    assert Run(KINDS, ear.hear).over(tried, ()) == [(1, 4)]
    assert 2 in {line for _, line in ear.heard}


def test_what_was_tried_does_not_matter_where_it_does_nothing() -> None:
    raised = flag("raised")
    left = Happens(raised, Handled(place(3), ()))
    assert set(Run(KINDS, Ear(kept).hear).over(graph(happens(2, raised), left, happens(4)), ())) == {
        (2, 4),
        (4,),
    }


def test_under_which_condition_an_event_happens_is_told_before_it_is_heard() -> None:
    """The path knows more than the event's own function, as long as none were given up."""
    told: list[tuple[Condition, int]] = []
    ear = Ear(kept)

    def hear(state: tuple[int, ...], happened: Event) -> tuple[int, ...]:
        told.append((under[-1], happened.place.line))
        return ear.hear(state, happened)

    under: list[Condition] = []
    run = Run(KINDS, hear, under=lambda found, event: under.append(found))
    inner = graph(happens(3, flag("b")))
    run.over(graph(happens(1, flag("a")), happens(2), calls(inner, condition=flag("a"))), ())
    assert (flag("a"), 1) in told
    assert {condition for condition, line in told if line == 2} == {flag("a"), negation(flag("a"))}
    run = Run(KINDS, hear, under=lambda found, event: under.append(found), cut=True)
    told.clear()
    run.over(graph(happens(1, flag("a")), happens(2), calls(inner, condition=flag("a"))), ())
    assert {condition for condition, line in told if line == 2} == {TRUE}
    assert {condition for condition, line in told if line == 3} == {flag("b")}


def test_a_run_may_keep_answers_that_nobody_asks_for_again() -> None:
    told: list[Condition] = []
    made = graph(happens(1, flag("a")), calls(graph(happens(2))))
    run = Run(KINDS, Ear(kept).hear, under=lambda found, event: told.append(found))
    run.over(made, ())
    assert told[1:] == [TRUE, TRUE]
    told.clear()
    run.keeping(lambda subject: True, made).over(made, ())
    assert told[1:] == [flag("a"), negation(flag("a"))]
