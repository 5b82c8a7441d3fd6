"""One mixed precision for a whole launch, from the hardware, the request and the script. Pure.

The hardware table is what NVIDIA's compute capabilities can do in training, not what a torch call answers:
`torch.cuda.is_bf16_supported()` says True on Turing since torch 2.3, where bf16 is emulated.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.decide.decision import Decision, DecisionReason, NodeRanks
from preflight.decide.script_args import find_precision_in_args
from preflight.errors import GpulaunchError
from preflight.facts.gpu import Capability, Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.script import PrecisionSite, ScriptAnalysis
from preflight.frozen import dataclass
from preflight.job import PRECISIONS, Job, Precision


class PrecisionRefused(GpulaunchError):
    """No mixed precision is right for this launch; the message names host or file and line."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class HardwareLimit:
    """What one GPU should train in, and what it also may when the user asks for it by name."""

    best: Precision
    on_request: frozenset[Precision]
    reason: DecisionReason


@dataclass(frozen=True, slots=True)
class _Row:
    """From this capability on (up to the next row), unless the name pattern says otherwise."""

    capability: Capability
    best: Precision
    also: frozenset[Precision]
    note: str
    name: str = ""  # only GPUs whose name matches this pattern; such rows precede the general one


_NO_TENSOR_CORES = r"GTX 16\d\d|\bT(400|500|550|600|1000|1200|2000)\b|\bMX(450|550)\b|CMP 30HX"
"""Turing chips TU116 and TU117: capability 7.5 like a TITAN RTX, but without tensor cores."""

_TABLE: tuple[_Row, ...] = (
    _Row((8, 9), "bf16", frozenset({"no", "fp16", "fp8"}), "bf16 is native, fp8 on request"),
    _Row((8, 0), "bf16", frozenset({"no", "fp16"}), "bf16 is native"),
    _Row((7, 5), "no", frozenset(), "no tensor cores, and its fp16 convolutions give NaN", _NO_TENSOR_CORES),
    _Row((7, 5), "fp16", frozenset({"no"}), "bf16 is only emulated"),
    _Row((7, 0), "fp16", frozenset({"no"}), "bf16 is only emulated"),
    _Row((6, 1), "no", frozenset(), "fp16 arithmetic runs at 1/64 of the float32 rate"),
    _Row((6, 0), "no", frozenset({"fp16"}), "no tensor cores; fp16 saves memory and nothing else"),
    _Row((0, 0), "no", frozenset(), "no fp16 arithmetic"),
)


def find_hardware_limit(gpu: Gpu, host: str = "") -> HardwareLimit | Missing:
    """Return what `gpu` can do; Missing when its capability is not known, for a guess could cost a run."""
    if isinstance(gpu.capability, Missing):
        return gpu.capability
    name = shorten_gpu_name(gpu)
    fitting = (row for row in _TABLE if row.capability <= gpu.capability and re.search(row.name, name))
    row = next(fitting, _TABLE[-1])  # a capability below 0.0 is nonsense from a broken answer
    major, minor = gpu.capability
    where = f"{host} has " if host else ""
    text = f"{where}{name}, compute capability {major}.{minor}"
    return HardwareLimit(row.best, row.also | {row.best}, DecisionReason(text, row.note))


def shorten_gpu_name(gpu: Gpu) -> str:
    """Return the GPU's name as people say it, without the maker."""
    return "a GPU of unknown name" if isinstance(gpu.name, Missing) else gpu.name.removeprefix("NVIDIA ")


def choose_fp8_backend(hosts: Iterable[HostFacts]) -> str:
    """Return the fp8 implementation ("TE", "AO", "MSAMP") that every host has installed, else ""."""
    table = (("transformer-engine", "TE"), ("torchao", "AO"), ("ms-amp", "MSAMP"))
    installed = [
        {name.replace("_", "-") for name in facts.python.packages}
        for facts in hosts
        if not isinstance(facts.python, Missing)
    ]
    for distribution, backend in table:
        # TransformerEngine's wheels are also called transformer-engine-cu12 and the like.
        has = [
            any(n == distribution or n.startswith(f"{distribution}-cu") for n in names) for names in installed
        ]
        if has and all(has):
            return backend
    return ""


