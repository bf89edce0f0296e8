"""The protocol of torch's GradScaler as a state machine over events: scale, backward, unscale_, step, update.

The stages of an optimizer are those of ``torch.amp.grad_scaler.OptState``. What torch does not keep is added:
whether the gradients are scaled, were scaled before the latest ``update``, or are divided by the scale already.
The machine says which call breaks the protocol and what torch does about it. Where code out of sight may have
acted, it forgets what it knew; where several optimizers are about, it does not guess whose parameters a
backward pass reached.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import NamedTuple, Protocol

from amplint.events import (
    BY_SCALE,
    INITIAL_SCALE,
    AmpHidden,
    Backward,
    Event,
    FunctionEnded,
    GradientsRead,
    GradientsZeroed,
    LoopIterated,
    OptimizerMade,
    OptimizerStepped,
    Place,
    Rounds,
    ScaledLossRead,
    ScalerMade,
    ScalerUsed,
)


class Stage(enum.Enum):
    """torch's OptState."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class Fault(enum.Enum):
    """What can be wrong, with what torch does then."""

    UNSCALED_LOSS = "a backward pass without scale, then a step that divides: the update is lost"
    NEVER_SCALED = "unscale_ or step of a scaler that never scaled anything: AssertionError"
    OTHER_SCALER = "step of another scaler than the one that scaled: divides by a wrong scale"
    DIRECT_STEP = "optimizer.step() applies scaled gradients"
    SECOND_STEP = "optimizer.step() applies gradients that scaler.step has applied"
    NO_UPDATE = "the next step or unscale_ without update in between: RuntimeError"
    STILL_UNSCALED = "step of scaled gradients that it takes for unscaled ones: update was left out"
    CLIPPED_SCALED = "gradients are clipped and divided by the scale afterwards"
    MEASURED_SCALED = "the norm of gradients is taken while they are scaled"
    UNSCALED_TWICE = "unscale_ of an optimizer that is unscaled: RuntimeError"
    UNSCALED_AFTER_STEP = "unscale_ after step: RuntimeError"
    BACKWARD_AFTER_UNSCALE = "scaled gradients are added to unscaled ones"
    READ_SCALED = "a scaled loss is read as a number"
    SCALED_TWICE = "a loss is scaled that is scaled already"
    UPDATED_BEFORE_STEP = "the scale changes between backward and the division"
    DIVIDED_TWICE = "update makes step divide unscaled gradients again"
    OTHER_OBJECT = "unscale_ of an optimizer and step of an object around it, or inside: divides twice"
    ADDED_TO_APPLIED = (
        "scaled gradients are added to unscaled ones that a step has applied and nobody dropped"
    )
    NOTHING_TO_UPDATE = "update without a step or unscale_: AssertionError"


class Violation(NamedTuple):
    """A break of the protocol at ``place``, and the other call that makes it one. ``limit`` is what a clip
    allows, ``how`` what was called there, ``enabled`` whether the scaler is known to be on, ``initial`` the scale
    that it starts with, if that is known; ``switched`` says that a flag switches the scaler."""

    fault: Fault
    place: Place
    other: Place
    how: str = ""
    limit: float | None = None
    enabled: bool | None = None
    initial: float | None = INITIAL_SCALE
    switched: bool = False


class Read(NamedTuple):
    """A clip or a norm of gradients that are scaled, as long as nobody has divided them."""

    place: Place
    modules: frozenset[Hashable]
    how: str
    clips: bool
    limit: float | None
    mixed: bool = False
    """Whether gradients of another optimizer were among them that had been divided: only who applies scaled ones shows
    it."""

    @property
    def is_applied(self) -> bool:
        """Whether it has changed the gradients, so that nothing that is done with its result makes it right."""
        return self.clips and self.limit != float("inf")

    def ends_with(self, held: Held) -> bool:
        """Whether nothing more can come of it after a division or step of this optimizer."""
        return held.may_hold(self.modules) and not (self.mixed and held.fresh is None)


