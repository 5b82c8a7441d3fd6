"""What the planner wants to know of a script: its style, its precision switches, how it places its device."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import lru_cache, partial
from typing import Literal, cast

from preflight import regex as re
from preflight.facts.script import (
    LIBRARIES,
    CodeLocation,
    LightningSize,
    Option,
    PrecisionSite,
    ScriptAnalysis,
    ScriptParser,
    ServiceUse,
    Style,
)
from preflight.frozen import dataclass
from preflight.job import PRECISIONS
from preflight.script.bounds import pause_collector
from preflight.script.interpreter.events import DeclaredOption, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.program import ProgramReader
from preflight.script.libraries.call_table import LibraryModel
from preflight.script.libraries.hf_arguments import TRL_DEFAULT_SINCE
from preflight.script.libraries.lightning import parse_size
from preflight.script.libraries.training_step import list_trainings
from preflight.script.library_names import root_and_last
from preflight.script.lint import LintResult, lint_for
from preflight.script.parser_reader import read_parser
from preflight.script.rules.registry import Level
from preflight.script.service_use import find_services, find_services_in_args
from preflight.script.source import Finder, Sources
from preflight.script.syntax_trees import Parser
from preflight.script.target import ASSUMED_CAPABILITIES, RankTarget
from preflight.script.torch_use import does_without_torch
from preflight.script.values import Const, Device
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.operations import as_text

_VALUE_OPTIONS = frozenset({"mixed_precision", "precision", "amp_dtype", "dtype_mode"})
_FATAL = frozenset({"P101", "P102", "P104", "P105", "P106", "P107", "P108", "P115"})

_OF_A_RANK = re.compile(
    r"""["'](?:LOCAL_RANK|RANK|WORLD_SIZE)["']|\binit_process_group\(|\binit_distributed\("""
)
_TAKES_LOCAL_RANK = re.compile(
    r"local[-_]rank|parse_known_args|add_config_arguments|HfArgumentParser|from_argparse_args|parents *="
)
_LOCAL_RANK = re.compile(r"--local[-_]rank")
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)

_MAX_SWITCHES = 8  # precision switches that are tried: each is one more reading of the script

TrainedDtype = Literal["", "float32", "float16", "bfloat16", "checkpoint"]


@dataclass(slots=True)
class _Collected:
    """What one reading collects."""

    style: Style = "unknown"
    style_at: CodeLocation | None = None
    sites: dict[CodeLocation, PrecisionSite] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)
    placed: CodeLocation | None = None
    unsafe: bool = False  # CUDA, or a fixed GPU, before the device was set or in spite of it
    scaler: CodeLocation | None = None
    autocast: CodeLocation | None = None
    manages: CodeLocation | None = None
    lightning: dict[CodeLocation, LightningSize] = field(default_factory=dict)
    services: dict[ServiceUse, None] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    reads_all: bool = True
    without_torch: bool = False
    complete: bool = True
    asked_gpu: bool = False  # it may differ on other GPUs
    trained: dict[str, CodeLocation | None] = field(default_factory=dict)  # dtypes, each with its first place