def decide_precision(
    hosts: Mapping[str, HostFacts], job: Job, script: ScriptAnalysis | None, ranks: Mapping[str, NodeRanks]
) -> Decision:
    """Return one mixed precision for every rank of the launch.

    `ranks` says which GPUs take part; other GPUs of the hosts do not matter. A precision switch among the
    script's own arguments counts as a request. `reasons[0]` is what decided. Raises PrecisionRefused when
    hardware or script make it impossible to know or to obey.
    """
    request = find_precision_in_args(job, script) if job.precision == "auto" else job.precision
    ceilings = [] if request == "no" else _ceilings(hosts, ranks)
    on_gpu = any(slot.gpu_uuid is not None for node in ranks.values() for slot in node.slots)
    hardware = _for_gpus(request, ceilings, hosts) if on_gpu else _for_cpu(request)
    if job.engine is not None and job.engine.once_per_host:
        why = (
            "the command decides precision and dtypes itself: gpulaunch passes none to it and can check none"
        )
        return Decision(
            "no",
            (DecisionReason(why, job.command.executable),),
            requested="" if request in (None, "no") else request,
        )
    if job.engine is not None and not job.engine.sets_precision and not _reaches(job, script):
        return _left_to_torch(hardware, request, job.engine.name, script)
    return _heed_script(hardware, request, script, ceilings)


def _reaches(job: Job, script: ScriptAnalysis | None) -> bool:
    """Return whether a script under an engine that sets no precision takes one from the launch all the same.

    accelerate, which looks for it in the environment, or an option of the script's own does.
    """
    if script is None or script.problem or job.precision_args or job.command.precision_option:
        return True
    takes_one = any(site.option or (site.binding and site.value) for site in script.precision)
    by_option = takes_one or find_precision_in_args(job, script) is not None
    return script.style != "torch" or "accelerate" in script.imports or by_option


def _left_to_torch(
    hardware: Decision, request: Precision | None, engine: str, script: ScriptAnalysis | None
) -> Decision:
    own = (script.own_scaler or script.own_autocast) if script is not None else ""
    what = "the script casts its forward itself" if own else "nothing in the script takes one"
    why = DecisionReason(
        f"{engine} sets no mixed precision, and {what}", own or (script.path if script else "")
    )
    wanted = request if request not in (None, "no") else hardware.requested
    return Decision("no", (why, *hardware.reasons), requested=wanted or "")


def _ceilings(hosts: Mapping[str, HostFacts], ranks: Mapping[str, NodeRanks]) -> list[HardwareLimit]:
    found: dict[str, HardwareLimit] = {}
    for host, node in ranks.items():
        for gpu in node.gpus_of(hosts[host]):
            limit = find_hardware_limit(gpu, host)
            if isinstance(limit, Missing):
                raise PrecisionRefused(
                    f"{host}: the compute capability of GPU {gpu.index} ({shorten_gpu_name(gpu)}) is not"
                    f" known ({limit.reason}), so neither is the mixed precision it can train in",
                    "leave that GPU or host out, or say it yourself with --precision no",
                )
            found.setdefault(limit.reason.text, limit)
    return list(found.values())


def _for_cpu(request: Precision | None) -> Decision:
    if request in (None, "no"):
        return Decision("no", (DecisionReason("all ranks run on the CPU", "gpus: none"),))
    if request == "bf16":
        return Decision("bf16", (DecisionReason("the config requests bf16, and the CPU has it", "the user"),))
    text = f"all ranks run on the CPU, where accelerate's {request} silently does nothing"
    return Decision("no", (DecisionReason(text, "gpus: none"),), requested=request or "")


def _for_gpus(
    request: Precision | None, ceilings: list[HardwareLimit], hosts: Mapping[str, HostFacts]
) -> Decision:
    if request == "no":
        return Decision("no", (DecisionReason("asked for", "the user"),))
    weakest = min(ceilings, key=lambda limit: PRECISIONS.index(limit.best))
    others = tuple(limit.reason for limit in ceilings if limit is not weakest)
    if request is None:
        return Decision(weakest.best, (weakest.reason, *others))
    refusing = next((limit for limit in ceilings if request not in limit.on_request), None)
    if refusing is not None:
        # The weakest GPU decides what is left, and is the one to name if it refuses the request too.
        cause = weakest if request not in weakest.on_request else refusing
        best = min(weakest.best, request, key=PRECISIONS.index)
        return Decision(best, (cause.reason, *others), requested=request)
    if request == "fp8" and not choose_fp8_backend(hosts.values()):
        text = "fp8 needs transformer-engine, torchao or ms-amp installed on every host"
        return Decision("bf16", (DecisionReason(text, "installed packages"), weakest.reason), requested="fp8")
    return Decision(request, (DecisionReason("asked for", "the user"), *(limit.reason for limit in ceilings)))


