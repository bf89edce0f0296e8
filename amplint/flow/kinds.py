"""What an object out of sight is, judged by what the code does with it.

A parameter ``m`` on which ``m.parameters()`` is called is a module, whatever its name. Names themselves
are no evidence.
"""

from __future__ import annotations

from amplint.amp.wrappers import SHAPES, Role

_MODULE_METHODS = frozenset(
    {
        "parameters",
        "named_parameters",
        "requires_grad_",
        "modules",
        "named_modules",
        "named_children",
        "register_forward_hook",
        "register_buffer",
    }
)
_MODES = frozenset({"eval", "train"})
_ALIKE = {
    name: role for name, role in SHAPES[0][1].items() if all(roles.get(name) is role for _, roles in SHAPES)
}


def kind_of(uses: set[str]) -> str | None:
    """ "module", "optimizer", "scaler" or "framework" for the methods called on an object, else None."""
    if not uses:
        return None
    if any(shape <= uses for shape, _ in SHAPES):
        return "framework"
    if "unscale_" in uses or {"scale", "update"} <= uses or {"scale", "step"} <= uses:
        return "scaler"
    if _MODULE_METHODS & uses or ("__call__" in uses and _MODES & uses):
        return "module"
    if "<stepped>" in uses or {"zero_grad", "step"} <= uses or ("param_groups" in uses and "step" in uses):
        return "optimizer"
    return None


def framework_roles(uses: set[str]) -> dict[str, Role]:
    """What the methods of an object of kind "framework" do. Where its uses are out of sight, these are the methods
    that do the same in all frameworks."""
    return next((roles for shape, roles in SHAPES if shape <= uses), _ALIKE)