@pause_collector()
def analyze_script(
    text: str,
    path: str,
    *,
    find: Finder | None = None,
    args: tuple[str, ...] = (),
    versions: Mapping[str, str] | None = None,
    parser: Parser | None = None,
) -> ScriptAnalysis:
    """Return what the script was found to do; `problem` says why it could not be read. Nothing is executed.

    `find` reads the modules of the script's own, `args` are the arguments it will get, `versions` are those
    of the training environment's packages, `parser` has the trees of texts that were read before.
    """
    plain = RankTarget(args=args, versions=versions or {})
    try:
        parser = parser or Parser()
        find = lru_cache(maxsize=None)(find) if find else None
        first, second = (replace(plain, capability=item) for item in ASSUMED_CAPABILITIES)
        seen = _collect(Sources(find, parser), text, path, first)
        other = seen if not seen.asked_gpu else _collect(Sources(find, parser), text, path, second)
    except SyntaxError as error:
        return ScriptAnalysis(path, "unknown", "", (), (), problem=f"{path}:{error.lineno or 1}: {error.msg}")
    except (RecursionError, MemoryError):
        return ScriptAnalysis(path, "unknown", "", (), (), problem=f"{path}: nested too deeply")
    except ValueError as error:
        return ScriptAnalysis(path, "unknown", "", (), (), problem=f"{path}: {error}")
    lines = text.splitlines()
    own_parser = read_parser(parser, path, text)
    sites = tuple(  # a value that depends on the GPU is not known beforehand
        site if other.sites.get(place, site).value == site.value else replace(site, value="")
        for place, site in seen.sites.items()
    )
    judge = partial(lint_for, text, path, certain=True, find=find, parser=parser)
    fatal = _fatal_switches(seen, sites, lambda target: judge([target]), plain)
    sites = tuple(replace(site, option="") if site.option in fatal else site for site in sites)
    dtype, where = _trained(seen)
    proven = seen.complete and other.complete and not seen.unsafe
    return ScriptAnalysis(
        path=path,
        style=seen.style,
        style_evidence=_evidence(seen.style_at, lines, path),
        reads_rank=_reads_rank(lines, path),
        imports=_imports(text),
        refuses_local_rank=_refuses_local_rank(lines, path, own_parser),
        places_device=_evidence(seen.placed, lines, path) if proven else "",
        precision=sites,
        options=tuple(seen.options.values()),
        own_scaler=_evidence(seen.scaler, lines, path),
        own_autocast=_evidence(seen.autocast, lines, path),
        trained_dtype=dtype,
        trained_dtype_evidence=_evidence(where, lines, path),
        manages_precision=_evidence(seen.manages, lines, path),
        classes=seen.classes,
        reads_all=seen.reads_all,
        without_torch=seen.without_torch,
        lightning=tuple(seen.lightning.values()),
        services=tuple(seen.services),
        parser=own_parser,
    )


def _reads_rank(lines: list[str], path: str) -> str:
    """Return the first line that only a script under a launcher has."""
    for number, line in enumerate(lines, 1):
        if _OF_A_RANK.search(line.partition("#")[0]):
            return f"{path}:{number}: {line.strip()}"
    return ""


def _refuses_local_rank(lines: list[str], path: str, own_parser: ScriptParser | None) -> str:
    """Return where its own argparse parser reads all arguments, if it declares no local rank."""
    if own_parser is not None:
        names = (name for item in own_parser.arguments for name in item.names)
        place = own_parser.place
        return "" if any(map(_LOCAL_RANK.match, names)) else f"{place}: {lines[place.line - 1].strip()}"
    code = "\n".join(line.partition("#")[0] for line in lines)
    if "ArgumentParser(" not in code or _TAKES_LOCAL_RANK.search(code):
        return ""
    for number, line in enumerate(lines, 1):
        if ".parse_args(" in line.partition("#")[0]:
            return f"{path}:{number}: {line.strip()}"
    return ""


def _imports(text: str) -> tuple[str, ...]:
    found = {match[1] for match in _IMPORT.finditer(text)}
    return tuple(name for name in LIBRARIES if name in found)


def _collect(sources: Sources, text: str, path: str, target: RankTarget) -> _Collected:
    source = sources.add(path, text)
    seen = _Collected()

    def listen(it: Interpreter, event: ScriptEvent) -> None:
        handler = _HANDLERS.get(event.name)
        if handler is not None:
            handler(it, event, seen)
        seen.services.update(dict.fromkeys(find_services(it, event)))
        for training in list_trainings(it, event):
            dtype = training.sure_dtype()
            if not training.doubtful:
                name = dtype.name if dtype else ""
                seen.trained.setdefault(name, dtype.place if dtype else None)

    it = ProgramReader(sources, target, LibraryModel(), listen)
    it.run(source)
    seen.services.update(dict.fromkeys(find_services_in_args(it)))
    seen.classes, seen.reads_all = _class_names(sources), not (sources.problems or sources.has_unread())
    seen.without_torch = does_without_torch(sources)
    if not seen.trained:
        seen.trained = _built(it)
    seen.complete = it.complete and not it.excesses and seen.reads_all
    seen.asked_gpu = it.asked_gpu
    return seen


