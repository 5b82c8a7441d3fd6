"""Rule R416: each rank puts its own time into the name of a directory that all ranks must share."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OF_SOME
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import ExternalName
from preflight.script.rules.own_measures import AGREES, named, names_of, stores_of
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import walk

_TIMES = re.compile(
    r"time\.(?:time(?:_ns)?|strftime|ctime|asctime)|datetime\.datetime\.(?:now|utcnow|today)|uuid\.uuid[14]"
)
_SECONDS = re.compile(r"%(?:-?[SfsXTc])")
_DATES = frozenset({"date", "toordinal"})
_SAVES = frozenset({"save_checkpoint", "save_state", "save", "save_state_dict", "async_save"})
_ARGUMENTS = "output_dir"


@rule("R416", "arguments", "collective")
def directory_by_the_clock(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Each rank puts its own time into the name of a directory that all ranks must share.

    Ranks come to the line at different moments: a checkpoint is spread over two directories or more. Of a
    Trainer's each rank keeps its random state, under DeepSpeed and FSDP also its part of the optimizer and of
    the weights, and a run that is resumed from one of them misses the rest.
    Source: transformers/trainer.py, _save_rng_state and _save_optimizer_and_scheduler; deepspeed's engine.py.
    """
    call = event.call
    if call is None or it.target.processes == 1 or not OF_SOME.isdisjoint(it.contexts):
        return
    if event.name == "collective" and event.what not in _SAVES:
        return
    words = [
        word.value for word in call.node.keywords if word.arg in (_ARGUMENTS, "save_dir", "checkpoint_id")
    ]
    path = next(iter((*words, *call.node.args)), None)
    clock = _Clock(it).read_by(path, it.scope) if path is not None else None
    if clock is None or path is None:
        return
    said = "each rank reads the time for this directory itself, and ranks come to other names"
    made = ast.unparse(path)
    keep = f"{made} = " if isinstance(path, (ast.Name, ast.Attribute)) else f"{_ARGUMENTS}="
    fix = f"PartialState(); {keep}broadcast_object_list([{made}])[0], both of accelerate"
    if event.name == "collective":
        fix = (
            f"names = [{made}]; torch.distributed.broadcast_object_list(names), and names[0] as the directory"
        )
    level = Level.WARNING if it.target.processes else Level.INFO
    yield RuleHit(it.place(clock), said, fix, level, (it.place(path),))


class _Clock:
    """What an expression is made of, in the functions that make it and in the file."""

    def __init__(self, it: Interpreter) -> None:
        self._it, self._seen = it, set[str]()

    def read_by(self, expr: ast.expr, scope: ast.AST, forms: str = "") -> ast.Call | None:
        """Return the call that reads the clock, in seconds or finer, None where all ranks may agree on it.

        `forms`: what the expressions around this one make of the time.
        """
        parts = walk(expr)
        calls = [part for part in parts if isinstance(part, ast.Call)]
        if any(AGREES.search(named(call)) for call in calls):
            return None
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        forms += "".join(text for text in texts if isinstance(text, str) and "%" in text)
        forms += "".join(f"%{named(call)}" for call in calls if named(call) in _DATES)
        if clock := next(filter(self._tells, calls), None):
            return clock if not forms or _SECONDS.search(forms) else None
        dotted = [ast.unparse(part) for part in parts if isinstance(part, ast.Attribute)]
        for name in (*names_of(expr), *dotted):
            stored = self._stores(name, scope) if name not in self._seen else []
            self._seen.add(name)
            if self._agreed({name, *(part for value, _ in stored for part in names_of(value))}, scope):
                continue
            for value, inside in stored:
                if (found := self.read_by(value, inside, forms)) is not None:
                    return found
        return None

    def _tells(self, call: ast.Call) -> bool:
        func = self._it.evaluate(call.func) if isinstance(call.func, (ast.Name, ast.Attribute)) else None
        return isinstance(func, ExternalName) and _TIMES.fullmatch(func.name) is not None

    def _agreed(self, names: set[str], scope: ast.AST) -> bool:
        """Whether a call gives all ranks one value for one of some names."""
        calls = self._it.sources.parser.of_kinds(scope, ast.Call)
        return any(AGREES.search(named(call)) and not names.isdisjoint(names_of(call)) for call in calls)

    def _stores(self, name: str, scope: ast.AST) -> list[tuple[ast.expr, ast.AST]]:
        """Return what a name is given, and where: in a function, of an attribute in all, else outside."""
        parser, tree = self._it.sources.parser, self._it.source.tree
        if found := parser.find(stores_of, scope).get(name):
            return [(value, scope) for value, _ in found]
        functions = parser.of_kinds(tree, ast.FunctionDef)
        made = list[tuple[ast.expr, ast.AST]]()
        for value, at in parser.find(stores_of, tree).get(name, []):
            line = getattr(at, "lineno", 0)
            around = [each for each in functions if each.lineno <= line <= (each.end_lineno or 0)]
            if "." in name or not around:
                made.append((value, around[-1] if around else tree))
        return made
