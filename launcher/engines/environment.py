"""Variables that decide what a rank is: those that no launch inherits, and those that a plan sets itself."""

UNSET = (
    # What a former launcher leaves behind decides rank, world and precision of the next one.
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_*", "ROLE_*", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "PET_*", "TORCHELASTIC_*", "ACCELERATE_*", "FSDP_*", "MEGATRON_LM_*"),
    *("PARALLELISM_CONFIG_*", "PMI_*", "PMIX_*", "MPI_LOCAL*", "OMPI_COMM_WORLD_*", "MV2_COMM_WORLD_*"),
    # What Slurm sets for the one task that runs gpulaunch; Lightning would take it for its own rank and
    # world.
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS*", "SLURM_NPROCS"),
    *("FORK_LAUNCHED", "CUDA_VISIBLE_DEVICES", "GPULAUNCH_*"),
)
"""Names and PREFIX* patterns that no launch inherits. accelerate and torch read each of them at start."""

OWNED_ENV = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_CPU"),
    "PET_RDZV_ID",
    # By these a run is recognised, guarded and ended; another run's id would make its processes that run's.
    *("GPULAUNCH_RUN_ID", "GPULAUNCH_SUPERVISOR", "GPULAUNCH_MASK", "GPULAUNCH_LOCAL_RANK_OPTION"),
    *("GPULAUNCH_GUARD", "GPULAUNCH_REHEARSE", "GPULAUNCH_OUTPUT"),
)
"""Variables that the plan itself sets or that accelerate overwrites: what `env:` says of them is not used."""
