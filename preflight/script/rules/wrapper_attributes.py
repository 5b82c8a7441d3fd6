"""Rule C501: methods and attributes that the wrapper around a model lacks."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.checkpoints import UNWRAPS, WRAPPERS, list_given_values
from preflight.script.rules.own_measures import get_last_name, list_stores
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, group_by_kind, unparse
from preflight.script.values import Class, Func
from preflight.script.values.constants import TRUE
from preflight.script.values.operations import as_text

_OTHER_WAYS = re.compile(
    r"(?i)fsdp|deepspeed|num_processes *[<>=!]|distributed_type(?![^\n]*\.(?:XLA|TPU)\b)"
)
_OF_LIBRARIES = frozenset(
    {"save_pretrained", "push_to_hub", "generate", "resize_token_embeddings", "get_input_embeddings"}
    | {"gradient_checkpointing_enable", "print_trainable_parameters", "merge_and_unload", "num_parameters"}
)
"""Methods of models of transformers, diffusers and peft that torch.nn.Module has not."""
_MAY_WRAP = re.compile(r"(?m)^ *(?:el)?if [^\n]*:\n(?:[^\n]*\n){0,3}?[^\n]*(?:DistributedDataParallel|DDP)\(")
_OF_ENGINES = frozenset(
    {
        *(
            "backward",
            "step",
            "save_checkpoint",
            "load_checkpoint",
            "get_global_grad_norm",
            "allreduce_gradients",
        ),
        *("is_gradient_accumulation_boundary", "gradient_accumulation_steps", "save_16bit_model", "get_lr"),
        *("train_micro_batch_size_per_gpu", "train_batch_size", "set_train_batch_size", "zero_optimization"),
    }
)
"""Methods of DeepSpeed's engine, which scripts call where an option chooses it."""
_MAKES_ENGINES = re.compile(r"deepspeed\.init|(?:ds|deepspeed)_init\w*\(|deepspeed import[^\n]*init")


def _may_be_inside(it: Interpreter, owner: str) -> bool:
    """Whether some branch gives a name the model inside of the wrapper: `inner = model.module`."""
    values = list_given_values(it.nodes, owner)
    return any(isinstance(value, ast.Attribute) and value.attr == "module" for value, _ in values)


_KEPT_BY_WRAPPERS = frozenset(
    {
        *(
            "module",
            "device",
            "device_ids",
            "device_type",
            "dim",
            "output_device",
            "training",
            "logger",
            "config",
        )
    }
    | {"dtype", "static_graph", "process_group", "require_backward_grad_sync", "reducer", "broadcast_buffers"}
)
_OF_WRAPPERS = re.compile(r"_|register_|(?:en|dis)able_allreduce$")  # apex's has the last
_KEEPS = re.compile(r"unwrap|\.module\b|deepcopy")


