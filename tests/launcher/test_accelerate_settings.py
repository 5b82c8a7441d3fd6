"""What a user's accelerate config file says, taken over; compared with what accelerate itself makes of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.engines.accelerate_config import (
    find_deepspeed_file,
    has_strategy,
    render_lines,
    with_deepspeed_file,
)
from launcher.engines.accelerate_settings import (
    SECTIONS,
    Replaced,
    default_config_paths,
    read_settings,
    select_section_options,
    with_options,
)
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import HostFilter, Request
from launcher.errors import CommandRefused

FSDP = """
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: true
  fsdp_reshard_after_forward: false
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_transformer_layer_cls_to_wrap: GPT2Block
  fsdp_version: 2
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 8
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""

DEEPSPEED = """
compute_environment: LOCAL_MACHINE
deepspeed_config:
  deepspeed_hostfile: hostfile
  deepspeed_inclusion_filter: a:0,1@b
  deepspeed_multinode_launcher: pdsh
  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  offload_optimizer_device: nvme
  offload_optimizer_nvme_path: /local/nvme
  zero3_init_flag: true
  zero_stage: 3
distributed_type: DEEPSPEED
mixed_precision: no
num_machines: 2
num_processes: 16
main_process_ip: 10.0.0.1
main_process_port: 1234
gpu_ids: 0,2
"""

PARALLEL = """
distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: SIZE_BASED_WRAP, fsdp_min_num_params: 5}
num_processes: 8
parallelism_config: {parallelism_config_dp_shard_size: 4, parallelism_config_tp_size: 2}
dynamo_config: {dynamo_backend: INDUCTOR, dynamo_mode: max-autotune, dynamo_use_dynamic: true}
"""

MEGATRON = """
distributed_type: MEGATRON_LM
megatron_lm_config: {megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 4, megatron_lm_gradient_clipping: 0.5}
num_processes: 8
"""


def read(text: str) -> Any:
    return read_settings(yaml.safe_load(text), "config.yaml")


def environment_of(text: str, path: Path, *options: str) -> dict[str, str]:
    """Return the variables of sections that accelerate sets for the ranks, from a file and options."""
    launch = pytest.importorskip("accelerate.commands.launch")
    utils = pytest.importorskip("accelerate.utils.launch")
    path.write_text(text, encoding="utf-8")
    words = ["--config_file", str(path), "--rdzv_conf", "timeout=9", *options, "train.py"]
    args, defaults, _ = launch._validate_launch_command(launch.launch_command_parser().parse_args(words))
    args.deepspeed_fields_from_accelerate_config = ",".join(defaults.deepspeed_config)
    made = (
        utils.prepare_deepspeed_cmd_env(args)[1] if args.use_deepspeed else utils.prepare_multi_gpu_env(args)
    )
    prefixes = ("FSDP_", "ACCELERATE_", "MEGATRON_LM_", "PARALLELISM_CONFIG_")
    return {name: value for name, value in made.items() if name.startswith(prefixes)}


def merged(text: str, options: str = "") -> str:
    """Return a config file of a launch: what is taken over, and keys of the plan."""
    kept = parse_line(f"accelerate launch {options} train.py").kept
    settings = with_options(read(text), kept)
    plan: dict[str, Any] = {"distributed_type": "MULTI_GPU", "num_processes": 4, "num_machines": 1}
    precision = yaml.safe_load(text).get("mixed_precision")
    if precision is not None:
        plan["mixed_precision"] = "no" if precision is False else precision
    return "\n".join(render_lines(plan | settings.config)) + "\n"