class Held(NamedTuple):
    """An optimizer and the gradients of its parameters. Places tell where things came about."""

    optimizer: Hashable = None
    modules: frozenset[Hashable] = frozenset()
    scaler: Hashable = None
    stage: Stage = Stage.READY
    staged: Place | None = None
    """The unscale_ or step that led to the stage."""
    given: Hashable = None
    """What the scaler was given there in place of the optimizer."""
    fresh: Place | None = None
    """The backward pass that left scaled gradients."""
    fresh_by: tuple[Hashable, ...] = ()
    stale: Place | None = None
    """The update after that backward pass."""
    stale_by: Hashable = None
    """The scaler that was updated there."""
    divided: Place | None = None
    """The unscale_ that divided gradients which no step has applied."""
    last: bool = False
    """Whether that may be in the last round of its loop: no round in which a backward pass adds to them follows."""
    source: Place | None = None
    """The backward pass that they came from."""
    applied: Place | None = None
    """The scaler's step that applied the gradients which are still there."""
    added: tuple[Place, Place] | None = None
    """The step that applied gradients, and the backward pass that then added to them."""
    plain: bool = False
    """Whether a backward pass without scale may have left gradients, too."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is known that distinguishes it from any other optimizer."""
        return (
            self.stage is Stage.READY
            and self.fresh is None
            and self.stale is None
            and self.divided is None
            and self.applied is None
            and self.added is None
            and not self.plain
        )

    def without_gradients(self) -> Held:
        """After zero_grad."""
        return Held(self.optimizer, self.modules, self.scaler, self.stage, self.staged, self.given)

    def may_hold(self, modules: frozenset[Hashable]) -> bool:
        """Whether parameters of these modules may be among its own."""
        return not self.modules or not modules or bool(self.modules & modules)

    def surely_holds(self, modules: frozenset[Hashable]) -> bool:
        """Whether parameters of these modules are among its own."""
        return bool(self.modules & modules)


class Known(NamedTuple):
    """What is known of a scaler. ``made``: it was built in sight; ``whole``: so are all of its uses since it
    was made or last updated; ``home``: the function that built it or last had it step, with the calls that led
    there."""

    scaler: Hashable
    made: bool = False
    whole: bool = False
    scaled: bool = False
    checked: bool = False
    home: Hashable = None
    enabled: bool | None = None
    initial: float | None = INITIAL_SCALE
    switched: bool = False


_ANY = Held()


class State(NamedTuple):
    """Where a path stands."""

    optimizers: tuple[Held, ...] = ()
    others: Held = _ANY
    """Stands for all optimizers that were not heard of yet."""
    several: bool = False
    """Whether there is more than one optimizer, or may be."""
    scalers: tuple[Known, ...] = ()
    plain: Place | None = None
    """A backward pass without scale whose gradients nobody has applied."""
    reads: tuple[Read, ...] = ()
    losses: tuple[tuple[Place, str], ...] = ()
    """Reads of scaled losses that may yet be divided by the scale."""
    scale_asked: int = 0
    """Whether the code asked for the scale or the stages: 2 since the last update, and 1 before it. The losses that it
    reads may be divided by that."""
    by_scale: bool = False
    """Whether it has computed with the scale, or asked for the stages, since the last update: it may divide gradients,
    and what it has measured of them, by hand."""
    made: int = 0
    """How many optimizers were built and not heard of since, two at most."""
    over: bool = False
    """Whether torch has raised: nothing that is heard from here on happens."""


_RAISING = frozenset(
    {
        Fault.NEVER_SCALED,
        Fault.NO_UPDATE,
        Fault.UNSCALED_TWICE,
        Fault.UNSCALED_AFTER_STEP,
        Fault.NOTHING_TO_UPDATE,
    }
)
"""Faults at which a run ends; what is heard after them tells nothing more."""
_MOST = 4
_START = State()
_OVER = State(over=True)


class Surroundings(Protocol):
    """What the machine asks of whoever produces the events, about the code around them. For rules it is Context."""

    def may_be_unscaled(self, event: ScalerUsed) -> bool:
        """Whether the gradients that a scaler divides here may be divided already."""

    def may_be_scaled(self, event: Backward) -> bool:
        """Whether callers out of sight may have scaled the loss that nothing in sight scales."""

    def rounds(self, event: ScalerUsed) -> Rounds:
        """In which rounds of the loop around an event it happens."""


