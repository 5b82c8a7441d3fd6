"""The cases in the order in which they run: what needs no torch first, what breaks things last."""

from tests.gpu.case import Case
from tests.gpu.cases import (
    checks,
    cuda,
    deep,
    end_to_end,
    facts,
    failures,
    guard,
    mps,
    overhead,
    precision,
    processes,
    ranks,
)

CASES: tuple[Case, ...] = (
    Case("facts", "the agent's facts (NVML) against nvidia-smi -q -x", facts.compare_nvml),
    Case("facts-smi", "the agent's facts without NVML against nvidia-smi -q -x", facts.compare_smi),
    Case(
        "recording",
        "gpulaunch record --mask hides names and is judged as the machine was",
        end_to_end.keep_recording,
    ),
    Case("rest", "nothing stops a launch on this machine", checks.look_at_rest),
    Case("checks", "every check on this board", checks.judge_board),
    Case("causes", "a held GPU, a taken port, too many GPUs are found", checks.cause_findings),
    Case("memory", "a process on the GPU: listing and memory accounting", processes.account_memory),
    Case("namespaces", "a process in another PID namespace", processes.look_into_namespaces),
    Case("mps", "clients of MPS are listed once, as such", mps.share_by_mps),
    Case("cuda", "the start of CUDA beside NVML and torch", cuda.start_cuda),
    Case("cuda-broken", "what keeps CUDA from starting is found", cuda.break_cuda, limit_s=120),
    Case("precision", "bf16, fp16 and fp8 as decided against what torch computes", precision.decide),
    Case("deep", "the deep checks (gpulaunch bench)", deep.measure, limit_s=160, least_s=40),
    Case("ranks", "LOCAL_RANK to UUID, from inside the ranks", ranks.verify_devices),
    Case("guard-numbers", "the guard changes no number", guard.keep_numbers),
    Case("guard-waits", "the guard does not wait for the GPU", guard.avoid_synchronisation),
    Case("guard-cost", "what the guard costs per step", guard.measure_overhead),
    Case("nan", "weights that become NaN", failures.stop_nan),
    Case("pure-half", "float16 parameters under a GradScaler", failures.stop_pure_half),
    *(
        Case(each.fault, f"a run that ends by {each.fault}", failures.fail(each))
        for each in failures.FAILURES
    ),
    Case("kill-rank", "SIGKILL to a rank", failures.kill_rank),
    Case("kill-client", "SIGKILL to the client, then gpulaunch stop", failures.kill_client),
    Case("kill-all", "SIGKILL to client, supervisor and launcher", failures.kill_all),
    Case("orphan", "a rank of torchrun whose launcher was killed, and clean-zombies", failures.clean_orphan),
    Case("spin", "a kernel that never ends, and --hang-timeout", failures.hang_kernel, limit_s=170),
    Case(
        "collective",
        "an NCCL collective that one of two ranks does not join",
        failures.hang_collective,
        limit_s=170,
    ),
    Case("packaged", "the packaged training, from start to report", end_to_end.run_packaged, limit_s=180),
    Case("rehearsal", "a rehearsal of the packaged training", end_to_end.rehearse_packaged, limit_s=180),
    Case("overhead", "steps alone and in a run", overhead.compare_steps, limit_s=120),
)