@pytest.fixture(autouse=True)
def no_accelerate_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os  # noqa: PLC0415

    for name in tuple(os.environ):
        if name.startswith(("ACCELERATE_", "FSDP_")):
            monkeypatch.delenv(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            FSDP,
            {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_TRANSFORMER_CLS_TO_WRAP": "GPT2Block"},
        ),
        (PARALLEL, {"FSDP_MIN_NUM_PARAMS": "5", "PARALLELISM_CONFIG_TP_SIZE": "2"}),
        (PARALLEL, {"ACCELERATE_DYNAMO_BACKEND": "INDUCTOR", "ACCELERATE_DYNAMO_USE_DYNAMIC": "True"}),
        (MEGATRON, {"ACCELERATE_USE_MEGATRON_LM": "true", "MEGATRON_LM_PP_DEGREE": "4"}),
    ],
)
def test_ranks_get_the_same_from_the_file_of_the_launch(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    theirs = environment_of(text, tmp_path / "theirs.yaml")
    assert expected.items() <= theirs.items()
    assert environment_of(merged(text), tmp_path / "ours.yaml") == theirs


@pytest.mark.slow
def test_deepspeed_runs_under_torch_s_launcher(tmp_path: Path) -> None:
    one_host = DEEPSPEED.replace("num_machines: 2", "num_machines: 1").replace("mixed_precision: no", "")
    one_host = one_host.replace("main_process_port: 1234", "")
    theirs = environment_of(one_host, tmp_path / "theirs.yaml")
    ours = environment_of(merged(one_host), tmp_path / "ours.yaml")
    fields = "ACCELERATE_CONFIG_DS_FIELDS"
    assert theirs["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == "3"
    assert "deepspeed_hostfile" in theirs.pop(fields)
    assert "deepspeed_hostfile" not in ours.pop(fields)
    assert ours == theirs
    assert '"deepspeed_multinode_launcher": "standard"' in merged(one_host)


@pytest.mark.parametrize(
    "options",
    [
        "--use_fsdp --fsdp_version 2 --fsdp_offload_params true --fsdp_min_num_params 7",
        "--use_fsdp --fsdp-sharding-strategy SHARD_GRAD_OP --dynamo_backend inductor --debug",
        "--use_fsdp --fsdp_version 2 --use_parallelism_config --parallelism_config_tp_size 2",
        "--use_megatron_lm --megatron_lm_tp_degree 2 --megatron_lm_recompute_activations true",
        "--use_deepspeed --zero_stage 2 --gradient_accumulation_steps 4 --offload_param_device cpu",
        "--use_deepspeed --deepspeed_config_file ds.json --zero3_init_flag true",
        "--multi_gpu --dynamo_use_fullgraph --debug",
    ],
)
def test_options_say_the_same_as_keys(tmp_path: Path, options: str) -> None:
    plain = "distributed_type: 'NO'\nnum_processes: 4\n"
    theirs = environment_of(plain, tmp_path / "theirs.yaml", *options.split())
    ours = environment_of(merged(plain, options), tmp_path / "ours.yaml")
    for made in (theirs, ours):
        made.pop("ACCELERATE_CONFIG_DS_FIELDS", None)
    assert ours == theirs


def test_options_win_over_the_file(tmp_path: Path) -> None:
    made = environment_of(merged(FSDP, "--fsdp_offload_params false"), tmp_path / "ours.yaml")
    assert made["FSDP_OFFLOAD_PARAMS"] == "false"
    assert made["FSDP_TRANSFORMER_CLS_TO_WRAP"] == "GPT2Block"


def test_what_a_file_asks_for() -> None:
    assert read(FSDP).request == Request(nodes=1, total=8, precision="bf16")
    assert read(DEEPSPEED).request == Request(
        nodes=2,
        total=16,
        gpus=(0, 2),
        main_address="10.0.0.1",
        main_port=1234,
        precision="no",
        hostfile="hostfile",
        include=(HostFilter("a", (0, 1)), HostFilter("b")),
    )


def test_owned_keys_are_replaced_with_a_reason() -> None:
    assert read(FSDP).replaced[:2] == (
        Replaced("num_processes", "8", "the plan counts the processes of each host from its GPUs"),
        Replaced("num_machines", "1", "the hosts are those of --hosts"),
    )
    replaced = {one.key: one.value for one in read(DEEPSPEED).replaced}
    assert replaced["deepspeed_config.deepspeed_multinode_launcher"] == "pdsh"
    assert replaced["deepspeed_config.deepspeed_hostfile"] == "hostfile"
    assert replaced["gpu_ids"] == "0,2"
    assert all(one.reason for one in read(DEEPSPEED).replaced)


def test_a_deepspeed_file_is_named_where_a_host_has_it() -> None:
    kept = parse_line("accelerate launch --deepspeed_config_file ds.json t.py").kept
    config = with_options(read(DEEPSPEED), kept).config
    assert find_deepspeed_file(config) == "ds.json"
    moved = with_deepspeed_file(config, "/run/ds.json")
    assert find_deepspeed_file(moved) == "/run/ds.json"
    assert moved["deepspeed_config"]["zero_stage"] == 3
    assert find_deepspeed_file(read(FSDP).config) == ""
    assert has_strategy(read(FSDP).config)
    assert not has_strategy(read("distributed_type: MULTI_GPU").config)


def test_the_other_options_go_to_accelerate_itself() -> None:
    kept = parse_line("accelerate launch --tee 3 --use_fsdp --fsdp_version 2 --quiet t.py").kept
    assert [use.name for use in select_section_options(kept)] == ["--use_fsdp", "--fsdp_version"]


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("fsdp_confg: {}\ndistributed_type: FSDP", "has the key fsdp_confg", "fsdp_config"),
        ("distributed_type: XLA", "distributed_type in config.yaml is XLA", "FSDP"),
        ("compute_environment: AMAZON_SAGEMAKER", "AMAZON_SAGEMAKER", "accelerate config"),
        ("distributed_type: FSDP\nfsdp_config: yes please", "holds keys", "below fsdp_config"),
        ("num_processes: many", "num_processes in config.yaml", "leave it out"),
        ("mixed_precision: bf17", "mixed_precision in config.yaml is 'bf17'", "bf16"),
        ("- a", "holds no keys", "accelerate config"),
    ],
)
def test_a_file_that_cannot_be_taken_over(text: str, message: str, fix: str) -> None:
    with pytest.raises(CommandRefused) as caught:
        read(text)
    assert message in caught.value.message
    assert fix in caught.value.fix


def test_accelerate_has_no_key_that_is_unknown_here() -> None:
    config_args = pytest.importorskip("accelerate.commands.config.config_args")
    for key in config_args.ClusterConfig.__dataclass_fields__:
        value: Any = {} if key.endswith("_config") else None
        read_settings({key: value}, "config.yaml")
    assert set(SECTIONS) <= set(config_args.ClusterConfig.__dataclass_fields__)


def test_where_the_default_file_lies() -> None:
    assert default_config_paths({})[0] == "~/.cache/huggingface/accelerate/default_config.yaml"
    assert default_config_paths({"HF_HOME": "/x"})[1] == "/x/accelerate/default_config.json"
    assert default_config_paths({"XDG_CACHE_HOME": "/c"})[0].startswith("/c/huggingface/accelerate/")