def _heed_script(
    hardware: Decision,
    request: Precision | None,
    script: ScriptAnalysis | None,
    ceilings: list[HardwareLimit],
) -> Decision:
    if script is None or script.problem:
        return hardware
    if script.manages_precision:
        text = "DeepSpeed takes its precision from its own config, not from the launch"
        hardware = _with(hardware, text, script.manages_precision)
    literals = [site for site in script.precision if site.binding and site.value]
    values = {site.value for site in literals}
    if len(values) == 1:
        return _obey(literals[0], hardware, request, ceilings)
    if len(values) > 1:
        places = ", ".join(f"{site.place} {site.value}" for site in literals)
        text = "the script asks for several precisions; the ranks say which one they use"
        return _with(hardware, text, places)
    if request is None and not script.manages_precision:
        hardware = _leave_to_the_script(hardware, script) or _spare_params(hardware, script)
    if hardware.mixed_precision == "fp16" and script.trained_dtype == "float32":
        text = "the trained parameters are float32, as fp16's scaler needs"
        hardware = _with(hardware, text, script.trained_dtype_evidence)
    bare = next((site for site in script.precision if not site.binding and not site.option), None)
    if bare is not None:
        text = f"{bare.call} takes what the launch says; it detects nothing itself"
        return _with(hardware, text, str(bare.place))
    return hardware


def _leave_to_the_script(hardware: Decision, script: ScriptAnalysis) -> Decision | None:
    """A script with its own GradScaler, or autocast and nothing of accelerate's, needs no second one."""
    own = script.own_scaler or (script.own_autocast if not script.precision else "")
    if not own or hardware.mixed_precision == "no":
        return None
    what = "scales its gradients" if script.own_scaler else "casts its forward"
    why = DecisionReason(f"the script {what} itself, so the launch adds no mixed precision of its own", own)
    return Decision("no", (why, *hardware.reasons))


_HELD = {
    "bfloat16": "the trained parameters are bfloat16, which fp16's scaler refuses",
    "checkpoint": "the trained parameters are whatever dtype the checkpoint was saved in, and fp16's scaler"
    " needs float32",
    "": "the script does not show the dtype of its trained parameters, and fp16's scaler needs float32",
}


def _spare_params(hardware: Decision, script: ScriptAnalysis) -> Decision:
    """fp16 needs float32 parameters: its scaler raises on others, and a checkpoint may hold any."""
    if hardware.mixed_precision != "fp16" or script.trained_dtype not in _HELD:
        return hardware
    why = DecisionReason(_HELD[script.trained_dtype], script.trained_dtype_evidence or script.path)
    lift = DecisionReason(
        "with parameters in float32 (dtype=torch.float32 where they are loaded) give --precision fp16",
        why.source,
    )
    return Decision("no", (why, lift, *hardware.reasons))


def _obey(
    site: PrecisionSite, hardware: Decision, request: Precision | None, ceilings: list[HardwareLimit]
) -> Decision:
    """A literal in the script wins over flag, environment and config file, so the launch must agree."""
    asks = f"{site.call} asks for {site.value}" + (f" ({site.why})" if site.why else "")
    said = f"{site.place}: {asks}"
    slow = [limit.reason.text for limit in ceilings if site.value not in limit.on_request]
    if slow:
        raise PrecisionRefused(
            f"{said}, which wins over every flag, but {'; '.join(slow)}",
            f"edit line {site.place.line} so that the launch decides, or leave those hosts out with --hosts",
        )
    if request is not None and request != site.value:
        raise PrecisionRefused(
            f"{said}, which wins over the {request} that the config requests",
            f"edit line {site.place.line} to {request}, or drop --precision {request}",
        )
    value: Precision = next(item for item in PRECISIONS if item == site.value)
    because = [DecisionReason(f"{asks}, and the script wins over any flag", str(site.place))]
    if value == "fp16" and not ceilings:
        text = "on the CPU fp16 does nothing: the ranks compute in float32"
        because.append(DecisionReason(text, "gpus: none"))
    elif value == "fp16" and all(limit.best == "bf16" for limit in ceilings):
        text = "every GPU of the launch has native bf16, which needs no scaler"
        because.append(DecisionReason(text, ceilings[0].reason.text))
    return Decision(value, (*because, *hardware.reasons))


def _with(decision: Decision, text: str, source: str) -> Decision:
    return replace(decision, reasons=(*decision.reasons, DecisionReason(text, source)))
