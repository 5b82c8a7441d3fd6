"""Options that are off: which branches their defaults leave out, and which take the place of others."""

import ast
from collections.abc import Iterator, Mapping, Sequence

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import ONE_RANK, WITHOUT, is_of_ranks, may_matter
from preflight.script.interpreter.events import RESUMES
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.source import list_names
from preflight.script.syntax_trees import walk
from preflight.script.values import Const, Value
from preflight.script.values.constants import FALSE, TRUE

_ALONE = re.compile(
    r"(?:^|[-_])(?:do_?)?(?:eval|test|debug|dry|infer|predict)|(?:^|[-_])(?:no|cpu|only)(?=[-_=]|$)"
    r"|bf16|bfloat16|deepspeed|fsdp"
)
"""Words of switches that end a run early or exclude others, at the start of a word: none of --latest."""


def note_fields(it: Interpreter, names: Mapping[str, Value]) -> None:
    """Remember where a dataclass writes the defaults of its fields, which are options to many scripts."""
    for name, value in names.items():
        if isinstance(value, Const) and value.place is not None:
            it.options.places[value.place] = f"--{name}"


def note_off(it: Interpreter, value: Value) -> None:
    """Remember what a scaler asks that is off by the default of an option: a switch may turn it on."""
    if value == FALSE and isinstance(value, Const) and value.place in it.options.places:
        it.options.closed[it.options.places[value.place].lstrip("-").replace("-", "_")] = None


_MATTERS = "gpulaunch_matters"  # where the first node of a branch keeps whether the branch may matter


def note_closed(it: Interpreter, test: ast.expr, branch: Sequence[ast.stmt | ast.expr]) -> None:
    """Remember what a condition asks that leaves a branch out: a switch may open it."""
    of_branch = branch[0].__dict__
    if _MATTERS not in of_branch:
        of_branch[_MATTERS] = may_matter(it.source.lines[branch[0].lineno - 1 : branch[-1].end_lineno])
    asked: dict[str, None] = {}
    for node in walk(test):
        value = it.lookup(node.id) if isinstance(node, ast.Name) and it.options.places else None
        if isinstance(node, ast.Attribute):
            asked[node.attr] = None
        elif isinstance(value, Const) and value.place in it.options.places:
            asked[it.options.places[value.place].lstrip("-").replace("-", "_")] = None
    if of_branch[_MATTERS]:
        it.options.closed |= asked
    else:  # `start = state.read(model) if args.resume else 0` names nothing that matters, and does
        it.options.closed |= {name: None for name in asked if RESUMES.search(name)}


def note_values(it: Interpreter, node: ast.If, *, known: bool) -> None:
    """Remember which value of an option opens a branch of ranks: `elif args.mode == "ddp": spawn(...)`."""
    left_out = [] if known else [node]
    rest = node.orelse if known else []
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        left_out.append(rest[0])
        rest = rest[0].orelse
    for each in left_out:
        asked = list(_list_values_asked(each.test))
        if asked and _starts_ranks(each.body):
            it.options.opened = {**dict(reversed(asked)), **it.options.opened}


def _starts_ranks(branch: Sequence[ast.stmt | ast.expr]) -> bool:
    """Whether a branch wraps the model for ranks, makes their group or starts them."""
    return any(not _STARTS.isdisjoint(list_names(walk(node))) for node in branch)


_STARTS = frozenset(
    {"DistributedDataParallel", "DDP", "FSDP", "FullyShardedDataParallel", "init_process_group", "spawn"}
)


def _list_values_asked(test: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield which value of what a condition asks for: `args.setting == "ddp"`, `opt.ddp == 1 and ...`."""
    for node in walk(test):
        if type(node) is not ast.Compare or len(node.ops) != 1 or type(node.ops[0]) is not ast.Eq:
            continue
        name = getattr(node.left, "attr", getattr(node.left, "id", ""))
        value = getattr(node.comparators[0], "value", None)
        if name and type(value) in (str, int):
            yield name, str(value)


def note_derived(it: Interpreter, body: Sequence[ast.stmt], context: str) -> None:
    """Remember what the branch of a default sets: `args.distributed = False` stands for the option then."""
    if not context.startswith(WITHOUT):
        return
    for node in (each for statement in body for each in walk(statement)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            it.options.places.setdefault(it.place(node.value), context.removeprefix(WITHOUT))


def list_closed_switches(it: Interpreter) -> tuple[str, ...]:
    """Return the switches that are off by default and may open a branch that was left out, as flags."""
    options = [item for item in it.options.declared.values() if item.flags and not item.given]
    asked = [item for item in options if item.dest in it.options.closed]
    off = [item.flag for item in asked if (item.when_given, item.default) == (TRUE, FALSE)]
    off += [f"{item.flag}={item.choice}" for item in asked if item.choice]
    off += [f"{item.flag}={item.get_enabling_value()}" for item in asked if item.get_enabling_value()]
    off += [f"{item.flag}={item.half}" for item in options if item.half]
    plain = [item for item in asked if not (item.when_given or item.choice or item.get_enabling_value())]
    off += [f"{item.flag}={it.options.opened[item.dest]}" for item in plain if item.dest in it.options.opened]
    fields = {
        name
        for info in it.classes.values()
        if info.is_dataclass
        for name, value in info.names.items()
        if name in it.options.closed and value == FALSE
    }
    return tuple(dict.fromkeys((*off, *(f"--{name}" for name in sorted(fields)))))


def default_of_one_rank(it: Interpreter, test: ast.expr, other: list[ast.stmt]) -> str:
    """Return the context of a branch that an option's default takes and a launch of ranks does not.

    A number of GPUs or processes is given by each launch of several; that a switch is given is less sure.
    """
    if it.target.args is not None or not it.options.places:
        return ""
    for node in walk(test):
        value = it.evaluate(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        flag = it.options.places.get(value.place) if isinstance(value, Const) and value.place else None
        if flag is not None and flag not in it.target.switches and is_of_ranks(other, flag, it.source.lines):
            declared = [item.default for item in it.options.declared.values() if flag in item.flags]
            counts = any(isinstance(item, Const) and type(item.value) is int for item in declared)
            return ONE_RANK if counts else f"{WITHOUT}{flag}"
    return ""


def can_be_combined(flag: str) -> bool:
    """Whether a switch may be given beside others: it ends no run early and excludes none."""
    return _ALONE.search(flag) is None
