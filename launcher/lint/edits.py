"""Changes of a script's syntax tree: planned by place first, then applied in one pass."""

from collections.abc import Callable
from typing import Any

import libcst
from libcst import matchers
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from launcher.lint.fixable_codes import DTYPE_CODES
from launcher.lint.scopes import Scopes

_RENAMED = {"tokenizer": "processing_class", "evaluation_strategy": "eval_strategy", "no_cuda": "use_cpu"}
_DTYPE_KEYWORDS = frozenset({"dtype", "torch_dtype"})
_HALVES = frozenset({"float16", "half", "bfloat16"})
_COMPUTED = "the dtype is computed: change what it is computed from, or the argument that is passed"
_NOT_MECHANICAL = "needs a choice: see its fix"
_MOVES = frozenset({"to", "cuda", "device"})
_Start = tuple[int, int]
_Change = Callable[[Any], Any]


class EditPlan:
    """The change of each node, and why some places stay as they are."""

    def __init__(self) -> None:
        self.changes: dict[libcst.CSTNode, _Change] = {}
        self.done: set[tuple[_Start, str]] = set()
        self.why: dict[tuple[_Start, str], str] = {}

    def reason(self, start: _Start, code: str) -> str:
        """Return why a finding is left, "" when it is fixed."""
        return "" if (start, code) in self.done else self.why.get((start, code), _NOT_MECHANICAL)


def plan_edits(module: MetadataWrapper, wanted: dict[_Start, set[str]], scopes: Scopes) -> EditPlan:
    """Return what to change; `wanted` is the codes that lint reported at each place."""
    finder = _Finder(wanted, scopes)
    module.visit(finder)
    return finder.plan


def apply_edits(module: MetadataWrapper, plan: EditPlan) -> str:
    """Return the changed text."""

    class Changer(libcst.CSTTransformer):
        def on_leave(self, original_node: Any, updated_node: Any) -> Any:
            changed: Any = super().on_leave(original_node, updated_node)
            if isinstance(original_node, libcst.Call | libcst.Dict):
                changed = _ending_as_before(original_node, changed)
            change = plan.changes.get(original_node)
            return changed if change is None else change(changed)

    return module.module.visit(Changer()).code


