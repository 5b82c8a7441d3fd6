"""What shards a model: the DeepSpeed config of a launch against its ranks and hosts, FSDP's layer classes.

DeepSpeed judges its config (ds.json, or the keys of accelerate's file) when the model is built, on every
rank, after minutes of loading.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from preflight import regex as re
from preflight.checks.finding import Problem, Severity
from preflight.checks.message_text import format_gib, quote_path
from preflight.checks.registry import cluster_check
from preflight.checks.unread_facts import name_of
from preflight.decide.batch_sizes import BatchSizes, find_nearest_multiples
from preflight.decide.decision import NodeRanks
from preflight.decide.deepspeed_config import (
    find_offload_path,
    get_section,
    list_offload_devices,
    read_deepspeed,
)
from preflight.decide.script_args import get_option, read_option_values
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, PathFacts
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.job import DeepSpeedConfig, Job

Hosts: TypeAlias = Mapping[str, HostFacts]
Ranks: TypeAlias = Mapping[str, NodeRanks]

_FILLS_AUTO = ("trainer", "trl", "accelerate")
_OTHER_PARALLELISM = re.compile(r"(?:tensor|pipeline|pipe|model|sequence|context)[-_]parallel")
_NATIVE_BF16 = (8, 0)
_FP16 = (7, 0)
_BYTES_OF_OPTIMIZER = 16
_BUFFERS = 1.5
_BILLION = 1e9
_WRAP_OPTION = "--fsdp_transformer_layer_cls_to_wrap"


@cluster_check("SHARD001")
def deepspeed_batch_sizes_fit(job: Job, ranks: Ranks, script: ScriptAnalysis | None) -> Iterator[Problem]:
    """The DeepSpeed config is JSON, and its batch sizes fit the number of ranks.

    train_batch_size has to be train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks, and
    DeepSpeed ends every rank otherwise. A config that fits one machine does not fit two, and one that fits
    eight GPUs does not fit the seven that are left.

    Fix: the number that fits; or leave train_batch_size out, and DeepSpeed computes it.
    Source: deepspeed/runtime/config.py, _set_batch_related_parameters and _batch_assertion; transformers
    integrations/deepspeed.py, trainer_config_process, for the arguments of the Trainer.
    """
    config = job.deepspeed
    if config is None or not ranks:
        return
    content = read_deepspeed(job.deepspeed)
    if not content:
        yield Problem(
            f"{config.source} does not hold a JSON object: DeepSpeed cannot read it",
            "correct the file",
            config.source,
        )
        return
    world = sum(len(node.slots) for node in ranks.values())
    sizes = BatchSizes.of(content, world)
    if not sizes.given:
        return
    words = [word for word in job.args if word.startswith("--") and _OTHER_PARALLELISM.search(word)]
    blocks = [name for name in ("tensor_parallel", "sequence_parallel_size") if content.get(name)]
    other = next(iter((*words, *blocks)), "")
    if other:
        yield Problem(
            f"not checked: {other} divides the {world} ranks, and batch sizes count what is left",
            f"train_batch_size = micro batch x accumulation x ({world} / its size)",
            config.source,
            Severity.UNKNOWN,
        )
        return
    yield from _unfit(config, sizes)
    yield from _other_than_arguments(config, sizes, job, script)


def _unfit(config: DeepSpeedConfig, sizes: BatchSizes) -> Iterator[Problem]:
    wrong = next((name for name, value in sizes.given.items() if value < 1), "")
    if wrong:
        yield Problem(f"{wrong} in {config.source} is {sizes.given[wrong]}", "write 1 or more", config.source)
        return
    if sizes.train is None or sizes.product == sizes.train:
        return
    fitting = sizes.unit if len(sizes.given) < len(BatchSizes.NAMES) else 0
    written = f"train_batch_size {sizes.train} in {config.source}"
    if fitting:
        low, high = find_nearest_multiples(sizes.train, fitting)
        yield Problem(
            f"{written} cannot be shared by {sizes.said_unit}: DeepSpeed ends every rank",
            f"write {f'{low} or {high}' if low else high}, or leave it out",
            config.source,
        )
        return
    yield Problem(
        f"{written} is not {sizes.said_product} = {sizes.product}: DeepSpeed ends every rank",
        f"write {sizes.product}, or leave it out",
        config.source,
    )


def _other_than_arguments(
    config: DeepSpeedConfig, sizes: BatchSizes, job: Job, script: ScriptAnalysis | None
) -> Iterator[Problem]:
    """Compare with the Trainer's own arguments, which must say the same."""
    if script is None or script.style not in ("trainer", "trl"):
        return
    for option, name in (
        ("--per_device_train_batch_size", "train_micro_batch_size_per_gpu"),
        ("--gradient_accumulation_steps", "gradient_accumulation_steps"),
    ):
        argument, value = get_option(job.args, option), sizes.given.get(name)
        if argument is not None and value is not None and argument != value:
            yield Problem(
                f"{name} in {config.source} is {value}, and {option} is {argument}: the Trainer stops",
                f'write "{name}": "auto", and the Trainer fills it in',
                config.source,
            )