class GradScalerProtocol:
    """Moves the state from event to event. For rules it is PROTOCOL."""

    hears: tuple[type[Event], ...] = (
        AmpHidden,
        Backward,
        FunctionEnded,
        GradientsRead,
        GradientsZeroed,
        LoopIterated,
        OptimizerMade,
        OptimizerStepped,
        ScaledLossRead,
        ScalerMade,
        ScalerUsed,
    )

    never_without: tuple[type[Event], ...] = (ScalerMade, ScalerUsed)
    """Without any of these nothing can be broken."""

    def start(self) -> State:
        """Nothing has happened."""
        return _START

    def hear(self, state: State, event: Event, around: Surroundings) -> tuple[State, tuple[Violation, ...]]:
        """The next state, and what the event breaks."""
        if state.over:
            return state, ()
        move = _Move(state, around)
        match event:
            case ScalerUsed():
                move.used(event)
            case Backward():
                move.backward(event)
            case OptimizerStepped():
                move.stepped(event)
            case GradientsRead():
                move.read(event)
            case GradientsZeroed():
                move.zeroed(event)
            case ScaledLossRead():
                move.loss_read(event)
            case OptimizerMade():
                move.optimizer_made(event)
            case ScalerMade() if event.enabled is not False:
                move.scaler_made(event)
            case LoopIterated() | FunctionEnded():
                move.tell_losses(event.place)
            case AmpHidden():
                return _START._replace(
                    several=True, scale_asked=state.scale_asked, by_scale=state.by_scale
                ), ()
        return move.end()


PROTOCOL = GradScalerProtocol()


def _home(place: Place) -> Hashable:
    return place.path, place.calls