class _Finder(libcst.CSTVisitor):
    """Plans a change for each node at which lint reported a fault."""

    METADATA_DEPENDENCIES = (PositionProvider, ParentNodeProvider)

    def __init__(self, wanted: dict[_Start, set[str]], scopes: Scopes) -> None:
        super().__init__()
        self.wanted = wanted
        self.scopes = scopes
        self.plan = EditPlan()

    def on_visit(self, node: libcst.CSTNode) -> bool:
        begin = self.get_metadata(PositionProvider, node, None)
        start = (begin.start.line, begin.start.column) if begin is not None else (0, 0)
        codes = self.wanted.get(start)
        if codes:
            if isinstance(node, libcst.Arg) and node.keyword is not None:
                self._entry(node, node.keyword.value, start, codes)
            elif isinstance(node, libcst.DictElement) and isinstance(node.key, libcst.SimpleString):
                self._entry(node, str(node.key.evaluated_value), start, codes)
            elif isinstance(node, libcst.SimpleStatementLine):
                self._item_set(node, start, codes)
            elif isinstance(node, libcst.Call):
                self._call(node, start, codes)
            elif isinstance(node, libcst.SimpleString | libcst.Integer | libcst.FormattedString):
                self._device(node, start, codes)
        return True

    def _change(self, node: libcst.CSTNode, start: _Start, codes: set[str], change: _Change) -> None:
        self.plan.changes[node] = change
        self.plan.done |= {(start, code) for code in codes}

    def _leave(self, start: _Start, codes: set[str], reason: str) -> None:
        self.plan.why |= {(start, code): reason for code in codes}

    # --- keywords and dictionaries ---------------------------------------------------------

    def _entry(self, node: Any, name: str, start: _Start, codes: set[str]) -> None:
        """`name=value` of a call, `"name": value` of a dictionary."""
        if name == "device_map" and "D204" in codes:
            self._change(node, start, {"D204"}, lambda _: libcst.RemoveFromParent())
        if name in _RENAMED and "V301" in codes:
            self._change(node, start, {"V301"}, lambda item: _renamed(item, _RENAMED[name]))
        self._dtype(node, name, start, codes & DTYPE_CODES)

    def _item_set(self, node: libcst.SimpleStatementLine, start: _Start, codes: set[str]) -> None:
        """`kwargs["name"] = value` on a line of its own."""
        key = matchers.SubscriptElement(slice=matchers.Index(value=matchers.SimpleString()))
        target = matchers.AssignTarget(target=matchers.Subscript(slice=[key]))
        if len(node.body) != 1 or not matchers.matches(node.body[0], matchers.Assign(targets=[target])):
            return
        assign: Any = node.body[0]
        name = str(assign.targets[0].target.slice[0].slice.value.evaluated_value)
        if name == "device_map" and "D204" in codes:
            block = self.get_metadata(ParentNodeProvider, node)
            if len(getattr(block, "body", ())) > 1:
                self._change(node, start, {"D204"}, lambda _: libcst.RemoveFromParent())
            else:
                self._leave(start, {"D204"}, "nothing else is in this block")
        self._dtype(assign, name, start, codes & DTYPE_CODES)

    def _dtype(self, node: Any, name: str, start: _Start, codes: set[str]) -> None:
        """Set what an argument, an entry or an assignment names as the dtype."""
        if name in _DTYPE_KEYWORDS and codes:
            value = self._float32(node.value)
            if value is None:
                self._leave(start, codes, _COMPUTED)
            else:
                self._change(node, start, codes, lambda item: item.with_changes(value=value))

    def _float32(self, value: libcst.BaseExpression) -> libcst.BaseExpression | None:
        """Name float32 as the script names dtypes; None when the value is computed."""
        if isinstance(value, libcst.Attribute) and value.attr.value in _HALVES:
            return value.with_changes(attr=libcst.Name("float32"))
        if isinstance(value, libcst.SimpleString):
            prefix = "torch." if str(value.evaluated_value).startswith("torch.") else ""
            return libcst.SimpleString(f"{value.quote}{prefix}float32{value.quote}")
        if isinstance(value, libcst.Name):
            return _torch_float32() if self.scopes.has_torch else None
        return None

    # --- calls -----------------------------------------------------------------------------

    def _call(self, node: libcst.Call, start: _Start, codes: set[str]) -> None:
        if not isinstance(node.func, libcst.Attribute):
            return
        method, casts = node.func.attr.value, codes & DTYPE_CODES
        if method == "backward" and "P124" in codes:
            self._backward(node, start)
        elif method in ("half", "bfloat16") and casts and not node.args:
            self._change(node, start, casts, _to_float)
        elif method == "to" and casts and len(node.args) == 1 and node.args[0].keyword is None:
            value = self._float32(node.args[0].value)
            if value is not None:
                argument = node.args[0].with_changes(value=value)
                self._change(node, start, casts, lambda call: call.with_changes(args=[argument]))
        elif method == "from_pretrained" and "P103" in codes:
            words = {item.keyword.value if item.keyword else item.star for item in node.args}
            if not words & {*_DTYPE_KEYWORDS, "**"} and self.scopes.has_torch:
                self._change(node, start, {"P103"}, _with_float32)

    def _backward(self, node: libcst.Call, start: _Start) -> None:
        name, why = self.scopes.accelerator(start[0])
        if not name or any(item.keyword is None for item in node.args):
            self._leave(start, {"P124"}, why or "its gradient argument is not accelerate's")
            return

        def through(call: Any) -> Any:
            func = libcst.parse_expression(f"{name}.backward")
            loss = libcst.Arg(_bare(call.func.value))
            if call.args:
                loss = loss.with_changes(comma=libcst.Comma(whitespace_after=libcst.SimpleWhitespace(" ")))
            return call.with_changes(func=func, args=[loss, *call.args])

        self._change(node, start, {"P124"}, through)

    # --- devices ---------------------------------------------------------------------------

    def _device(self, node: libcst.CSTNode, start: _Start, codes: set[str]) -> None:
        if "D201" not in codes:
            return
        name, why = self.scopes.accelerator(start[0])
        top, reason = self._whole_device(node)
        if not name or reason:
            self._leave(start, {"D201"}, reason or why)
            return
        device = libcst.parse_expression(f"{name}.device")
        call = self._cuda_call(top)
        if call is None:
            self._change(top, start, {"D201"}, lambda _: device)
            return

        def moved(item: Any) -> Any:
            first = item.args[0].with_changes(keyword=None, equal=libcst.MaybeSentinel.DEFAULT, value=device)
            func = item.func.with_changes(attr=libcst.Name("to"))
            return item.with_changes(func=func, args=[first, *item.args[1:]])

        self._change(call, start, {"D201"}, moved)

    def _whole_device(self, node: libcst.CSTNode) -> tuple[libcst.CSTNode, str]:
        """Return all of the expression that is the device: `torch.device("cuda:0" if ... else "cpu")`."""
        top = node
        parent = self.get_metadata(ParentNodeProvider, top)
        if isinstance(node, libcst.FormattedString):
            return top, "the device is computed"
        if isinstance(parent, libcst.IfExp) and top is not parent.test:
            top, parent = parent, self.get_metadata(ParentNodeProvider, parent)
        if isinstance(parent, libcst.Arg):
            call = self.get_metadata(ParentNodeProvider, parent)
            method = getattr(getattr(call, "func", None), "attr", None)
            word = method.value if isinstance(method, libcst.Name) else ""
            if isinstance(call, libcst.Call) and word == "device":
                one = len(call.args) == 1
                return (call, "") if one else (top, "the device is computed")
            named = parent.keyword is not None and parent.keyword.value == "device"
            if (word in _MOVES and parent is call.args[0]) or named:  # type: ignore[attr-defined]
                return top, ""
            return top, "what this is passed to may want the number"
        if isinstance(parent, libcst.Assign | libcst.AnnAssign):
            text = isinstance(node, libcst.SimpleString)
            return top, "" if text else "the number may be used for other things too"
        return top, "the device is computed"

    def _cuda_call(self, top: libcst.CSTNode) -> libcst.Call | None:
        """Return `x.cuda(0)`, which is to become `x.to(...)`."""
        parent = self.get_metadata(ParentNodeProvider, top)
        call = self.get_metadata(ParentNodeProvider, parent) if isinstance(parent, libcst.Arg) else None
        cuda = matchers.Call(func=matchers.Attribute(attr=matchers.Name("cuda")))
        return call if isinstance(call, libcst.Call) and matchers.matches(call, cuda) else None


