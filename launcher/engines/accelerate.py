"""The accelerate engine: what one node of a plan runs, as argv, environment and files. Pure.

The contract with the host (`{run_dir}` is the node's own directory for this run, filled in there):

    <python> -m accelerate.commands.launch --config_file {run_dir}/accelerate.yaml
        [--rdzv_conf timeout=N --log_dir {run_dir}/torchelastic]
        {run_dir}/rank.py SCRIPT args...          or          {run_dir}/rank.py -m MODULE args...

- `rank.py` is `launcher/onhost/rank/`, put there by the supervisor. It is accelerate's training script, in
  every rank; its own argv is the script's command line as `python` itself would take it, so what follows the
  first word (or `-m NAME`) is the script's, whatever it looks like (accelerate's parser takes all that
  follows the training script verbatim: argparse.REMAINDER).
- `expected.json` in the run directory is what the ranks must find (see `expected`).
- GPULAUNCH_MASK=1: rank.py narrows CUDA_VISIBLE_DEVICES to its LOCAL_RANK-th entry before torch is imported.

Everything else is in one YAML, precision too. No `--mixed_precision` flag: with a config file *and* the flag
the launcher itself builds a CUDA tensor on GPUs older than Ampere (`is_bf16_available`, commands/launch.py),
and so holds GPU 0 against rank 0 in Exclusive Process mode. No `--multi_gpu` flag: the YAML's
distributed_type sets it. `--config_file` is always given, which keeps the host's own default_config.yaml out;
accelerate applies nested sections (fp8_config) only if some option stood on the command line, and this does.
"""

import json
from collections.abc import Mapping

from preflight.decide.decision import NodeRanks
from preflight.frozen import dataclass
from preflight.job import Job, Precision

RUN_DIR = "{run_dir}"
RENDEZVOUS_TIMEOUT_S = 300

UNSET = (
    # What a former launcher leaves behind decides rank, world and precision of the next one.
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_*",
    "ROLE_*",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PET_*",
    "TORCHELASTIC_*",
    "ACCELERATE_*",
    "FSDP_*",
    "MEGATRON_LM_*",
    "PARALLELISM_CONFIG_*",
    "PMI_*",
    "PMIX_*",
    "MPI_LOCAL*",
    "OMPI_COMM_WORLD_*",
    "MV2_COMM_WORLD_*",
    # What Slurm tells the one task that runs gpulaunch; Lightning would take it for its own rank and world.
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS*",
    "SLURM_NPROCS",
    "FORK_LAUNCHED",
    "CUDA_VISIBLE_DEVICES",
    "GPULAUNCH_*",
)
"""Names and PREFIX* patterns that no launch inherits. accelerate and torch read each of them at start."""

OWNED_ENV = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_USE_CPU",
    "PET_RDZV_ID",
    # By these a run is recognised, guarded and ended; another run's id would make its processes that run's.
    "GPULAUNCH_RUN_ID",
    "GPULAUNCH_SUPERVISOR",
    "GPULAUNCH_MASK",
    "GPULAUNCH_GUARD",
    "GPULAUNCH_REHEARSE",
)
"""Variables that the plan itself sets or that accelerate overwrites: what `env:` says of them is not used."""

FIXED_ENV = {"PYTHONUNBUFFERED": "1"}
"""What every launcher gets, whatever the plan."""


@dataclass(frozen=True, slots=True)
class World:
    """What every node of a launch has in common."""

    run_id: str
    nodes: int
    size: int
    main_address: str
    main_port: int
    mixed_precision: Precision
    fp8_backend: str = ""  # "TE", "AO", "MSAMP"


