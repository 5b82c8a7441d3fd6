"""What a session may use: shared memory, locked memory, open files, memory, swap, CPU; and the clocks."""

from collections.abc import Iterator, Mapping

from preflight.checks.finding import Problem, Severity
from preflight.checks.message_text import START_UP, format_gib, round_duration
from preflight.checks.registry import ClockOffset, cluster_check, host_check
from preflight.checks.unread_facts import report_unread
from preflight.decide.usable_gpus import GpuSelection
from preflight.facts.host import HostFacts, Limits
from preflight.facts.missing import Missing
from preflight.job import Expect, Job

RDMA_MEMLOCK_KIB = 64 * 1024
_LEAST_MEMORY_MIB = 512  # a launcher and one CPU rank with torch were ended in a group of 250 MiB
_SAID_IN_SECONDS = 600.0  # a difference of clocks that is shorter
_CLIENT_SKEW_S = 300.0  # between a host and the client: what Kerberos allows; object stores allow 900
_SET_CLOCK = "sudo timedatectl set-ntp true   (where chrony runs: sudo chronyc makestep)"


def _raised(limit: str, in_container: str, elsewhere: str) -> str:
    """Return how a hard limit is raised: limits.conf is read at a login, which `docker exec` is not."""
    return (
        f"in a container: start the container with --ulimit {limit}={in_container} (a pod: ask the "
        "administrator for its node's runtime); on a host: "
        f'echo "$USER - {limit} {elsewhere}" | sudo tee -a /etc/security/limits.conf, then log in again'
    )


