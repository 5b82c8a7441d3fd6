"""Processes: who holds or claims the GPUs, whose memory is unexplained, and what is left over."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.checks.finding import Problem, Severity
from preflight.checks.holder_text import (
    LEFT_OVER,
    advise_on_holder,
    classify_by_pid,
    describe_command,
    describe_holder,
    find_process,
)
from preflight.checks.message_text import format_gib, quote_path, round_duration
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import is_container, judge_each_gpu, report_unread, report_unreadable
from preflight.facts.gpu import ComputeProcess, Gpu, GpuClaim, GpuMemory
from preflight.facts.host import HostFacts, Identity, ProcessTable
from preflight.facts.missing import Missing
from preflight.job import Expect, Job
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass
from preflight.leftovers.process_tree import SYSTEM_NAMES, ProcessTree, get_environ, is_launcher
from preflight.leftovers.reapers import is_reaper
from preflight.leftovers.selection import describe_how_to_end
from preflight.probes.nvidia_smi.processes import is_mps_server


def _alike(item: ClassifiedProcess) -> str:
    """Return what processes have in common that are reported as one."""
    return f"{item.kind.value} {item.process.user} {describe_command(item.process)}"


_JUST_ENDED_S = 5.0  # a younger dead process has just ended: its parent may be about to collect it


@host_check("PROC001", gate=True, gpu_only=True)
def the_gpus_are_free(facts: HostFacts, gpus: tuple[Gpu, ...], expect: Expect) -> Iterator[Problem]:
    """No process computes on a GPU that the job uses.

    A live neighbour takes memory and speed; a leftover of a crashed run keeps both for ever. Each holder is
    named with user, age, command, memory, and why it is thought live or left over. Holders are looked for
    twice: in the driver's list, and by open /dev/nvidia* files, since forked DataLoader workers hold a GPU
    under a dead pid.

    Fix: `gpulaunch clean-zombies HOST` for leftovers; ask the owner, or take other GPUs, for live ones.
    Source: NVML process lists, /proc; GaTech-RL2/EgoVerse pull request 682.
    """
    known = classify_by_pid(facts, expect)
    for gpu in gpus:
        if isinstance(gpu.processes, Missing):
            yield from report_unreadable(gpu, "processes on it", gpu.processes)
            continue
        if gpu.processes_cut:
            unread = Missing(gpu.processes_cut, "not-asked")
            yield from report_unreadable(gpu, "other processes on it", unread)
        reported: set[int] = set()
        for holder in gpu.processes:
            if holder.kind != "graphics":
                reported.add(holder.pid)
                if holder.pid not in known and is_mps_server(holder.name):
                    continue  # its clients are listed too, and hold what it lends them
                yield from _holder(facts, gpu, holder, find_process(facts, gpu, known.get(holder.pid)))
        for item in known.values():
            if gpu.index in item.held.gpus and item.process.pid not in reported and item.kind in LEFT_OVER:
                yield Problem(
                    f"held through open device files by {describe_holder(item)}",
                    advise_on_holder(facts, item),
                    gpu=gpu.index,
                )


def _holder(
    facts: HostFacts, gpu: Gpu, holder: ComputeProcess, item: ClassifiedProcess | None
) -> Iterator[Problem]:
    memory = "" if isinstance(holder.used_mib, Missing) else f"{format_gib(holder.used_mib)} "
    if item is not None:
        by_mps = "; a client of MPS, which shares the GPU" if holder.kind == "mps" else ""
        yield Problem(
            f"{memory}held by {describe_holder(item)}{by_mps}",
            advise_on_holder(facts, item),
            severity=Severity.INFO if item.kind is ProcessClass.SYSTEM else None,
            gpu=gpu.index,
        )
        return
    name = "" if isinstance(holder.name, Missing) else f" ({holder.name})"
    is_service = isinstance(holder.name, str) and holder.name.rpartition("/")[2] in SYSTEM_NAMES
    yield Problem(
        f"{memory}held by pid {holder.pid}{name}{_why_unseen(facts, holder.pid)}",
        _advise_on_unseen(facts, gpu),
        severity=Severity.INFO if is_service else None,
        gpu=gpu.index,
    )


def _advise_on_unseen(facts: HostFacts, gpu: Gpu) -> str:
    claims = () if isinstance(facts.claims, Missing) else facts.claims
    if claim := next((claim for claim in claims if claim.gpu_uuid == gpu.uuid), None):
        return _advise_on_claim(facts, claim)
    if isinstance(facts.identity, Identity) and not facts.identity.initial_pid_namespace:
        return _where_it_may_be(facts, gpu)[1]
    return f"{_clean(facts)}, or ask the owner: sudo fuser -v /dev/nvidia*"


def _clean(facts: HostFacts) -> str:
    """Return the command for leftovers; a saved file is called as its host by chance alone."""
    is_saved = isinstance(facts.processes, Missing) and facts.processes.code == "not-asked"
    where = "HOST, which is where this file was saved" if is_saved else facts.host
    return f"gpulaunch clean-zombies {where}"


def _why_unseen(facts: HostFacts, pid: int) -> str:
    if isinstance(facts.processes, Missing):
        is_saved = facts.processes.code == "not-asked"  # beside the output of ps, which is not read
        why = "nvidia-smi does not say it" if is_saved else facts.processes.reason
        return f"; whether it is live is not known: {why}"
    identity = facts.identity
    if isinstance(identity, Identity) and not identity.initial_pid_namespace:
        return "; it may be outside this container, or of a user whose files are hidden, so it is not judged"
    if all(process.pid != pid for process in facts.processes.processes):
        return "; this process has ended: a forked child holds the memory, or another container"
    return ""


@host_check("PROC002", gate=True, gpu_only=True)
@judge_each_gpu("memory", "memory in use")
def memory_in_use_is_explained(
    gpu: Gpu, memory: GpuMemory, facts: HostFacts, expect: Expect
) -> Iterator[Problem]:
    """No GPU has memory in use that no visible process explains.

    Memory without a process is held by forked children of a dead rank, by another container, by an MPS
    server, or by a driver that needs a reset; a job that counts on it runs out of memory.

    Fix: `sudo fuser -v /dev/nvidia*` names the holders; if there are none, reset the GPU.
    Source: NVML memory v2 minus the processes' own; threshold `memory_in_use_mib` of `expect:`.
    """
    listed = () if isinstance(gpu.processes, Missing) else gpu.processes
    used = [process.used_mib for process in listed]
    unexplained = memory.used_mib - sum(mib for mib in used if not isinstance(mib, Missing))
    if gpu.processes_cut or any(isinstance(mib, Missing) for mib in used):
        return  # a listed process holds it and the driver does not say how much; PROC001 names it
    if unexplained > max(expect.memory_in_use_mib, _vgpu_reserve_mib(gpu, memory)):
        outside, fix = _where_it_may_be(facts, gpu)
        if isinstance(gpu.processes, Missing):
            message, severity = "in use, and which processes hold it is not known", Severity.UNKNOWN
            yield Problem(f"{format_gib(unexplained)} {message}", fix, severity=severity)
            return
        yield Problem(f"{format_gib(unexplained)} in use that no visible process explains{outside}", fix)


def _where_it_may_be(facts: HostFacts, gpu: Gpu) -> tuple[str, str]:
    """Return where a process may be that is not visible, and what to do: a container shows its own alone."""
    clean = _clean(facts)
    identity = facts.identity
    if isinstance(identity, Identity) and identity.container == "wsl2":
        close = "close what uses the GPU in Windows (its Task Manager shows that)"
        allow = "allow it: expect: {memory_in_use_mib: N} in hosts.yaml"
        return "; programs of Windows may hold it", f"{close}, or {allow}"
    if isinstance(identity, Identity) and is_container(identity):
        inside = f"{clean} for what is left over in it"
        other = (
            "another container holds the GPU: ask the provider of the machine, or use other GPUs with --gpus"
        )
        return "; it may be outside this container", f"{inside}; else {other}"
    reset = f"sudo nvidia-smi --gpu-reset -i {gpu.index}"
    return "", f"{clean}; sudo fuser -v /dev/nvidia*; if nothing holds it: {reset}"


_VGPU = re.compile(r"-\d{1,3}[ABCQ]$")
"""`GRID T4-16Q`, `NVIDIA A40-8C`: a board's part in a virtual machine, with its size in GiB."""
_VGPU_RESERVE = 10