@rule("C501", "wrapper attribute")
def not_of_the_wrapper(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A method or attribute of the model is used of the DistributedDataParallel around it.

    The wrapper has the methods of torch.nn.Module only: "'DistributedDataParallel' object has no attribute
    'save_pretrained'". accelerator.prepare() wraps so too, in a launch of several ranks.
    Source: torch/nn/parallel/distributed.py; accelerate's unwrap_model.
    """
    name, thing = event.what, it.thing(event.ref)
    if thing is None or it.target.processes == 1 or thing.get("sharded") == TRUE:
        return
    cls = thing.get("__class__")
    own = isinstance(cls, Class) and any(isinstance(info.names.get(name), Func) for info in it.mro(cls.key))
    kept = isinstance(cls, Class) and not own and _is_kept_by_model(it, cls, name)
    if not (own or kept) and name not in _OF_LIBRARIES and not _is_called_only(it, event):
        return
    if name in _OF_ENGINES and it.sources.mention(_MAKES_ENGINES):
        return  # of the engine that the same name has under another setting
    ddp, owner = event.values["shared"] == TRUE, as_text(event.values["owner"]) or ""
    prepared = ddp or _is_prepared_here(it, owner, event.place.line) or _is_given_prepared(it, owner)
    if owner == "self" or not prepared or (kept and _may_be_inside(it, owner)):
        return
    unwraps = it.sources.mention(UNWRAPS) if ddp else it.sources.is_in_code(UNWRAPS, it.source)
    if unwraps or it.sources.mention(_compile_inner_call(name)):
        return
    if (not ddp and it.sources.mention(_OTHER_WAYS)) or _is_wrapped_otherwise(it):
        return
    asked = it.sources.mention(_MAY_WRAP)  # one process, which wraps nothing, has no .module
    inner = f'getattr({owner}, "module", {owner})' if asked else f"{owner}.module"
    called = "" if kept else "(...)"
    fix = f"{inner}.{name}{called}" if ddp else f"accelerator.unwrap_model({owner}).{name}{called}"
    message = f"DistributedDataParallel around the model has no attribute {name}"
    yield RuleHit(event.place, message, fix, Level.WARNING)


def _is_wrapped_otherwise(it: Interpreter) -> bool:
    """Whether the wraps above a branch that this is in are all of the opposite, as of `if not args.resume:`.

    Those of branches beside it are others, too, where it wraps the model itself.
    """
    for source in it.sources.files() if it.tests else ():
        kinds = it.sources.parser.find(group_by_kind, source.tree)
        ifs = kinds.get(ast.If, [])
        calls = [call for call in kinds.get(ast.Call, ()) if WRAPPERS.search(unparse(call.func))]
        lines = [call.lineno for call in calls]
        for branch in (each for each in ifs if not each.orelse and _is_asked(it, each)):
            above = [line for line in lines if line < branch.lineno]
            asked, wraps = unparse(branch.test), any(_spans(branch, line) for line in lines)
            others = [
                each
                for each in ifs
                if asked in _list_denied(each.test) or (wraps and not _spans(each, branch.lineno))
            ]
            if above and all(any(_spans(each, line) for each in others) for line in above):
                return True
    return False


def _is_asked(it: Interpreter, branch: ast.If) -> bool:
    return any(branch.test is test for test in it.tests)


def _spans(branch: ast.If, line: int) -> bool:
    return branch.body[0].lineno <= line <= (branch.body[-1].end_lineno or 0)


def _list_denied(test: ast.expr) -> list[str]:
    """Return what a condition asks to be false: `args.resume` of `not args.resume and not args.tune`."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    denials = (part for part in parts if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not))
    return [unparse(part.operand) for part in denials]


def _is_kept_by_model(it: Interpreter, cls: Class, name: str) -> bool:
    """Whether the constructor of a model gives it an attribute, which no code gives anything else."""
    if _OF_WRAPPERS.match(name) or name in _KEPT_BY_WRAPPERS or it.sources.mention(_compile_stores(name)):
        return False
    made = (info.names.get("__init__") for info in it.mro(cls.key))
    nodes = (it.functions[each.key].node for each in made if isinstance(each, Func))
    return any(it.sources.parser.find(list_stores, node).get(f"self.{name}") for node in nodes)


def _is_called_only(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a method is called that no wrapper has, and that no code gives one."""
    name, place = event.what, event.place
    called = it.sources.parser.find_by_kind(_list_called, it.source.tree)
    if (name, place.line, place.column) not in called or _OF_WRAPPERS.match(name):
        return False
    return not it.sources.mention(_compile_gift(name))


@lru_cache(maxsize=256)  # one pattern a name: files keep what they mention by it
def _compile_inner_call(name: str) -> re.Pattern[str]:
    return re.compile(rf"\.module\.{name}\b|unwrap_model\([^\n]*\)\.{name}\b")


@lru_cache(maxsize=256)
def _compile_stores(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\bself)\.{name}\b *=[^=]|setattr\(|[\"']{name}\b")


@lru_cache(maxsize=256)
def _compile_gift(name: str) -> re.Pattern[str]:
    return re.compile(rf"\.{name}\b *=[^=]|setattr\(|[\"']{name}\b")


def _list_called(kinds: ByKind) -> set[tuple[str, int, int]]:
    """Return the methods that a file calls by name, with where each call's owner is."""
    methods = (node.func for node in kinds.get(ast.Call, ()) if type(node.func) is ast.Attribute)
    return {(func.attr, func.lineno, func.col_offset + 1) for func in methods}


def _is_prepared_here(it: Interpreter, owner: str, line: int) -> bool:
    """Whether the last value of a name before a line is of accelerator.prepare(); of self in any method."""
    made = [value for value, at in list_given_values(it.nodes, owner) if at < line]
    if not made and owner.startswith("self."):
        made = [value for value, _ in list_given_values(it.sources.parser.nodes(it.source.tree), owner)]
    return bool(made) and isinstance(made[-1], ast.Call) and getattr(made[-1].func, "attr", "") == "prepare"


def _is_given_prepared(it: Interpreter, owner: str) -> bool:
    """Whether a function has from outside what prepare() made, in a script that keeps nothing beside it."""
    own = not owner.isidentifier() or bool(list_given_values(it.nodes, owner))
    if own or not isinstance(it.scope, ast.FunctionDef) or it.sources.mention(_KEEPS):
        return False
    assigns = (
        part
        for source in it.sources.files()
        for part in it.sources.parser.list_nodes(source.tree, ast.Assign)
    )
    made = [(part.targets[0], part.value) for part in assigns if get_last_name(part.value) == "prepare"]
    return bool(made) and all(
        isinstance(value, ast.Call)
        and [*map(unparse, getattr(target, "elts", [target]))] == [*map(unparse, value.args)]
        for target, value in made
    )
