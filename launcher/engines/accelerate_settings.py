"""What a user's accelerate config file says, taken over into the one that a launch writes. Pure.

Its sections (`SECTIONS`: fsdp_config, deepspeed_config and others) are the user's and stay as they are; its
world, addresses and processes are the plan's, each with the reason.
Options of `accelerate launch` say the same as keys of these sections and win over them, as in accelerate.

Sources: accelerate 1.15, commands/config/config_args.py (the keys), commands/launch.py
(`_validate_launch_command`: how keys become options; `launch_command`: which launcher runs) and
utils/dataclasses.py (`_deepspeed_config_checks`: what a DeepSpeed config file excludes).
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

from launcher.engines.command_line import options, values
from launcher.engines.command_line.parsed_command import OptionUse, Request
from launcher.engines.command_line.tables.names import as_names
from launcher.errors import CommandRefused
from preflight.frozen import dataclass
from preflight.probes.request import find_hugging_face_home

Section: TypeAlias = Mapping[str, Any]

SECTIONS = {
    "fsdp_config": "fsdp_",
    "deepspeed_config": "",
    "megatron_lm_config": "megatron_lm_",
    "fp8_config": "fp8_",
    "dynamo_config": "dynamo_",
    "parallelism_config": "parallelism_config_",
}
"""Sections that are taken over, and how the options start that say the same as their keys."""

_OWNER = "accelerate"
STRATEGIES = {"--use_fsdp": "FSDP", "--use_deepspeed": "DEEPSPEED", "--use_megatron_lm": "MEGATRON_LM"}
_DEEPSPEED_KEYS = as_names(
    "deepspeed_config_file zero_stage offload_optimizer_device offload_param_device"
    " offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps gradient_clipping"
    " zero3_init_flag zero3_save_16bit_model deepspeed_moe_layer_cls_names"
)
_PLANNED_TYPES = ("NO", "MULTI_GPU", "MULTI_CPU")
# accelerate 1.15 reads the last two from its options only; they stay as the user wrote them
_KEPT_KEYS = ("debug", "enable_cpu_affinity", "downcast_bf16")
_OWNED_KEYS: Mapping[str, tuple[object, str]] = {
    # key: what needs no mention, what replaces the rest
    "compute_environment": ("LOCAL_MACHINE", ""),
    "num_processes": (-1, options.FROM_PLAN),
    "num_machines": (None, "the hosts are those of --hosts"),
    "machine_rank": (0, options.FROM_RANKS),
    "gpu_ids": ("all", options.FROM_GPUS),
    "main_process_ip": (None, options.FROM_MAIN),
    "main_process_port": (None, options.FROM_PORT),
    "rdzv_backend": ("static", "every host joins a static rendezvous at the main host"),
    "use_cpu": (False, "read as gpus: none"),
    "mixed_precision": (None, options.FROM_PRECISION),
    "main_training_function": ("main", "for notebooks and TPUs only"),
    "mpirun_config": (None, "no MPI starts the processes"),
    "tpu_use_cluster": (False, "gpulaunch launches on no TPU"),
    "fp16": (None, options.FROM_PRECISION),
    **dict.fromkeys(
        as_names(
            "same_network dynamo_backend command_file commands tpu_name tpu_zone tpu_use_sudo tpu_vm tpu_env"
        ),
        (None, ""),
    ),
}
_DEEPSPEED_OWNED = {
    "deepspeed_multinode_launcher": "forced to standard: DeepSpeed's launchers would start ranks again",
    "deepspeed_hostfile": "gpulaunch reads hosts and slots from it; DeepSpeed's launcher does not run",
    "deepspeed_inclusion_filter": options.FROM_FILTER,
    "deepspeed_exclusion_filter": options.FROM_FILTER,
}


@dataclass(frozen=True, slots=True)
class Replaced:
    """A key of the file that the plan owns."""

    key: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class AccelerateSettings:
    """What is taken over from a config file and from options of `accelerate launch`."""

    source: str = ""  # the file, as people know it; "" = only options
    strategy: str = ""  # "FSDP", "DEEPSPEED", "MEGATRON_LM"; "" = the plan decides between one and many ranks
    sections: Mapping[str, Section] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)  # further top-level keys
    request: Request = field(default_factory=Request)
    replaced: tuple[Replaced, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """What is taken over, as keys of a config file; `distributed_type` only with a strategy."""
        taken: dict[str, Any] = {
            **self.keys,
            **{name: dict(section) for name, section in self.sections.items()},
        }
        return taken | ({"distributed_type": self.strategy} if self.strategy else {})


def read_settings(content: object, source: str) -> AccelerateSettings:
    """Return what a config file says; `content` is its YAML or JSON as plain values, `source` its name.

    Raises CommandRefused for keys that accelerate does not have, and for TPUs, SageMaker and other devices.
    """
    if not isinstance(content, Mapping):
        raise CommandRefused(
            f"{source} is not an accelerate config file: it holds no keys", "make one: accelerate config"
        )
    _check_keys(content, source)
    strategy = _strategy(content, source)
    found = {name: dict(_section(content, name, source)) for name in SECTIONS if content.get(name)}
    sections = {name: section for name, section in found.items() if section}
    # Accelerate before 0.20.
    if content.get("dynamo_backend") and str(content["dynamo_backend"]).upper() != "NO":
        sections["dynamo_config"] = {"dynamo_backend": str(content["dynamo_backend"])}
    replaced = list(_owned_keys(content))
    request = _request(content, source)
    if "deepspeed_config" in sections:
        section = sections["deepspeed_config"]
        request = _with_filters(request, section)
        replaced += [
            Replaced(f"deepspeed_config.{key}", str(section.pop(key)), reason)
            for key, reason in _DEEPSPEED_OWNED.items()
            if section.get(key) is not None and section[key] != "standard"
        ]
        section["deepspeed_multinode_launcher"] = "standard"
    keys = {name: content[name] for name in _KEPT_KEYS if content.get(name) not in (None, False, "no", "NO")}
    return AccelerateSettings(source, strategy, sections, keys, request, tuple(replaced))


def with_options(settings: AccelerateSettings, kept: Iterable[OptionUse]) -> AccelerateSettings:
    """Return the settings with options of `accelerate launch` folded in; they win over the file."""
    sections = {name: dict(section) for name, section in settings.sections.items()}
    keys = dict(settings.keys)
    strategy = settings.strategy
    for use in kept:
        name = use.name.removeprefix("--")
        if use.owner != _OWNER:
            continue
        if use.name in STRATEGIES:
            strategy = STRATEGIES[use.name]
        elif use.name == "--debug":
            keys["debug"] = True
        elif (section := find_section(name)) is not None:
            sections.setdefault(section, {})[name] = _option_value(use)
    if strategy == "DEEPSPEED":
        sections.setdefault("deepspeed_config", {})["deepspeed_multinode_launcher"] = "standard"
    return replace(settings, strategy=strategy, sections=sections, keys=keys)


def select_section_options(kept: Iterable[OptionUse]) -> tuple[OptionUse, ...]:
    """Return the options that `with_options` takes over; the others go to `accelerate launch` itself."""
    return tuple(
        use
        for use in kept
        if use.owner == _OWNER
        and (
            use.name in (*STRATEGIES, "--use_parallelism_config", "--debug")
            or find_section(use.name[2:]) is not None
        )
    )


def _check_keys(content: Mapping[Any, Any], source: str) -> None:
    known = (*_OWNED_KEYS, *SECTIONS, *_KEPT_KEYS, "distributed_type")
    for key in content:
        if key not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

            close = get_close_matches(str(key), known, n=1)
            raise CommandRefused(
                f"{source} has the key {key}, which accelerate does not have",
                f"did you mean {close[0]}?" if close else "take it out of the file",
            )
    if content.get("compute_environment") not in (None, "LOCAL_MACHINE"):
        raise CommandRefused(
            f"{source} is for {content['compute_environment']}, and gpulaunch launches over SSH",
            "make a config file for this machine: accelerate config",
        )


def _strategy(content: Mapping[str, Any], source: str) -> str:
    kind = str(content.get("distributed_type", "NO")).upper()
    if content.get("distributed_type") in (None, False) or kind in _PLANNED_TYPES:
        return ""
    if kind in STRATEGIES.values():
        return kind
    raise CommandRefused(
        f"distributed_type in {source} is {kind}, and gpulaunch launches on NVIDIA GPUs and CPUs",
        f"write one of {', '.join((*_PLANNED_TYPES[:2], *STRATEGIES.values()))}",
    )


def _section(content: Mapping[str, Any], name: str, source: str) -> Section:
    section = content[name]
    if not isinstance(section, Mapping):
        raise CommandRefused(
            f"{name} in {source} is {section!r}, and holds keys", f"write keys below {name}:"
        )
    return {str(key): value for key, value in section.items() if value is not None}


def _owned_keys(content: Mapping[str, Any]) -> Iterator[Replaced]:
    for key, (plain, reason) in _OWNED_KEYS.items():
        value = content.get(key)
        if reason and value not in (None, plain, "", [], {}):
            yield Replaced(key, "no" if value is False else str(value), reason)


def _request(content: Mapping[str, Any], source: str) -> Request:
    def named(key: str) -> str:
        return f"{key} in {source}"

    def number(key: str) -> int | None:
        text = content.get(key)
        return None if text in (None, -1, "") else values.parse_count(named(key), str(text))

    precision = content.get("mixed_precision")
    if precision is None and content.get("fp16"):
        precision = "fp16"
    elif precision is False:  # an unquoted `no` is a boolean in YAML
        precision = "no"
    port = content.get("main_process_port")
    return Request(
        nodes=number("num_machines"),
        total=number("num_processes"),
        gpus=values.parse_gpus(named("gpu_ids"), str(content["gpu_ids"]))
        if content.get("gpu_ids") is not None
        else None,
        on_cpu=content.get("use_cpu") is True,
        main_address=str(content.get("main_process_ip") or ""),
        main_port=values.parse_port(named("main_process_port"), str(port)) or None
        if port is not None
        else None,
        precision=None
        if precision is None
        else values.parse_precision(named("mixed_precision"), str(precision).lower()),
    )


def _with_filters(request: Request, section: Section) -> Request:
    def filters(key: str) -> Any:
        return values.parse_node_filters(key, str(section[key])) if section.get(key) else ()

    return replace(
        request,
        hostfile=str(section.get("deepspeed_hostfile") or ""),
        include=filters("deepspeed_inclusion_filter"),
        exclude=filters("deepspeed_exclusion_filter"),
    )


def find_section(option: str) -> str | None:
    """Return the section that an option of `accelerate launch` belongs to; its name is without dashes."""
    if option in _DEEPSPEED_KEYS:
        return "deepspeed_config"
    prefixed = ((name, prefix) for name, prefix in SECTIONS.items() if prefix)
    return next((name for name, prefix in prefixed if option.startswith(prefix)), None)


def _option_value(use: OptionUse) -> object:
    from launcher.engines.command_line.tables.accelerate import ACCELERATE  # noqa: PLC0415 - only for an option

    kinds = {option.name: option for option in ACCELERATE.options}
    option = kinds[use.name]
    if option.values == 0:
        return True
    if option.kind == "int":
        return int(use.value)
    return float(use.value) if option.kind == "float" else use.value


def default_config_paths(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where accelerate's config_args.py (`cache_dir`) looks for a default file: the first counts."""
    home = find_hugging_face_home(environ)
    files = ("default_config.yaml", "default_config.json")
    return tuple(posixpath.join(home, "accelerate", name) for name in files)