def _vgpu_reserve_mib(gpu: Gpu, memory: GpuMemory) -> int:
    """Return what a vGPU's driver may keep for itself, where it counts that as used: at most a tenth.

    Idle boards of drivers before 510 show 1040 of 16383 MiB.
    """
    is_vgpu = isinstance(gpu.name, str) and _VGPU.search(gpu.name)
    return (
        (gpu.total_mib or 0) // _VGPU_RESERVE if is_vgpu and isinstance(memory.reserved_mib, Missing) else 0
    )


@host_check("PROC003", Severity.WARNING, gate=True)
def nothing_is_left_over(
    facts: HostFacts, processes: ProcessTable, job: Job, expect: Expect
) -> Iterator[Problem]:
    """No rank, launcher or DataLoader worker of an earlier run is left over.

    A crash leaves ranks whose launcher is gone, stopped processes and half-dead ones. They hold memory, ports
    and device files until they are ended. PROC001 reports those that hold a GPU, where the job wants
    GPUs; PORT001 names the holder of the main port.

    Fix: `gpulaunch clean-zombies HOST`.
    Source: /proc; the classes and their evidence are in preflight/leftovers/classify.py.
    """
    if isinstance(facts.identity, Missing):
        yield Problem(
            f"leftovers cannot be distinguished from live processes: {facts.identity.reason}",
            "run the preflight again",
            severity=Severity.UNKNOWN,
        )
        return
    for unread in processes.unread:  # one bad process is one unknown, and hides no other
        whose = f" ({unread.user})" if unread.user else ""
        yield Problem(
            f"pid {unread.pid}{whose} could not be judged: {unread.reason}",
            f"look at it on {facts.host}: ps -fp {unread.pid}",
            subject=f"pid {unread.pid}",
            severity=Severity.UNKNOWN,
        )
    for item in classify_by_pid(facts, expect).values():
        if job.wants_gpus and _told_with_its_gpu(facts, item):
            continue
        if item.kind in LEFT_OVER or item.kind is ProcessClass.SUSPECT:
            holds = [f"GPU {i}" for i in item.held.gpus] + [f"port {p}" for p in item.held.ports]
            suffix = f"; holds {', '.join(holds)}" if holds else ""
            yield Problem(
                describe_holder(item) + suffix,
                advise_on_holder(facts, item),
                subject=f"pid {item.process.pid}",
                severity=Severity.INFO if item.kind is ProcessClass.SUSPECT else None,
                alike="" if holds else _alike(item),
            )