def _ending_as_before(before: libcst.Call | libcst.Dict, after: Any) -> Any:
    """When the last entry was dropped, the new last one ends as it did: with or without a comma."""
    field = "args" if isinstance(before, libcst.Call) else "elements"
    old, new = getattr(before, field), getattr(after, field)
    if not new or len(new) == len(old):
        return after
    own, last = new[-1], old[-1]
    here, there = _after(own), _after(last)
    changes: dict[str, Any] = {"comma": last.comma}
    if isinstance(here, libcst.ParenthesizedWhitespace) and isinstance(there, libcst.ParenthesizedWhitespace):
        there = there.with_changes(first_line=here.first_line)  # its comment stays
        if isinstance(last.comma, libcst.Comma):
            changes["comma"] = last.comma.with_changes(whitespace_after=there)
    elif isinstance(here, libcst.ParenthesizedWhitespace) and here.first_line.comment is not None:
        return after
    if isinstance(before, libcst.Call):
        changes["whitespace_after_arg"] = (
            there if not isinstance(last.comma, libcst.Comma) else last.whitespace_after_arg
        )
    return after.with_changes(**{field: [*new[:-1], own.with_changes(**changes)]})


def _after(item: Any) -> Any:
    """Return the white space after an entry, which may hold a comment and a new line."""
    if isinstance(item.comma, libcst.Comma):
        return item.comma.whitespace_after
    return getattr(item, "whitespace_after_arg", None)


def _renamed(item: Any, name: str) -> Any:
    if isinstance(item, libcst.Arg):
        return item.with_changes(keyword=libcst.Name(name))
    quote = item.key.quote
    return item.with_changes(key=libcst.SimpleString(f"{quote}{name}{quote}"))


def _to_float(call: Any) -> Any:
    return call.with_changes(func=call.func.with_changes(attr=libcst.Name("float")))


def _torch_float32() -> libcst.Attribute:
    return libcst.Attribute(libcst.Name("torch"), libcst.Name("float32"))


def _bare(value: Any) -> Any:
    """Drop the one pair of parentheses that a call's own parentheses make needless."""
    return value.with_changes(lpar=value.lpar[1:], rpar=value.rpar[:-1]) if value.lpar else value


def _with_float32(call: Any) -> Any:
    """Add `dtype=torch.float32` as the last argument, laid out as the others are."""
    no_space = libcst.AssignEqual(libcst.SimpleWhitespace(""), libcst.SimpleWhitespace(""))
    added = libcst.Arg(_torch_float32(), keyword=libcst.Name("dtype"), equal=no_space)
    if not call.args:
        return call.with_changes(args=[added])
    *rest, last = call.args
    space: Any = rest[-1].comma.whitespace_after if rest else libcst.SimpleWhitespace(" ")
    if not rest and isinstance(call.whitespace_before_args, libcst.ParenthesizedWhitespace):
        space = call.whitespace_before_args
    added = added.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    last = last.with_changes(
        comma=libcst.Comma(whitespace_after=space), whitespace_after_arg=libcst.SimpleWhitespace("")
    )
    return call.with_changes(args=[*rest, last, added])