@host_check("LIM001", Severity.WARNING)
def shared_memory_is_enough(
    host: str, limits: Limits, expect: Expect, job: Job, use: GpuSelection
) -> Iterator[Problem]:
    """Shared memory (/dev/shm) has room for DataLoader workers and NCCL.

    DataLoader workers pass batches through /dev/shm and NCCL its buffers. In a container it is 64 MiB by
    default: the job dies with "bus error" or "No space left on device" in mid-epoch.

    Fix: `docker run --shm-size=16g` or `--ipc=host`; where it is large and full, remove files of dead runs.
    Source: statvfs; threshold `shm_mib_per_rank` of `expect:`; PyTorch README, Docker image section.
    """
    ranks = use.needed if job.wants_gpus else job.cpu_ranks(host)
    wanted = expect.shm_mib_per_rank * ranks
    if not wanted:
        return
    if isinstance(limits.shm_free_mib, Missing):
        yield report_unread("shared memory", limits.shm_free_mib)
    elif limits.shm_free_mib < wanted:
        total = limits.shm_total_mib
        size = max(16, -(-(wanted + (0 if isinstance(total, Missing) else total)) // 1024))
        fix = (
            f"in a container: start the container with --shm-size={size}g or --ipc=host (a pod: an emptyDir "
            "of medium: Memory at /dev/shm), or num_workers=0; on a host: sudo mount -o "
            f"remount,size={size}G /dev/shm   (until a reboot)"
        )
        if not isinstance(total, Missing) and total >= wanted:
            fix = "ls -la /dev/shm shows what fills it, such as files of dead runs"
        yield Problem(
            f"shared memory (/dev/shm) has {format_gib(limits.shm_free_mib)} free; {format_gib(wanted)} are"
            f" wanted for {ranks} rank{'s' * (ranks != 1)}",
            fix,
        )


@host_check("LIM002", Severity.WARNING, gpu_only=True)
def locked_memory_allows_rdma(limits: Limits, facts: HostFacts) -> Iterator[Problem]:
    """Locked memory is not limited where the job will use InfiniBand or RoCE.

    RDMA pins its buffers. With the common limit NCCL stops with "Cannot allocate memory" in ibv_reg_mr, often
    after minutes.

    Fix: root: `USER - memlock unlimited` in /etc/security/limits.conf (`*` leaves out root); in a container
    `--ulimit memlock=-1`; in a Slurm job `LimitMEMLOCK=infinity` of slurmd's unit.
    Source: getrlimit(RLIMIT_MEMLOCK); NCCL troubleshooting guide.
    """
    ports = () if isinstance(facts.infiniband, Missing) else facts.infiniband
    if all(port.state.upper() != "ACTIVE" for port in ports):
        return
    if limits.memlock_kib != -1 and limits.memlock_kib < RDMA_MEMLOCK_KIB:
        yield Problem(
            f"locked memory is limited to {limits.memlock_kib} KiB and this host has an active RDMA port",
            _raised("memlock", "-1", "unlimited"),
        )


@host_check("LIM003", Severity.WARNING)
def enough_files_may_be_open(limits: Limits, expect: Expect) -> Iterator[Problem]:
    """The session may open enough files.

    DataLoader workers and NCCL's sockets use hundreds per rank: "Too many open files" ends the job when the
    first epoch ends, not when it starts.

    Fix: `ulimit -n` up to the hard limit, in the head of ~/.bashrc; above it, limits.conf (root), or
    `--ulimit nofile=4096` of the container.
    Source: getrlimit(RLIMIT_NOFILE); threshold `nofile` of `expect:`.
    """
    if limits.nofile != -1 and limits.nofile < expect.nofile:
        within = limits.nofile_hard == -1 or limits.nofile_hard >= expect.nofile
        yield Problem(
            f"only {limits.nofile} files may be open; {expect.nofile} are wanted",
            f"ulimit -n {expect.nofile} as {START_UP}"
            if within
            else _raised("nofile", str(expect.nofile), str(expect.nofile)),
        )


@host_check("LIM004", Severity.WARNING)
def memory_is_available(limits: Limits, expect: Expect) -> Iterator[Problem]:
    """The host has memory to give.

    A job that starts on a host without free memory is ended by the kernel, often together with its
    neighbours.

    Fix: see who holds it with `ps aux --sort=-rss | head`; in a container raise its limit.
    Source: /proc/meminfo; the cgroup's memory.max, of 512 MiB at least; threshold
    `memory_available_percent` of `expect:`.
    """
    total = limits.memory_total_mib
    if total > 0 and 100.0 * limits.memory_available_mib / total < expect.memory_available_percent:
        yield Problem(
            f"{format_gib(limits.memory_available_mib)} of {format_gib(total)} memory are available",
            "ps aux --sort=-rss | head shows who holds it",
        )
    limit = limits.memory_limit_mib
    if not isinstance(limit, Missing) and limit < _LEAST_MEMORY_MIB:
        yield Problem(
            f"the control group of this login may use {limit} MiB: the kernel ends ranks that import torch",
            "in a container: start the container with more --memory; on a host: sudo systemctl set-property "
            "user-$(id -u).slice MemoryMax=64G; in a Slurm job: --mem",
        )


@host_check("SYS001", Severity.INFO)
def the_host_does_not_swap(limits: Limits, expect: Expect) -> Iterator[Problem]:
    """Swap is mostly unused.

    A host that has swapped out most of what it can is short of memory; ranks that wait for pages hold up all
    others.

    Fix: end what holds the memory.
    Source: /proc/meminfo; threshold `swap_used_percent` of `expect:`.
    """
    total = limits.swap_total_mib
    if total > 0 and 100.0 * limits.swap_used_mib / total > expect.swap_used_percent:
        yield Problem(
            f"{format_gib(limits.swap_used_mib)} of {format_gib(total)} swap are in use",
            "ps aux --sort=-rss | head shows who holds the memory",
        )


@host_check("SYS002", Severity.INFO)
def the_cpus_are_not_overloaded(limits: Limits, expect: Expect) -> Iterator[Problem]:
    """The load is not far above the number of CPUs.

    Data loading, and the launching of kernels, need CPU time; ranks on a busy host are slow and slow all
    others.

    Fix: `top` shows who runs.
    Source: /proc/loadavg; threshold `load_per_cpu` of `expect:`.
    """
    if limits.cpus > 0 and limits.load_1min / limits.cpus > expect.load_per_cpu:
        yield Problem(
            f"load {limits.load_1min:.1f} on {limits.cpus} CPUs: data loading will be slow",
            "the command top on the host shows what runs",
        )


@cluster_check("SYS003", Severity.WARNING)
def clocks_agree(
    hosts: Mapping[str, HostFacts], clocks: Mapping[str, ClockOffset], expect: Mapping[str, Expect]
) -> Iterator[Problem]:
    """The hosts' clocks agree; that of a single host is within five minutes of the client's.

    Logs of different hosts cannot be put in order, certificates and caches expire, file times mislead make
    and rsync. A host whose clock is minutes off has its uploads refused (signed requests to object stores,
    Kerberos), one that is days off every HTTPS connection.

    Fix: root: `timedatectl set-ntp true`, or `chronyc makestep` where chrony keeps the time.
    Source: each host's time against the client's, allowing for the time the answer took; `clock_skew_s`.
    """
    bounds = {name: clocks[name] for name in hosts if name in clocks}
    if len(bounds) < 2:
        yield from _clock_of_one(bounds, expect)
        return
    # The client is one more clock: where two hosts differ, it shows which of them is off. The time of most is
    # between the two middles, not halfway: of hosts asked late in a long round, `high` is far off.
    lows, highs = (sorted(times) for times in zip((0.0, 0.0), *bounds.values(), strict=True))
    middle_low, middle_high = lows[len(lows) // 2], highs[len(highs) // 2]
    for name, (low, high) in bounds.items():
        ahead, behind = low - middle_high, middle_low - high
        off = max(ahead, behind)
        if off > expect.get(name, Expect()).clock_skew_s:
            word = "ahead of" if ahead > behind else "behind"
            yield Problem(f"its clock is {_amount(off)} {word} the others'", _SET_CLOCK, hosts=(name,))


def _clock_of_one(bounds: Mapping[str, ClockOffset], expect: Mapping[str, Expect]) -> Iterator[Problem]:
    """Compare a host with the client, whose own clock is not checked: a laptop that has slept may be off."""
    for name, (low, high) in bounds.items():
        off = max(low, -high)
        if off > max(_CLIENT_SKEW_S, expect.get(name, Expect()).clock_skew_s):
            word = "ahead of" if low > -high else "behind"
            words = f"its clock is {_amount(off)} {word} this machine's: one of the two is wrong"
            yield Problem(words, f"{_SET_CLOCK}; date -u shows the time of each", hosts=(name,))


def _amount(off_s: float) -> str:
    return f"at least {off_s:.0f} s" if off_s < _SAID_IN_SECONDS else f"about {round_duration(off_s)}"