def argv(python: str, job: Job, script: str, world: World) -> tuple[str, ...]:
    """Return the node's launcher command; `script` is the path as the host will see it."""
    target = ("-m", job.module) if job.module else (script,)
    # What accelerate's config file does not take. Without the directory torch's launcher would leave one in
    # the host's temporary directory, after every run.
    settings = (
        *("--rdzv_conf", f"timeout={RENDEZVOUS_TIMEOUT_S}"),
        *("--log_dir", f"{RUN_DIR}/torchelastic"),
    )
    return (
        python,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        f"{RUN_DIR}/accelerate.yaml",
        *(settings if world.size > 1 else ()),
        f"{RUN_DIR}/rank.py",
        *target,
        *job.args,
    )


def environment(world: World, ranks: NodeRanks, omp_threads: int) -> dict[str, str]:
    """Return what the launcher needs in its environment besides the host's own and the user's."""
    env = {
        "GPULAUNCH_RUN_ID": world.run_id,
        "OMP_NUM_THREADS": str(omp_threads),
        **FIXED_ENV,
    }
    if world.size > 1:
        # Without an id of its own every static rendezvous is called "none", and a stranger's launcher on the
        # same address and port joins the job silently.
        env["PET_RDZV_ID"] = world.run_id
    uuids = [slot.gpu_uuid for slot in ranks.slots if slot.gpu_uuid is not None]
    if uuids:
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        env["CUDA_VISIBLE_DEVICES"] = ",".join(uuids)
    else:
        # `--cpu` starts one process whatever is asked; this variable and the multi-GPU path give gloo ranks.
        env["ACCELERATE_USE_CPU"] = "true"
        env["CUDA_VISIBLE_DEVICES"] = ""
    if ranks.masked:
        env["GPULAUNCH_MASK"] = "1"
    return env


def config_yaml(world: World, ranks: NodeRanks, node_rank: int) -> str:
    """Return accelerate's config file for one node, with every key that a host could otherwise decide.

    `num_processes` is local ranks x nodes: accelerate floors `num_processes / num_machines` on each host and
    torch then adds the real local sizes, so this is what makes unequal hosts one world.
    """
    many = world.size > 1
    on_cpu = ranks.slots[0].gpu_uuid is None
    rows: list[tuple[str, str | int | bool]] = [
        ("compute_environment", "LOCAL_MACHINE"),
        ("debug", False),
        ("distributed_type", "MULTI_GPU" if many else "NO"),
        ("downcast_bf16", False),
        ("enable_cpu_affinity", False),
        ("gpu_ids", "all"),  # the order is in CUDA_VISIBLE_DEVICES, by UUID
        ("machine_rank", node_rank),
        ("main_training_function", "main"),
        ("mixed_precision", world.mixed_precision),
        ("num_machines", world.nodes),
        ("num_processes", len(ranks.slots) * world.nodes),
        ("rdzv_backend", "static"),
        ("same_network", False),
        ("use_cpu", on_cpu and not many),  # with distributed_type it would start one process only
    ]
    if many:
        rows += [("main_process_ip", world.main_address), ("main_process_port", world.main_port)]
    lines = [f"{key}: {_scalar(value)}" for key, value in sorted(rows)]
    lines += ["dynamo_config:", '  dynamo_backend: "no"']
    if world.mixed_precision == "fp8":
        lines += ["fp8_config:", f'  backend: "{world.fp8_backend}"']
    return "\n".join(lines) + "\n"


def expected(world: World, ranks: NodeRanks, first_rank: int) -> str:
    """Return expected.json: what each rank of the node must find itself to be, or the launch is stopped."""
    gpus = [slot.gpu_uuid for slot in ranks.slots]
    facts: Mapping[str, object] = {
        "schema": "gpulaunch.expected/1",
        "run_id": world.run_id,
        "world_size": world.size,
        "local_world_size": len(gpus),
        "first_rank": first_rank,
        "gpus": gpus,  # by local rank; null = CPU
        "masked": ranks.masked,
        "mixed_precision": world.mixed_precision,
    }
    return json.dumps(facts, indent=1) + "\n"


def _scalar(value: object) -> str:
    """Every string quoted: a bare `no` is a boolean in YAML."""
    return json.dumps(value)
