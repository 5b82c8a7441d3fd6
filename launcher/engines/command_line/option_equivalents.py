"""What gpulaunch calls the options of `accelerate launch`, `torchrun` and `deepspeed`."""

_HOSTS = "--hosts A,B names the hosts, the first being the main one; ranks and addresses follow from it"
_GPUS = (
    "--gpus N: as many ranks on each host (by default one for each of its GPUs);"
    " on CPUs --gpus none --set processes_per_host=N"
)
_MODULE = "write module: NAME in a run config"
OTHER_LAUNCHERS = {
    **dict.fromkeys(("--num_processes", "--num_gpus", "--nproc_per_node", "--nproc"), _GPUS),
    "--gpu_ids": "--gpus 0,1: these GPUs of each host",
    "--include": "--hosts A,B names the hosts, --gpus 0,1 the GPUs of each",
    **dict.fromkeys(("--num_machines", "--nnodes", "--hostfile", "--machine_rank", "--node_rank"), _HOSTS),
    **dict.fromkeys(("--main_process_ip", "--master_addr"), _HOSTS),
    **dict.fromkeys(("--main_process_port", "--master_port"), "--port N"),
    "--mixed_precision": "--precision WHICH (by default decided from the GPUs and the script)",
    "--multi_gpu": "leave it out: gpulaunch sets it for several ranks",
    "--config_file": "leave it out: accelerate's config file is generated for each launch",
    "--cpu": "--gpus none",
    **dict.fromkeys(("--module", "-m"), _MODULE),
}


def find_own_option(name: str) -> str:
    """Return what says the same in gpulaunch as an option of another launcher, "" where nothing does."""
    return OTHER_LAUNCHERS.get(name[:2] + name[2:].replace("-", "_"), "")