def _told_with_its_gpu(facts: HostFacts, item: ClassifiedProcess) -> bool:
    """Return whether PROC001 names it as the holder of a GPU."""
    return any(
        item.kind in LEFT_OVER or any(holder.pid == item.process.pid for holder in gpu.processes)
        for gpu in facts.known_gpus
        if gpu.index in item.held.gpus and not isinstance(gpu.processes, Missing)
    )


@host_check("PROC004", Severity.INFO)
def no_zombies(facts: HostFacts, processes: ProcessTable, expect: Expect) -> Iterator[Problem]:
    """No process is a zombie or stopped.

    A true zombie is already dead: it holds no GPU and no port and cannot be killed; its parent must collect
    it. A stopped process (Ctrl-Z) keeps everything it had. They are reported because people look for them
    after a crash.

    Fix: end or wake the parent of a zombie; `fg` or `kill -CONT` for a stopped process.
    Source: /proc/PID/stat.
    """
    tree = ProcessTree.of(processes)
    for item in classify_by_pid(facts, expect).values():
        process = item.process
        if item.kind is ProcessClass.ZOMBIE:
            parent = tree.parent(process)
            if parent is None or is_reaper(parent) or process.age_s < _JUST_ENDED_S:
                continue  # init, or a parent that is busy for a moment, collects it at its next turn
            fix = f"nothing to do; it goes when its parent, pid {process.ppid}, collects it or ends"
            if process.ppid == 1:  # no init: what a container was started with
                fix += "; start the container with --init, and its first process collects them"
            yield Problem(describe_holder(item), fix, subject=f"pid {process.pid}", alike=_alike(item))
        elif process.state == "T" and item.kind not in LEFT_OVER and item.kind is not ProcessClass.SUSPECT:
            fix = f"kill -CONT {process.pid}   (or fg)"
            yield Problem(describe_holder(item), fix, subject=f"pid {process.pid}", alike=_alike(item))


@host_check("PROC005", gpu_only=True, reads=("claims",))
def no_other_run_claims_the_gpus(facts: HostFacts, gpus: tuple[Gpu, ...]) -> Iterator[Problem]:
    """No other live run of gpulaunch holds a GPU that the job uses.

    A run claims its GPUs before its launcher starts, so this reports a neighbour whose ranks have not
    opened the GPU yet and whom the driver's process list cannot show. A claim is believed while the run's
    supervisor holds the lock on its file, which only the file's owner can take; what a dead run left
    says nothing.

    Fix: wait for that run, `gpulaunch stop RUN` if it is yours, or use other GPUs with --gpus. --ignore does
    not help: the host refuses a second claim.
    Source: /tmp/gpulaunch-claim-*, F_OFD_GETLK of fcntl(2).
    """
    claims = facts.claims
    if isinstance(claims, Missing):
        if claims.code != "not-asked":  # a recording of a version without claims
            yield report_unread("claims of other runs", claims)
        return
    for gpu in gpus:
        for claim in claims:
            if claim.gpu_uuid == gpu.uuid:
                yield Problem(_describe_claim(facts, claim), _advise_on_claim(facts, claim), gpu=gpu.index)