def _class_names(sources: Sources) -> tuple[str, ...]:
    """Return the names of the classes that the files of a script define."""
    nodes = (node for source in sources.files() for node in sources.parser.nodes(source.tree))
    return tuple(sorted({node.name for node in nodes if isinstance(node, ast.ClassDef)}))


def _built(it: Interpreter) -> dict[str, CodeLocation | None]:
    """Return what is trained where no step is seen: the models that the script builds, if all are float32.

    Its own code that cannot be read has them then, or steps them; that seldom casts what it was given.
    """
    built = it.models.values()
    if not built or any(True not in states or False in states for states in built):
        return {}
    place = next((thing.place for thing in it.state.heap.values() if thing.kind == "model"), None)
    return {"float32": place}


def _option(it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    declared: DeclaredOption | None = it.options.declared.get(event.ref or 0)
    if declared is None or not declared.flags:
        return
    flag = declared.long_flag
    meaning = declared.dest.replace("use_", "").removesuffix("_training")
    default = as_text(declared.default) or ""
    if declared.when_given is not None and meaning in PRECISIONS[1:]:
        seen.options[flag] = Option(flag, meaning, takes_value=False)
    elif declared.when_given is None and declared.dest in _VALUE_OPTIONS:
        seen.options[flag] = Option(flag, "", takes_value=True, choices=_choices(event), default=default)


def _choices(event: ScriptEvent) -> tuple[str, ...]:
    given = event.call.get("choices") if event.call else None
    items = getattr(given, "items", ())
    words = [as_text(item) for item in items] if isinstance(items, tuple) else []
    return tuple(word for word in words if word)


def _accelerator(it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    if seen.style in ("unknown", "torch"):
        seen.style, seen.style_at = "accelerate", event.place
    _placed(it, event, seen)
    requested = event.values.get("requested", NONE)
    option = _feeding_option(it, event, ("mixed_precision",))
    value = as_text(requested) or ""
    binding = requested != NONE and not option
    seen.sites.setdefault(event.place, PrecisionSite(event.place, "Accelerator", value, binding, option))
    if it.attr(event.ref, "sharded") == TRUE:
        seen.manages = seen.manages or event.place


def _arguments(it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    thing = it.thing(event.ref)
    _placed(it, event, seen)
    if thing is None:
        return
    name = root_and_last(event.what)[1]
    if thing.get("deepspeed") not in (NONE, Const("")):
        seen.manages = seen.manages or event.place
    if thing.get("parsed") == TRUE:
        for word in ("fp16", "bf16"):
            flag = f"--{word}"
            seen.options.setdefault(flag, Option(flag, word, takes_value=True))
        value = as_text(thing.get("requested")) or ""
        seen.sites.setdefault(event.place, PrecisionSite(event.place, name, value, binding=False, option=""))
        return
    option = _feeding_option(it, event, ("fp16", "bf16"))
    requested = thing.get("requested")
    implied = thing.get("trl") == TRUE and thing.get("bf16") == NONE and requested == Const("bf16")
    have = it.target.version("trl")
    if implied and (have is None or have < TRL_DEFAULT_SINCE):
        requested = NONE
    why = "trl's default where bf16 is not given" if implied and requested != NONE else ""
    value = as_text(requested) or ""
    binding = requested != NONE and not option
    seen.sites.setdefault(event.place, PrecisionSite(event.place, name, value, binding, option, why))


def _lightning(it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    """Lightning hears of no launch: what its Trainer is given holds, and so does its default."""
    thing = it.thing(event.ref)
    if thing is None:
        return
    value = as_text(thing.get("mixed_precision")) or ""
    given = event.values.get("given", NONE) != NONE
    why = "" if given else "Lightning's default where precision is not given"
    call = "Fabric" if thing.get("who") == Const("Fabric") else "Lightning's Trainer"
    if event.call is not None:
        seen.lightning[event.place] = parse_size(event.call, event.place, is_fabric=call == "Fabric")
    seen.sites.setdefault(
        event.place, PrecisionSite(event.place, call, value, binding=True, option="", why=why)
    )


def _feeding_option(it: Interpreter, event: ScriptEvent, keywords: tuple[str, ...]) -> str:
    """Return the option whose value a keyword passes on as it is: `mixed_precision=args.mixed_precision`."""
    by_dest = {item.dest: item for item in it.options.declared.values()}
    for word in event.call.node.keywords if event.call else ():
        if word.arg in keywords and isinstance(word.value, ast.Attribute):
            declared = by_dest.get(word.value.attr)
            if declared is not None and declared.flags:
                return declared.long_flag
    return ""


def _trainer(_it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    root, _ = root_and_last(event.what)
    seen.style, seen.style_at = "trl" if root == "trl" else "trainer", event.place


def _plain_torch(_it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    if seen.style == "unknown":
        seen.style, seen.style_at = "torch", event.place
    if event.name == "scaler":
        seen.scaler = seen.scaler or event.place
    elif event.name == "autocast":
        seen.autocast = seen.autocast or event.place


def _placed(_it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    seen.placed = seen.placed or event.place


def _set_device(it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    device = event.values.get("device")
    if isinstance(device, Device) and device.of_rank:
        _placed(it, event, seen)
    else:
        seen.unsafe = True


def _touches_cuda(it: Interpreter, event: ScriptEvent, seen: _Collected) -> None:
    """CUDA before the device is set, or on a GPU named by number, is not a proof of placement."""
    device = event.values.get("device")
    fixed = isinstance(device, Device) and device.index is not None
    of_rank = isinstance(device, Device) and device.of_rank
    if fixed or (event.name != "device" and not it.state.device_set and not of_rank):
        seen.unsafe = True


_HANDLERS = {
    "option": _option,
    "accelerator": _accelerator,
    "arguments": _arguments,
    "lightning": _lightning,
    "trainer": _trainer,
    "scaler": _plain_torch,
    "autocast": _plain_torch,
    "step": _plain_torch,
    "process group": _plain_torch,
    "set device": _set_device,
    "cuda": _touches_cuda,
    "device": _touches_cuda,
    "load without map": _touches_cuda,
}


def _fatal_switches(
    seen: _Collected,
    sites: tuple[PrecisionSite, ...],
    judged: Callable[[RankTarget], LintResult],
    target: RankTarget,
) -> set[str]:
    """Return the switches that do harm when they are given: `--fp16` may also load the weights in fp16."""
    fatal = set()
    flags = [flag for flag in dict.fromkeys(site.option for site in sites) if flag in seen.options]
    switches = [flag for flag in flags if not seen.options[flag].takes_value and seen.options[flag].precision]
    for flag in switches[:_MAX_SWITCHES]:
        given = replace(target, capability=(8, 0), args=(*(target.args or ()), flag))
        found = judged(given).findings
        if any(item.code in _FATAL and item.level is Level.ERROR for item in found):
            fatal.add(flag)
    return fatal.union(switches[_MAX_SWITCHES:])  # not tried, and so not used


def _trained(seen: _Collected) -> tuple[TrainedDtype, CodeLocation | None]:
    if len(seen.trained) != 1:
        return "", None
    name, place = next(iter(seen.trained.items()))
    known = ("float32", "float16", "bfloat16", "checkpoint")
    return (cast("TrainedDtype", name), place) if name in known else ("", None)


def _evidence(place: CodeLocation | None, lines: list[str], path: str) -> str:
    if place is None:
        return ""
    text = lines[place.line - 1].strip() if place.path == path and 0 < place.line <= len(lines) else ""
    return f"{place}: {text}" if text else str(place)