@cluster_check("SHARD002")
def deepspeed_precision_fits(hosts: Hosts, job: Job, ranks: Ranks) -> Iterator[Problem]:
    """The DeepSpeed config enables one of fp16 and bf16, and the GPUs of the launch have it.

    Both together, and fp16 before Volta, end every rank. bf16 before Ampere is emulated: DeepSpeed accepts it
    and it is slow. The config decides the precision of the launch; gpulaunch corrects none in it.

    Fix: one block with "enabled": true, that of the oldest GPU; or "auto" with the Trainer.
    Source: deepspeed/runtime/config.py (both at once), accelerator/cuda_accelerator.py (is_fp16_supported,
    and is_bf16_supported, which asks torch and counts emulation).
    """
    if job.deepspeed is None:
        return
    content, source = read_deepspeed(job.deepspeed), job.deepspeed.source
    on = [name for name in ("fp16", "bf16", "bfloat16") if get_section(content, name).get("enabled") is True]
    if "fp16" in on and len(on) > 1:
        yield Problem(
            f"fp16 and bf16 are both enabled in {source}: DeepSpeed ends every rank",
            'set "enabled": false in one of them',
            source,
        )
        return
    for host, gpu in _used_gpus(hosts, ranks) if on else ():
        if isinstance(gpu.capability, Missing):
            continue  # PREC001 reports that it is not known
        capability = ".".join(map(str, gpu.capability))
        if on != ["fp16"] and gpu.capability < _NATIVE_BF16:
            yield Problem(
                f"{source} enables bf16, which {name_of(gpu)} (capability {capability}) only emulates",
                'enable fp16 in its place, with "loss_scale": 0',
                f"gpu{gpu.index}",
                Severity.WARNING,
                hosts=(host,),
            )
        elif on == ["fp16"] and gpu.capability < _FP16:
            yield Problem(
                f"{source} enables fp16, which DeepSpeed refuses on {name_of(gpu)} ({capability})",
                "leave these GPUs out, or disable fp16",
                f"gpu{gpu.index}",
                hosts=(host,),
            )


def _used_gpus(hosts: Hosts, ranks: Ranks) -> Iterator[tuple[str, Gpu]]:
    """Yield each host's first GPU of each model that ranks use."""
    for host, node in ranks.items():
        seen: set[object] = set()
        for gpu in node.gpus_of(hosts[host]):
            if (gpu.name, gpu.capability) not in seen:
                seen.add((gpu.name, gpu.capability))
                yield host, gpu


@cluster_check("SHARD003")
def deepspeed_auto_is_filled_in(job: Job, script: ScriptAnalysis | None) -> Iterator[Problem]:
    """Where a value of the DeepSpeed config is "auto", the Trainer or accelerate fills it in.

    The Trainer and accelerate replace "auto" by what their arguments say. DeepSpeed itself takes the word for
    a number, and ends with a TypeError; below zero_optimization it takes its default.

    Fix: write the values, or let `transformers.Trainer` or `accelerate` build the engine.
    Source: transformers integrations/deepspeed.py and accelerate/accelerator.py (deepspeed_config_process);
    deepspeed/runtime/config_utils.py, which drops "auto" in its own sections.
    """
    if job.deepspeed is None:
        return
    names = tuple(_autos(read_deepspeed(job.deepspeed)))
    if not names or job.accelerate_config or (script is not None and script.style in _FILLS_AUTO):
        return
    listed = f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"
    source = job.deepspeed.source
    if script is None or script.problem or (script.style == "unknown" and "deepspeed" not in script.imports):
        yield Problem(
            f'{listed} in {source} is "auto"; whether the script fills it in is not known',
            "write the values, unless transformers' Trainer or accelerate builds the engine",
            source,
            Severity.UNKNOWN,
        )
        return
    yield Problem(
        f'{listed} in {source} is "auto", and neither the Trainer nor accelerate is seen to fill it in',
        "write the values",
        source,
    )


