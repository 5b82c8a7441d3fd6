"""Rule D207: where ranks meet is the launch's to say."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import (
    BY_RANK,
    MAYBE,
    OF_SOME,
    ONE_RANK,
    SPAWNED,
    SPAWNED_RANK,
    UNCALLED,
    WITHOUT,
)
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.distributed import OF_ONE
from preflight.script.rules.certainty import apply_doubts
from preflight.script.rules.files import tests_around
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const
from preflight.script.values.constants import NONE
from preflight.script.values.operations import as_text, list_values, place_of

_LOOPBACK = re.compile(r"=(?:localhost|127\.0\.0\.1|::1) ")
_SLURM = re.compile(r"\bSLURM_")  # the branch that takes ranks from Slurm, not the launch
_RENDEZVOUS = ("MASTER_PORT", "MASTER_ADDR", "RANK", "LOCAL_RANK", "WORLD_SIZE")


_OF_FEW = OF_SOME | {MAYBE, SPAWNED, UNCALLED, "except"}
_OWN_PORTS = "a port of each rank"
_ASKS_PORT = re.compile(r"MASTER_|environ|\bport\b|TORCHELASTIC|slurm", re.IGNORECASE)
_ALONE = "a group of one rank"
_LEAVE_OUT = "leave rank= and world_size= out: the launch says both"
_TESTS = re.compile(r"setUp(?:Class|Module)?$|setup_(?:class|method|module)$|test_")
_AT_RANDOM = re.compile(r"(?:^|_)(?:rand\w*|choice|sample|free|getsockname|unused|available)(?:_|$)")


def _chosen_by_each(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a port that each rank which a script starts chooses; note one of a launched rank."""
    if _is_of_each(it, event):
        message = "each rank chooses this port for itself, and meets none of the others"
        yield RuleHit(event.place, message, "choose it once, before the ranks are started", Level.WARNING)
    elif _is_of_each_launched(it, event):
        it.note(_OWN_PORTS, event.place)


