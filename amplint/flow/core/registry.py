"""The registry: what is known of torch, of frameworks and of builtins, by what it is about.

A model is a function with a decorator that says what it is about: ``@models.call("torch.save")``. From the keys
follow the tokens of the byte gate, the effects of a definition, and the functions that are worth walking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from amplint.events import Event
from amplint.flow.state.graph import Calls, Happens
from amplint.flow.state.store import Ambient
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import Value

if TYPE_CHECKING:
    from amplint.flow.core.api import Api, Arguments
    from amplint.lowering.program import Node

Result = Value | None
CallModel = Callable[["Api", str, "Arguments", "Node"], Result]
"""``model(api, qualified name, arguments, node)``: what the call gives; None for "nothing is known of it"."""
MethodModel = Callable[["Api", Any, str, "Arguments", "Node"], Result]
"""``model(api, receiver, name, arguments, node)``."""
AttributeModel = Callable[["Api", Any, str, "Node | None"], Result]
"""``model(api, receiver, name, node)``: what ``receiver.name`` gives; None for "nothing is known of it"."""
StoreModel = Callable[["Api", Any, str, Value, "Node"], bool]
"""``model(api, receiver, name, value, node)`` for ``receiver.name = value``; whether that was all."""
OperatorModel = Callable[["Api", str, Value, Value | None, "Node"], Result]
"""``model(api, operator, left, right, node)``: "+", "+=" for an augmented assignment, "<", "in", "neg"; ``right``
is None for unary operators."""
ItemModel = Callable[["Api", Any, tuple[Value, ...], "Node"], Result]
"""``model(api, receiver, keys, node)`` for ``receiver[keys]``; a SliceValue stands for a slice."""
StoreItemModel = Callable[["Api", Any, tuple[Value, ...], Value, "Node"], bool]
AnnotationModel = Callable[["Api", Symbol], "Value | None"]
EnterModel = Callable[["Api", Any, "Node"], "Value | None"]
"""``model(api, context, node)`` for ``with context as target``; gives what ``target`` is bound to."""
ExitModel = Callable[["Api", Any, "Node"], None]
IterateModel = Callable[["Api", Any, "Node"], Result]
"""``model(api, value, node)``: one item, or a Sequence or Iteration of items."""
TruthModel = Callable[["Api", Any], "Value | None"]
"""``model(api, value)``: TRUE, FALSE, a condition, or None where nothing is known."""
DecorateModel = Callable[["Api", Any, Value, "Node"], Result]
"""``model(api, decorator, function, node)`` for ``@decorator``."""
HavocModel = Callable[["Api", Any, "Node"], None]
"""``model(api, value, node)``: a value was handed to code that is not followed, which may do anything with it."""
DefinitionModel = Callable[["Api", Any], None]
"""``model(api, class)``: a class of the project that derives from a class outside is defined."""
FilledInModel = Callable[["Api", Any, "Arguments", frozenset[type[Event]], "Node"], None]
"""``model(api, receiver, arguments, told, node)``: a method of the project came to its end that fills in, or replaces,
one of a class outside; ``told``: the classes of the events that it told itself."""


DiscardModel = Callable[["Api", Any, str, str, "Node"], None]
"""``model(api, value, how, name, node)``: a value is thrown away: "statement", as the value of a statement;
"unused name", bound to a local name that nothing reads; "boolean", as the left side of ``and`` or ``or``; "class",
a class in place of a context."""


class Hooks:
    """What models want to know of the life of functions, loops and objects."""

    def made(self, api: Api, instance: Value, given: Arguments, each_round: bool, node: Node) -> None:
        """An object of a class of the project is made; ``each_round``: nothing but the loop around decides that."""

    def iterated(self, api: Api, number: int, node: Node) -> None:
        """A round of a loop begins; ``number`` is 0 for the first."""

    def ended(self, api: Api, node: Node) -> None:
        """A loop ended of which not all rounds were walked."""

    def out_of_order(self, api: Api, node: Node) -> None:
        """Objects are gone through in an order that is not known: what is told here is kept if that matters."""

    def depend_on_order(self, rounds: Sequence[Sequence[Happens | Calls]]) -> bool:
        """Whether it matters in which order the rounds of a loop come, by what happens in each."""
        return False

    def handled(self, api: Api, node: Node) -> None:
        """An exception was caught, and its handler was left, by whatever way."""

    def returned(self, api: Api, node: Node) -> None:
        """An entry point came to its end."""

    def entered(self, api: Api, before: dict[type[Ambient], Value], node: Node) -> None:
        """A context manager of the project that is a generator was entered at this node."""

    def left(self, api: Api, before: dict[type[Ambient], Value], node: Node) -> None:
        """A context manager of the project that is a generator is left: ambient values go back to what they were."""

    def unresolved(self, api: Api, method: str, given: Arguments, node: Node) -> None:
        """A method is called on an object of which nothing is known."""

    def opaque(self, api: Api, arguments: Arguments, effects: bool, node: Node) -> Value | None:
        """A call is not followed; ``effects``: the code that is called is known to have effects, or is not known
        at all."""


class Weight(IntEnum):
    """What meeting a key means for a definition."""

    NOTHING = 0
    """It matters only among values that matter by themselves: ``torch.softmax``."""
    EFFECT = 1
    """It changes what models keep: ``optimizer.step()``. Calls of functions with effects are followed."""
    ENTRY = 2
    """AMP is used here: ``torch.autocast``. Functions that reach such a key are judged, and the key's name lets a
    file through the gate."""


BARE = "without arguments"
"""The tag of methods that weigh something only where they are called without arguments: ``x.update()``."""


@dataclass(frozen=True, slots=True)
class About:
    """What the registry says of a key beside its model. ``tags`` are questions to which the key is an answer, such as
    "scales losses"."""

    weight: Weight = Weight.NOTHING
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Kind:
    """What an object from out of sight is, judged by the methods that the code calls on it: it calls all of
    ``all_of`` and none of ``none_of``, and one of ``one_of`` if there are any. Earlier kinds win."""

    name: str
    one_of: frozenset[str] = frozenset()
    all_of: frozenset[str] = frozenset()
    none_of: frozenset[str] = frozenset()

    def fits(self, called: Iterable[str]) -> bool:
        """Whether what is called on an object tells that it is of this kind."""
        names = frozenset(called)
        return (
            self.all_of <= names
            and names.isdisjoint(self.none_of)
            and (not self.one_of or not names.isdisjoint(self.one_of))
        )


@dataclass(eq=False)
class Registry:
    """All models. Each file of models fills one when it is imported; the driver puts them together."""

    calls: dict[str, tuple[CallModel, About]] = field(default_factory=dict)
    namespaces: dict[str, tuple[CallModel, About]] = field(default_factory=dict)
    methods: dict[tuple[type[Value] | str, str | None], tuple[MethodModel, About]] = field(
        default_factory=dict
    )
    """By class of the receiver (for unknown ones: by the name of their kind, "" for none) and name (None: any)."""
    attributes: dict[type[Value] | str, AttributeModel] = field(default_factory=dict)
    externals: dict[str, AttributeModel] = field(default_factory=dict)
    """By the qualified name of what is read: ``torch.float16``. A name that ends in a dot stands for all below it."""
    stores: dict[type[Value] | str, StoreModel] = field(default_factory=dict)
    operators: dict[type[Value], OperatorModel] = field(default_factory=dict)
    items: dict[type[Value] | str, ItemModel] = field(default_factory=dict)
    item_stores: dict[type[Value] | str, StoreItemModel] = field(default_factory=dict)
    enters: dict[type[Value] | str, EnterModel] = field(default_factory=dict)
    exits: dict[type[Value] | str, ExitModel] = field(default_factory=dict)
    iterations: dict[type[Value] | str, IterateModel] = field(default_factory=dict)
    truths: dict[type[Value], TruthModel] = field(default_factory=dict)
    decorates: dict[type[Value], DecorateModel] = field(default_factory=dict)
    havocs: dict[type[Value] | str, HavocModel] = field(default_factory=dict)
    instances: dict[str, MethodModel] = field(default_factory=dict)
    """Calls of objects of the project, by the qualified name of a base class outside: ``torch.nn.Module``. A name
    that ends in a dot stands for all below it."""
    classes: dict[str, CallModel] = field(default_factory=dict)
    """Calls of classes of the project, by the qualified name of a base class outside, or its beginning up to a
    dot. The class is ``arguments.receiver``."""
    members: dict[str, Collection[str]] = field(default_factory=dict)
    """The attributes that objects of a class outside have, and its own, by its qualified name."""
    annotations: dict[str, AnnotationModel] = field(default_factory=dict)
    """What a parameter is that is annotated with a class outside: ``annotations["torch.nn.Module"](api, its symbol)``;
    None where all that is known of it was noted."""
    definitions: dict[str, DefinitionModel] = field(default_factory=dict)
    """By the qualified name of a base class outside."""
    filled_in: dict[tuple[str, str], FilledInModel] = field(default_factory=dict)
    """By the qualified name of a base class outside, or its beginning up to a dot, and that of the method."""
    constants: set[type[Value]] = field(default_factory=set)
    """Kinds of values that compare as constants do."""
    installed: set[str] = field(default_factory=set)
    """Packages that are there: importing from them does not fail."""
    odd: dict[type[Value], Callable[[Value], str | None]] = field(default_factory=dict)
    """What to call a value that may not be treated as the others at its place are: "None", "a tuple"; None for any that
    may."""
    discards: dict[type[Value], DiscardModel] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=lambda: Hooks())
    own: Callable[[str], tuple[CallModel, About] | None] | None = None
    """What calls do of functions that the settings of a project name, by qualified name; a method of an object that is
    not known goes by its name with a leading dot."""
    kinds: list[Kind] = field(default_factory=list)
    ambients: list[Ambient] = field(default_factory=list)
    """The ambient values with which an entry point begins."""
    abouts: dict[str, About] = field(default_factory=dict)
    """Weights and tags of qualified names, or of names of methods with a leading dot, that have no model of their
    own."""

    def call(
        self, *names: str, weight: Weight = Weight.NOTHING, tags: Iterable[str] = ()
    ) -> Callable[[CallModel], CallModel]:
        """Registers what calls of qualified names do: ``@models.call("torch.save")``. Methods of classes outside
        go by qualified names, too: ``accelerate.Accelerator.backward``; their receiver is ``arguments.receiver``."""

        def register(model: CallModel) -> CallModel:
            for name in names:
                self.calls[name] = model, About(weight, frozenset(tags))
            return model

        return register

    def namespace(
        self, *prefixes: str, weight: Weight = Weight.NOTHING, tags: Iterable[str] = ()
    ) -> Callable[[CallModel], CallModel]:
        """Registers what calls of all names below a prefix do, unless one has a model of its own; the longest
        prefix wins: ``@models.namespace("torch.nn.functional.")``."""

        def register(model: CallModel) -> CallModel:
            for prefix in prefixes:
                self.namespaces[prefix] = model, About(weight, frozenset(tags))
            return model

        return register

    def method(
        self,
        of: type[Value] | str,
        *names: str,
        weight: Weight = Weight.NOTHING,
        tags: Iterable[str] = (),
    ) -> Callable[[MethodModel], MethodModel]:
        """Registers what methods of a kind of value do: ``@models.method(Scaler, "scale")``. Without names: all
        that have no model of their own. ``of`` is a class of values, the name of a kind of unknown, or "" for any
        unknown."""

        def register(model: MethodModel) -> MethodModel:
            for name in names or (None,):
                self.methods[of, name] = model, About(weight, frozenset(tags))
            return model

        return register

    def into(self, table: dict[Any, Any], *keys: Any) -> Callable[[Any], Any]:
        """Registers a model in one of the other tables: ``@models.into(models.enters, Autocast)``."""

        def register(model: Any) -> Any:
            for key in keys:
                table[key] = model
            return model

        return register

    def about(self, *names: str, weight: Weight = Weight.NOTHING, tags: Iterable[str] = ()) -> None:
        """Says something of names without a model: ``models.about(".zero_grad", weight=Weight.EFFECT)``; a ``.data=``
        is set and a ``.grad.`` is read."""
        for name in names:
            self.abouts[name] = About(weight, frozenset(tags))

    def called(self, name: str) -> tuple[CallModel, About] | None:
        """The model of calls of a qualified name: that of the settings, its own, or one of all names below a beginning
        of it."""
        found = (self.own(name) if self.own is not None else None) or self.calls.get(name)
        head = name
        while found is None and "." in head:
            head = head.rpartition(".")[0]
            found = self.namespaces.get(f"{head}.")
        return found

    def take(self, other: Registry) -> None:
        """Takes in all that another registry holds."""
        for name, table in vars(other).items():
            if isinstance(table, dict):
                _chain(getattr(self, name), table)
        self.kinds += other.kinds
        self.constants |= other.constants
        self.installed |= other.installed
        if type(other.hooks) is not Hooks:
            self.hooks = other.hooks
        self.ambients += other.ambients


def _chain(into: dict[Any, Any], table: dict[Any, Any]) -> None:
    """Adds the models of a table. Of two under one key, the second is asked where the first gives None or False."""
    for key, model in table.items():
        known = into.get(key)
        into[key] = model if known is None or not callable(known) else _either(known, model)


def _either(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*arguments: Any) -> Any:
        found = first(*arguments)
        return second(*arguments) if found is None or found is False else found

    return ask