class _Move:
    """One step of the machine, on the state in parts that can be changed."""

    __slots__ = (
        "around",
        "by_scale",
        "losses",
        "made",
        "optimizers",
        "others",
        "plain",
        "reads",
        "scale_asked",
        "scalers",
        "several",
        "state",
        "violations",
    )

    def __init__(self, state: State, around: Surroundings) -> None:
        self.state = state
        self.around = around
        self.optimizers = {held.optimizer: held for held in state.optimizers}
        self.others = state.others
        self.several = state.several
        self.scalers = {known.scaler: known for known in state.scalers}
        self.plain = state.plain
        self.reads = state.reads
        self.losses = state.losses
        self.scale_asked, self.by_scale = state.scale_asked, state.by_scale
        self.made = state.made
        self.violations: list[Violation] = []

    def end(self) -> tuple[State, tuple[Violation, ...]]:
        """The state after the step."""
        if self.violations:
            self._complete()
            if any(violation.fault in _RAISING for violation in self.violations):
                return _OVER, tuple(self.violations)
        optimizers = tuple(self.optimizers.values())
        if self.several:
            # the clean ones tell no more than that they are there, and that they are not like the others
            optimizers = tuple(
                held for held in optimizers if not held.is_clean or held.modules or not self.others.is_clean
            )[-_MOST:]
        state = State(
            optimizers,
            self.others,
            self.several,
            tuple(self.scalers.values())[-_MOST:],
            self.plain,
            self.reads,
            self.losses,
            self.scale_asked,
            self.by_scale,
            self.made,
        )
        return (self.state if state == self.state else state), tuple(self.violations)

    def _complete(self) -> None:
        """Adds to what was broken what is known of the scalers."""
        initial = {known.initial for known in self.scalers.values()}
        if initial != {INITIAL_SCALE}:
            scale = initial.pop() if len(initial) == 1 else None
            self.violations = [violation._replace(initial=scale) for violation in self.violations]
        if any(known.switched for known in self.scalers.values()):
            self.violations = [violation._replace(switched=True) for violation in self.violations]

    # what is known ---------------------------------------------------------------------------------------

    def violate(self, fault: Fault, place: Place, other: Place, **more: object) -> None:
        self.violations.append(Violation(fault, place, other, **more))  # type: ignore[arg-type]

    def optimizer_made(self, event: OptimizerMade) -> None:
        """An optimizer was built. It is held when it is used: a choice among several makes one optimizer. Gradients
        that are there already are those of others, unless it gets a module that one of these surely has."""
        if event.optimizer in self.optimizers:
            self.optimizers[event.optimizer] = Held(event.optimizer, event.modules)
            return
        self.made = min(self.made + 1, 2)
        self.several = self.several or self.made > 1
        if not self.others.is_clean and not any(
            held.surely_holds(event.modules) for held in self.optimizers.values()
        ):
            self.optimizers[event.optimizer] = Held(event.optimizer, event.modules)

    def scaler_made(self, event: ScalerMade) -> None:
        """A scaler was built. Where no optimizer was built in sight, one that was not heard of so far is taken to be
        its own, as in a second training: what another scaler's backward pass has left is not there."""
        self.know(Known(event.scaler, made=True, whole=True, home=_home(event.place), enabled=event.enabled))
        if self.made == 0:
            self.others = self.others.without_gradients()

    def hold(self, optimizer: Hashable, modules: frozenset[Hashable]) -> Held:
        """An optimizer, which is heard of for the first time perhaps."""
        held = self.optimizers.get(optimizer)
        if held is None:
            held = self.others._replace(optimizer=optimizer, modules=modules)
            self.several = self.several or any(key != optimizer for key in self.optimizers)
            self.optimizers[optimizer] = held
        return held

    def keep(self, held: Held) -> None:
        self.optimizers[held.optimizer] = held

    def know(self, known: Known) -> None:
        self.scalers.pop(known.scaler, None)
        self.scalers[known.scaler] = known

    def each(self) -> list[Held]:
        """All optimizers, with the one that stands for those not heard of."""
        return [*self.optimizers.values(), self.others]

    def put(self, changed: list[Held]) -> None:
        """Sets what ``each`` gave."""
        self.optimizers = {held.optimizer: held for held in changed[:-1]}
        self.others = changed[-1]

    # scalers -----------------------------------------------------------------------------------------------

    def used(self, event: ScalerUsed) -> None:
        """A method of a scaler was called, or what it gave is computed with."""
        if event.act == BY_SCALE:
            self.by_scale = True
            self.reads = tuple(read for read in self.reads if read.is_applied)
            return
        if event.enabled is False:
            if event.act == "step":
                self.plain, self.reads = None, ()
            return
        known = self.scalers.get(event.scaler) or Known(event.scaler)
        enabled, switched = known.enabled, known.switched
        if event.enabled is not None:
            enabled, switched = event.enabled, event.switch is not None
        if (known.initial, known.enabled, known.switched) != (event.initial, enabled, switched):
            known = known._replace(initial=event.initial, enabled=enabled, switched=switched)
        match event.act:
            case "scale":
                if event.scaler in event.scaled_by:
                    self.violate(Fault.SCALED_TWICE, event.place, event.place, enabled=event.enabled)
                known = known._replace(scaled=True)
            case "given" | "cut":
                self.forget()
                known = known._replace(made=False, whole=False, scaled=True, checked=True)
            case "unscale_" | "step":
                known = self.divide(event, known)
            case "update":
                known = self.update(event, known)
            case "stages":
                # what follows goes by torch's own record
                self.scale_asked, self.by_scale = 2, True
                self.put(
                    [
                        held._replace(stage=Stage.READY, staged=None) if held.scaler == event.scaler else held
                        for held in self.each()
                    ]
                )
            case "get_scale":
                self.scale_asked, self.losses = 2, ()
            case "load_state_dict":
                known = known._replace(scaled=True)
        self.know(known)

    def forget(self) -> None:
        """Code out of sight may have done anything to the gradients."""
        self.optimizers, self.others = {}, _ANY
        self.several, self.plain, self.reads = True, None, ()

    def divide(self, event: ScalerUsed, known: Known) -> Known:
        """unscale_ or step: both divide the gradients that are not divided yet."""
        if known.made and not known.scaled:
            backward = self.plain or event.place
            self.violate(Fault.NEVER_SCALED, event.place, backward, how=event.act, enabled=known.enabled)
            return known._replace(made=False)
        if event.optimizer is None:
            # it may be any of them
            self.judge_any(event, known)
            self.forget()
            return known._replace(checked=True)
        held = self.hold(event.optimizer, event.modules)
        if held.scaler != event.scaler:
            held = held._replace(scaler=event.scaler, stage=Stage.READY)
        elif held.given != event.given and held.stage is not Stage.READY:
            held = self.other_object(event, held, known)
        if held.stage is Stage.STEPPED and held.staged is not None:
            again = event.act == "step" or held.fresh is not None
            if again:
                self.violate(Fault.NO_UPDATE, held.staged, event.place, how=event.act, enabled=known.enabled)
            else:
                self.violate(Fault.UNSCALED_AFTER_STEP, event.place, held.staged, enabled=known.enabled)
        elif held.stage is Stage.UNSCALED and event.act == "unscale_" and held.staged is not None:
            # the same call in another round may not run, whatever a walk takes for possible
            if held.staged != event.place or self.around.rounds(event) is Rounds.ANY:
                self.violate(Fault.UNSCALED_TWICE, event.place, held.staged, enabled=known.enabled)
        elif held.stage is Stage.READY:
            self.judge_division(event, held, known)
        elif held.divided is None and held.fresh is not None and not self.several and held.staged is not None:
            self.violate(Fault.STILL_UNSCALED, held.staged, event.place, enabled=known.enabled)
        elif held.divided is not None and held.fresh is not None and self.sure(held):
            self.violate(Fault.BACKWARD_AFTER_UNSCALE, held.divided, held.fresh, enabled=known.enabled)
        if held.added is not None:
            step, backward = held.added
            self.violate(Fault.ADDED_TO_APPLIED, step, backward, enabled=known.enabled)
            held = held._replace(added=None)
        if event.act == "step":
            self.plain = None
            self.reads = tuple(read for read in self.reads if not read.ends_with(held))
            self.tell_losses(event.place)
            held = Held(
                held.optimizer,
                held.modules,
                held.scaler,
                Stage.STEPPED,
                event.place,
                event.given,
                applied=event.place,
            )
        else:
            held = held._replace(
                stage=Stage.UNSCALED,
                staged=event.place,
                given=event.given,
                divided=event.place,
                last=self.around.rounds(event) is Rounds.ONE,
                source=held.fresh or held.source,
                fresh=None,
                fresh_by=(),
                stale=None,
                stale_by=None,
            )
        self.keep(held)
        return known._replace(checked=True, home=_home(event.place))

    def judge_any(self, event: ScalerUsed, known: Known) -> None:
        """What was clipped too early, whichever optimizer it is that the scaler divides: none was divided since this
        scaler alone scaled all there is."""
        if self.plain is not None or not self.reads or self.around.may_be_unscaled(event):
            return
        if all(
            held.fresh is not None and held.divided is None and held.fresh_by == (event.scaler,)
            for held in self.each()
        ):
            self.tell_reads(self.reads, event, known)

    def tell_reads(self, reads: tuple[Read, ...], event: ScalerUsed, known: Known) -> None:
        """Clips and norms of gradients that are divided only now."""
        for read in reads:
            fault = Fault.CLIPPED_SCALED if read.clips else Fault.MEASURED_SCALED
            self.violate(
                fault, read.place, event.place, how=read.how, limit=read.limit, enabled=known.enabled
            )

    def other_object(self, event: ScalerUsed, held: Held, known: Known) -> Held:
        """An optimizer that the scaler knows by another object: to torch this one is ready still."""
        if held.stage is Stage.UNSCALED and held.divided is not None and held.fresh is None:
            self.violate(Fault.OTHER_OBJECT, event.place, held.divided, enabled=known.enabled)
            return held._replace(stage=Stage.READY, divided=None, stale=None)
        return held._replace(stage=Stage.READY)

    def sure(self, held: Held) -> bool:
        """Whether the latest backward pass surely reached this optimizer's parameters: there is no other
        optimizer, or it is the same call that its gradients came from before, of a loss that the same scaler scaled:
        a loop may take pairs of optimizers and scalers."""
        if not self.several:
            return True
        same = held.scaler is None or not held.fresh_by or held.scaler in held.fresh_by
        return same and held.source is not None and held.source == held.fresh

    def judge_division(self, event: ScalerUsed, held: Held, known: Known) -> None:
        """What is wrong with gradients that are divided by the scale now."""
        enabled = known.enabled
        if self.plain is not None and (
            (held.fresh is None and held.divided is None and enabled) or (held.fresh and not self.several)
        ):
            self.violate(Fault.UNSCALED_LOSS, self.plain, event.place, how=event.act, enabled=enabled)
        elif held.divided is not None and held.fresh is not None:
            if self.sure(held):
                self.violate(Fault.BACKWARD_AFTER_UNSCALE, held.divided, held.fresh, enabled=enabled)
        elif held.divided is not None and held.stale is not None:
            self.violate(Fault.DIVIDED_TWICE, held.stale, event.place, enabled=enabled)
        elif held.stale is not None and (held.fresh is None or not self.several):
            if held.stale_by == event.scaler:
                self.violate(Fault.UPDATED_BEFORE_STEP, held.stale, event.place, enabled=enabled)
        elif (
            held.fresh is not None
            and self.scaled_elsewhere(held, known)
            and (event.scaler not in held.fresh_by or not self.several)
        ):
            self.violate(Fault.OTHER_SCALER, event.place, held.fresh, how=event.act, enabled=enabled)
        own = tuple(read for read in self.reads if read.ends_with(held))
        if held.fresh is not None:
            self.tell_reads(own, event, known)
        self.reads = tuple(read for read in self.reads if read not in own)

    def scaled_elsewhere(self, held: Held, known: Known) -> bool:
        """Whether another scaler scaled the gradients: both were built in sight, so they are two."""
        others = [self.scalers.get(scaler) for scaler in held.fresh_by if scaler != known.scaler]
        return known.made and any(other is not None and other.made for other in others)

    def update(self, event: ScalerUsed, known: Known) -> Known:
        """The scale may change, and all optimizers of the scaler are ready again."""
        # a function elsewhere may have reasons of its own for not stepping
        if (
            known.whole
            and known.home == _home(event.place)
            and not known.checked
            and not event.new_scale
            and not self.several
        ):
            self.violate(Fault.NOTHING_TO_UPDATE, event.place, event.place, enabled=known.enabled)
        changed = []
        for held in self.each():
            if held.scaler in (None, event.scaler):
                late = event.scaler in held.fresh_by or held.divided is not None
                held = held._replace(
                    stage=Stage.READY,
                    staged=None,
                    stale=held.stale or (event.place if late else None),
                    stale_by=held.stale_by if held.stale else event.scaler if late else None,
                    # what was added to unscaled gradients stays wrong
                    fresh=None if late and held.divided is None else held.fresh,
                    source=held.source or held.fresh,
                )
                if held.is_clean:
                    held = held._replace(source=None)
            changed.append(held)
        self.put(changed)
        self.reads, self.by_scale, self.scale_asked = (), False, max(self.scale_asked - 1, 0)
        self.tell_losses(event.place)
        return known._replace(whole=True, checked=False)

    # gradients ---------------------------------------------------------------------------------------------

    def backward(self, event: Backward) -> None:
        """Gradients were added."""
        if event.partial:
            return
        if event.unclear or (not event.scaled_by and self.around.may_be_scaled(event)):
            self.forget()
            return
        if not event.scaled_by:
            self.plain = event.place
            self.put([held._replace(plain=True) for held in self.each()])
            return
        changed = []
        for held in self.each():
            if held.last:
                changed.append(held)
                continue
            before = held.fresh_by if held.fresh is not None else ()
            by = tuple(dict.fromkeys((*before, *event.scaled_by)))[-_MOST:]
            if held.applied is not None and held.optimizer in event.kept:
                held = held._replace(added=(held.applied, event.place))
            changed.append(held._replace(fresh=event.place, fresh_by=by, applied=None))
        self.put(changed)

    def stepped(self, event: OptimizerStepped) -> None:
        """An optimizer stepped without a scaler: what a scaler does is told by ScalerUsed."""
        if event.via_scaler:
            if event.scaler is None:
                self.forget()
            return
        if event.framework or event.optimizer is None:
            self.plain = None
            return
        held = self.hold(event.optimizer, event.modules)
        if event.closure:
            pass  # the closure computes the gradients, in this step as often as the optimizer likes
        elif held.applied is not None and held.fresh is None and self.plain is None:
            self.violate(Fault.SECOND_STEP, event.place, held.applied)
        elif held.divided is None and self.plain is None and (held.fresh or (held.stale and held.source)):
            if (held.plain and self.several) or self._divided_with_another(held):
                pass  # its gradients may be those of a backward pass without a scale, or are divided
            # the step of an optimizer out of sight may go through a scaler after all
            elif event.in_sight or any(self.enabled(scaler) for scaler in held.fresh_by):
                self.violate(Fault.DIRECT_STEP, event.place, held.fresh or held.source or event.place)
        elif held.fresh is not None and held.divided is not None and self.sure(held):
            self.violate(Fault.BACKWARD_AFTER_UNSCALE, held.divided, held.fresh)
        self.plain = None
        self.reads = tuple(read for read in self.reads if not held.may_hold(read.modules))
        self.keep(held.without_gradients())

    def _divided_with_another(self, held: Held) -> bool:
        """Whether the gradients of an optimizer may have been divided as those of another one, unscaled since, that
        has the same parameters: a preconditioner that changes the gradients, and the optimizer that applies them."""
        return any(
            other.optimizer != held.optimizer
            and other.divided is not None
            and other.fresh is None
            and other.may_hold(held.modules)
            for other in self.optimizers.values()
        )

    def enabled(self, scaler: Hashable) -> bool:
        """Whether a scaler is known to be on."""
        known = self.scalers.get(scaler)
        return known is not None and known.enabled is True

    def zeroed(self, event: GradientsZeroed) -> None:
        """Gradients were dropped."""
        self.plain = None
        if event.optimizer is not None:
            held = self.hold(event.optimizer, event.modules)
            self.keep(held.without_gradients())
            self.reads = tuple(read for read in self.reads if not held.may_hold(read.modules))
            return
        self.put([held.without_gradients() if held.may_hold(event.modules) else held for held in self.each()])
        if event.modules and not any(held.surely_holds(event.modules) for held in self.optimizers.values()):
            # a module that may have an optimizer of its own
            self.several = self.several or any(held.modules for held in self.optimizers.values())
        self.reads = ()

    def read(self, event: GradientsRead) -> None:
        """Gradients were clipped or measured."""
        if self.by_scale:
            return
        sure = [held for held in self.optimizers.values() if held.surely_holds(event.modules)]
        possible = sure or [held for held in self.optimizers.values() if held.may_hold(event.modules)]
        mixed = any(held.divided is not None for held in possible)
        if mixed:
            # all of the parameters of a module, and one of the optimizers that have them was not unscaled
            possible = [held for held in sure if held.divided is None] if event.whole else []
        if any(held.fresh is not None for held in possible or ([] if mixed else [self.others])):
            read = Read(event.place, event.modules, event.how, event.clips, event.limit, mixed)
            if read not in self.reads:
                self.reads = (*self.reads, read)[-_MOST:]

    # losses ------------------------------------------------------------------------------------------------

    def loss_read(self, event: ScaledLossRead) -> None:
        """A scaled loss became a number."""
        if not self.scale_asked and (event.place, event.how) not in self.losses:
            self.losses = (*self.losses, (event.place, event.how))[-_MOST:]

    def tell_losses(self, other: Place) -> None:
        """What was read is used as it is."""
        for place, how in self.losses:
            self.violate(Fault.READ_SCALED, place, other, how=how)
        self.losses = ()