def _describe_claim(facts: HostFacts, claim: GpuClaim) -> str:
    now = facts.identity.now_unix if isinstance(facts.identity, Identity) else claim.since_unix
    run = f"run {claim.run_id}" if claim.run_id else "a run that does not say its name"
    return f"claimed by {run} of {claim.user}, {round_duration(max(0.0, now - claim.since_unix))} ago"


def _advise_on_claim(facts: HostFacts, claim: GpuClaim) -> str:
    mine = isinstance(facts.identity, Identity) and facts.identity.uid == claim.uid
    if mine and claim.run_id:
        return f"gpulaunch stop {claim.run_id}, wait for it to end, or use other GPUs with --gpus"
    return f"wait for it to end, ask {claim.user}, or use other GPUs with --gpus"


@host_check("PROC006", Severity.WARNING)
def no_live_run_writes_the_same_files(facts: HostFacts, job: Job, expect: Expect) -> Iterator[Problem]:
    """No live run of yours on the host writes to the directory that this launch writes to.

    A launch that is typed twice, from two laptops, or two runs with one `--output_dir` write over each
    other's checkpoints. gpulaunch compares the command, `output:` and options such as `--output_dir` and
    `--save_path` with those of live ranks. It says nothing where another option names the runs differently
    (`--run_name`), where the script makes up a name (of the time, a UUID), of tasks of Slurm, and of runs
    whose ranks have changed their directory.

    Fix: `gpulaunch stop RUN`, another output directory, or nothing where variables keep the runs apart.
    Source: /proc/PID/cmdline, cwd and environ of your ranks; the arguments of this launch.
    """
    paths = () if isinstance(facts.paths, Missing) else facts.paths
    workdir = next((item.resolved for item in paths if item.role == "workdir"), "")
    known = classify_by_pid(facts, expect)
    ranks = [item for item in known.values() if _may_write(item)]
    if not ranks or not workdir or job.rehearse_steps or isinstance(facts.processes, Missing):
        return
    from preflight.decide.output_paths import find_shared_output  # noqa: PLC0415 - rarely a run lives

    text = "" if isinstance(facts.script, Missing) else facts.script.text
    script = "" if isinstance(text, Missing) else text
    tree, reported = ProcessTree.of(facts.processes), set[str]()
    for item in ranks:
        process, marks = item.process, get_environ(item.process)
        if isinstance(process.argv, Missing) or isinstance(process.cwd, Missing):
            continue
        output = marks.get("GPULAUNCH_OUTPUT", "")
        shared = find_shared_output(job, workdir, process.argv, process.cwd, output, script)
        above = (known.get(each.pid) for each in tree.ancestors(process) if is_launcher(each))
        top = next(
            filter(None, above), item
        )  # a rank that is ended alone may be started again by its launcher
        end = describe_how_to_end(top if "GPULAUNCH_RUN_ID" not in marks else item, facts.host)
        if shared is None or end in reported:
            continue
        reported.add(end)
        run = end.removeprefix("gpulaunch stop ") if end.startswith("gpulaunch stop ") else ""
        name, show = (
            (f"run {run}", f"; gpulaunch attach {run} shows it") if run else (f"pid {top.process.pid}", "")
        )
        what = f"writes to {quote_path(shared)}, too" if shared else "runs the same command in this directory"
        yield Problem(
            f"{name} ({process.user}, {round_duration(process.age_s)} old) {what}: one may write over the"
            " files of the other",
            f"{end} ends it{show}; or give this launch an output directory of its own",
        )


def _may_write(item: ClassifiedProcess) -> bool:
    """Whether a process is a rank of the user's own that lives, and sees the host's directories."""
    process, marks = item.process, get_environ(item.process)
    inside = not isinstance(process.namespace_pids, Missing) and len(process.namespace_pids) > 1
    is_rank = item.kind is ProcessClass.LIVE and bool(marks.keys() & {"GPULAUNCH_RUN_ID", "LOCAL_RANK"})
    return is_rank and not inside and not marks.keys() & {"SLURM_JOB_ID", "GPULAUNCH_REHEARSE"}