def _autos(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in content.items():
        if value == "auto":
            yield prefix + name
        elif isinstance(value, Mapping) and name != "zero_optimization":
            yield from _autos(value, f"{prefix}{name}.")


@cluster_check("SHARD004")
def deepspeed_offload_paths_exist(hosts: Hosts, job: Job) -> Iterator[Problem]:
    """The directory that DeepSpeed offloads to can be written on every host, and is a disk.

    ZeRO-Infinity makes its files below nvme_path on each host. A host without it ends when the first step
    swaps out; on tmpfs the "disk" is the memory that the offload was to spare.

    Fix: make the directory on a local NVMe disk of every host, owned by the user who trains.
    Source: deepspeed/runtime/swap_tensor; access(2) and the mount table of the host.
    """
    path = find_offload_path(job.deepspeed)
    if job.deepspeed is None or not path:
        return
    for name, facts in hosts.items():
        item = _offload_place(facts)
        writable = item if isinstance(item, Missing) else item.writable
        if isinstance(item, Missing) or isinstance(writable, Missing):
            reason = writable.reason if isinstance(writable, Missing) else ""
            yield Problem(
                f"whether {path} can be written is not known: {reason}",
                f"on the host: ls -ld {quote_path(path)}",
                path,
                Severity.UNKNOWN,
                hosts=(name,),
            )
        elif not item.writable:
            yield Problem(
                f"nvme_path {path} of {job.deepspeed.source} cannot be written",
                f'on the host: sudo install -d -o "$USER" {quote_path(path)}, or name another nvme_path',
                path,
                hosts=(name,),
            )
        elif item.filesystem in ("tmpfs", "ramfs") or str(item.filesystem).startswith("nfs"):
            yield Problem(
                f"nvme_path {path} of {job.deepspeed.source} is {item.filesystem}, no local disk",
                "name a directory on a local NVMe disk",
                path,
                Severity.WARNING,
                hosts=(name,),
            )


def _offload_place(facts: HostFacts) -> PathFacts | Missing:
    if isinstance(facts.paths, Missing):
        return facts.paths
    offload = (one for one in facts.paths if one.role == "offload")
    return next(offload, Missing("the host was not asked", "not-asked"))


@cluster_check("SHARD005", Severity.WARNING)
def deepspeed_offload_memory_is_there(hosts: Hosts, job: Job, ranks: Ranks) -> Iterator[Problem]:
    """A host that the optimizer is offloaded to has more memory than its GPUs.

    What is offloaded did not fit the GPUs. The optimizer takes 16 bytes a parameter, divided by the hosts,
    and half as much again for buffers; a host that lacks them is out of memory in the first step.

    Fix: fewer ranks per host do not help; more hosts, a smaller model, or `"device": "nvme"` does.
    Source: estimate_zero3_model_states_mem_needs in deepspeed/runtime/zero/stage3.py; /proc/meminfo and the
    cgroup's limit.
    """
    devices = [device for device, _ in list_offload_devices(read_deepspeed(job.deepspeed))]
    if "cpu" not in devices:
        return
    for name, node in ranks.items():
        facts = hosts[name]
        if isinstance(facts.limits, Missing):
            why, fix = f"memory not checked: {facts.limits.reason}", "run the preflight again"
            yield Problem(why, fix, "memory", Severity.UNKNOWN, hosts=(name,))
            continue
        have, limit = facts.limits.memory_available_mib, facts.limits.memory_limit_mib
        have = have if isinstance(limit, Missing) else min(have, limit)
        on_gpus = sum(gpu.total_mib or 0 for gpu in node.gpus_of(facts))
        if have < on_gpus:
            billions = have * 2**20 * len(ranks) / (_BYTES_OF_OPTIMIZER * _BUFFERS) / _BILLION
            yield Problem(
                f"{format_gib(have)} of memory are available, less than the {format_gib(on_gpus)} of its"
                f" GPUs: the optimizer of {billions:.1f} billion parameters fits",
                "free memory, add hosts, or offload to nvme",
                "memory",
                hosts=(name,),
            )


@cluster_check("SHARD006", Severity.WARNING)
def fsdp_wraps_classes_that_exist(job: Job, script: ScriptAnalysis | None) -> Iterator[Problem]:
    """The layer classes that FSDP is to wrap exist in the script or in a library.

    A name that no layer of the model has ends every rank when the model is prepared; a config that was
    written for another model names another class. Classes that a checkpoint brings as code of its own
    (trust_remote_code) are not seen, and so this is a warning.

    Fix: the name that the message offers; or leave the key out, and accelerate takes the model's own.
    Source: accelerate utils/dataclasses.py, set_auto_wrap_policy; `_no_split_modules` of transformers.
    """
    named = tuple(_wrapped(job))
    if not named:
        return
    from preflight.checks.layer_class_names import LAYER_CLASSES  # noqa: PLC0415 - only where FSDP wraps by name

    own = () if script is None else script.classes
    for source, name in named:
        if name in LAYER_CLASSES or name in own:
            continue
        from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

        close = get_close_matches(name, (*own, *LAYER_CLASSES), n=1, cutoff=0.7)
        seen = "" if script is not None and script.reads_all else ", as far as it was read,"
        yield Problem(
            f"{source} names {name}, a class of neither the script{seen} nor transformers",
            f"did you mean {close[0]}?"
            if close
            else "leave the key out, and accelerate takes the model's own",
            name,
        )


def _wrapped(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the classes to wrap, each with what names it."""
    config = job.accelerate_config or {}
    section = config.get("fsdp_config")
    key = "fsdp_transformer_layer_cls_to_wrap"
    if config.get("distributed_type") == "FSDP" and isinstance(section, dict):
        policy = str(section.get("fsdp_auto_wrap_policy") or "TRANSFORMER_BASED_WRAP").upper()
        if policy == "TRANSFORMER_BASED_WRAP":
            yield from ((key, name) for name in _split(section.get(key)))
    for option, given in read_option_values(job.args):
        if option == _WRAP_OPTION:
            yield from ((_WRAP_OPTION, name) for name in _split(given))


def _split(value: object) -> list[str]:
    """Return the names of a list, or of a text with commas."""
    names = value if isinstance(value, list | tuple) else str(value or "").split(",")
    return [name for each in names if (name := str(each).strip())]