def _is_of_each(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether each rank that a script starts makes a port of chance, or of what is free, for itself."""
    return SPAWNED_RANK in it.contexts and OF_SOME.isdisjoint(it.contexts) and _is_at_random(it, event)


def _is_of_each_launched(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether each rank of a launch does so, in front of a group that it makes itself."""
    some = any(place in _OF_FEW - {BY_RANK} or place.startswith(WITHOUT) for place in it.contexts)
    asked = (
        any(_ASKS_PORT.search(unparse(test)) for test in tests_around(it, event.call.node) if test)
        if event.call
        else True
    )
    return not (some or it.target.spawns or it.target.switches or asked) and _is_at_random(it, event)


def _is_at_random(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a port is made of chance, or of what is free: in its own statement, or in that of its name."""
    lines = [node for node in it.nodes if isinstance(node, ast.stmt) and node.lineno == event.place.line][-1:]
    names = {part.id for node in lines for part in walk(node) if isinstance(part, ast.Name)}
    made = [node for node in it.list_nodes(ast.Assign) if getattr(node.targets[0], "id", "") in names]
    calls = [part for node in (*lines, *made) for part in walk(node) if isinstance(part, ast.Call)]
    ors = [part for node in (*lines, *made) for part in walk(node) if isinstance(part, ast.BoolOp)]
    others = [other for node in ors if _is_given_first(it, node) for other in node.values[1:]]
    unused = {id(part) for other in others for part in walk(other)}
    calls = [call for call in calls if id(call) not in unused]
    return any(_AT_RANDOM.search(name) for call in calls for name in list_names([call.func]))


def _is_given_first(it: Interpreter, node: ast.BoolOp) -> bool:
    """Whether a port is another's choice, as in `port or free_port()` with a port that is not None."""
    first = node.values[0]
    named = isinstance(node.op, ast.Or) and isinstance(first, ast.Name)
    return named and NONE not in list_values(it.evaluate(first))


def _is_of_a_test(it: Interpreter) -> bool:
    """Whether a test is read, which its runner calls and no launch."""
    outer = it.functions.get(it.stack[0]) if it.stack and UNCALLED in it.contexts else None
    return outer is not None and _TESTS.match(getattr(outer.node, "name", "")) is not None


def _note_alone(it: Interpreter, event: ScriptEvent) -> None:
    """Note a group of one rank that every rank makes, not where an option says so."""
    own = [event.call.get("rank", 4), event.call.get("world_size", 3)] if event.call else []
    by_option = any(place_of(value) in it.options.places for value in own if value is not None)
    if own == [Const(0), Const(1)] and not (by_option or it.tests) and _OF_FEW.isdisjoint(it.contexts):
        it.note(_ALONE, event.place)


def _meets_none(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield where each rank of a launch has chosen a port of its own for this group."""
    if event.name == "process group" and SPAWNED not in it.contexts:
        for place in it.notes.pop(_OWN_PORTS, ()):
            message = "each rank of a launch chooses this port for itself, and meets none of the others"
            yield RuleHit(place, message, "leave MASTER_PORT to the launch", Level.WARNING, (event.place,))


def _waits_for_more(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield where one process is started that makes a group of several."""
    size = (event.call.get("world_size", 3) if event.call else None) or NONE
    one = {NONE, Const(1)}.intersection(list_values(size))
    several = not one and place_of(size) not in it.options.places
    for place in it.notes.get(OF_ONE, ()) if several and SPAWNED_RANK in it.contexts else ():
        message = "this starts one process, and its process group waits for more"
        level = Level.ERROR if isinstance(size, Const) else Level.WARNING
        yield RuleHit(place, message, "nprocs=world_size", level, (event.place,))


def _describe_fixed(it: Interpreter, name: str, value: str) -> tuple[str, str]:
    """Return what is wrong where a script sets a variable of the rendezvous, and what to write instead."""
    if name == "MASTER_PORT" and it.target.processes is None and it.target.spawns:
        message = f"MASTER_PORT={value} for all runs: a second one on this host finds it taken"
        return message, "a free port, chosen once before the ranks are started"
    fix = f'os.environ.setdefault("{name}", ...), or leave it to the launch'
    return f"{name}={value} overrules the launch's own", fix


_NODES = re.compile(r"n_?nodes|(?:num_|number_of_|world_)?nodes|num_machines")


def _find_nodes_option(it: Interpreter) -> str:
    """Return the option by which a script is for several nodes, with its default, "" where it has none."""
    known = it.options.declared.values() if it.target.args is None else ()
    found = [(option, option.default) for option in known if _NODES.fullmatch(option.dest)]
    numbers = ((option.flag, value.value) for option, value in found if isinstance(value, Const))
    return next((f"{flag}={number}" for flag, number in numbers if type(number) is int and number > 1), "")


def _is_by_option(it: Interpreter, place: CodeLocation) -> bool:
    """Whether an option of the script says a port, so that a second run has another."""
    source = it.sources.get(place.path)
    line = source.lines[place.line - 1] if source is not None else ""
    return any("port" in item.dest and f".{item.dest}" in line for item in it.options.declared.values())


def _at_the_end(it: Interpreter) -> Iterator[RuleHit]:
    """Yield what was held back; of ranks that a script starts, with a free port, the address is theirs."""
    theirs = it.target.spawns or it.notes.get("ranks of its own")
    for hit in it.held_back.get("D207", ()):
        of_one = _LOOPBACK.search(hit.message)
        if of_one and (flag := _find_nodes_option(it)):
            message = f"{hit.message}, and is another host on each node: {flag}"
            yield replace(hit, message=message, fix="the address of the first node, by an option")
            continue
        ours = theirs and (of_one or not it.notes.get("own port"))
        yield replace(hit, level=Level.INFO) if ours else hit
    alone = it.state.wrapped and not it.notes.get("own port")  # which a test of one process has
    for place in it.notes.get(_ALONE, ()) if alone else ():
        yield RuleHit(place, "each rank is rank 0 of a group of its own", _LEAVE_OUT, Level.WARNING)


@rule("D207", "environ", "process group", "end")
def rendezvous_fixed_by_the_script(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The script fixes MASTER_PORT or MASTER_ADDR, or its rank and world size.

    It overrules where the launch lets its ranks meet: they wait for each other until a time-out, or a second
    job on the host finds the port taken. A port that each started rank draws for itself is another in each,
    and with rank=0 and world_size=1 each rank makes a group of its own. torch.multiprocessing.spawn() starts
    one process unless nprocs= says how many; a larger world_size waits for ranks that never come.
    Source: torch.distributed's env:// initialisation; torch/multiprocessing/spawn.py.
    """
    if it.target.processes == 1:
        return
    if event.name == "end":
        yield from _at_the_end(it)
    if event.name == "environ" and event.what in _RENDEZVOUS and not _is_of_a_test(it):
        value = event.values.get("value")
        own = value == Const(str(it.target.world)) and (it.target.processes or place_of(value) is None)
        if event.what == "WORLD_SIZE" and own:
            return  # the launch's own: of an unknown one, what is written nowhere
        if isinstance(value, Const) and str(value.value) != "-1":  # how scripts say that none is given
            message, fix = _describe_fixed(it, event.what, str(value.value))
            above = it.source.lines[max(0, event.place.line - 20) : event.place.line]
            of_slurm = MAYBE in it.contexts and _SLURM.search("\n".join(above))
            few = it.target.processes is None and it.target.spawns and _is_by_option(it, event.place)
            hit = RuleHit(event.place, message, fix, Level.INFO if of_slurm or few else Level.WARNING)
            if it.target.processes is None and event.what == "MASTER_ADDR":
                it.held_back.setdefault("D207", []).append(apply_doubts(it, hit, "D207"))
                return
            if event.what == "MASTER_PORT" and ONE_RANK not in it.contexts:
                it.note("own port", event.place)
            yield hit
        elif value is not None and event.what == "MASTER_PORT":
            yield from _chosen_by_each(it, event)
        return
    _note_alone(it, event)
    yield from _meets_none(it, event)
    if event.name == "process group" and SPAWNED in it.contexts:
        it.note("ranks of its own", event.place)
        yield from _waits_for_more(it, event)
    method = as_text(event.call.get("init_method", 1)) if event.call else None
    if method and method.startswith(("tcp://", "file:///")) and event.call:
        message = f"ranks meet at {method}, whatever the launch says"
        starts = SPAWNED in it.contexts
        fix = "a free port, chosen once before the ranks are started" if starts else "leave init_method out"
        yield RuleHit(event.call.get_place("init_method"), message, fix, Level.WARNING)
