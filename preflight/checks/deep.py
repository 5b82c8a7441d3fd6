"""The deep checks: what a launch measured, against peers, the GPU's own best, its peak and `expect:`."""

from collections.abc import Iterator

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import deep_check
from preflight.deep.comparison import Reading, read_values
from preflight.deep.hung_ranks import Culprit, find_culprits, find_hung_step, has_reported, takes_part
from preflight.deep.margins import FADE, median
from preflight.deep.matrix import PairMatrix, build_node_matrices, build_peer_matrices
from preflight.deep.measurements import STEP_CODES, DeepRun, RankDeep
from preflight.deep.silent_corruption import judge_digests
from preflight.deep.slow_links import Pair

_BUSY_FIX = "measure again when the host is idle"


@deep_check("DEEP001")
def the_memory_keeps_what_was_written(deep: DeepRun) -> Iterator[Problem]:
    """Every GPU was measured, and its memory gave back two patterns as they were written.

    An address pattern and its inverse fill four fifths of the free memory. A word that comes back changed
    is memory that ECC does not correct, or an address line that is stuck. A GPU in use is not
    measured, which is unknown and never fine.

    Fix: `nvidia-smi -q -d ECC,ROW_REMAPPER`; take the GPU out of service.
    Source: a launch of gpulaunch's own script: torch alone, no other program on the hosts.
    """
    for each in deep.unmeasured:
        subject = "" if each.gpu is None else f"gpu{each.gpu}"
        yield Problem(f"not measured: {each.why}", each.fix, subject, Severity.UNKNOWN, hosts=(each.host,))
    for rank in deep.ranks:
        if rank.memory is not None and rank.memory.bad_words:
            words = f"{rank.memory.bad_words} words of its memory came back changed"
            offset = f", the first at offset {(rank.memory.first_bad or 0) / 2**20:.0f} MiB"
            fix = "nvidia-smi -q -d ECC,ROW_REMAPPER shows what the driver knows; take it out of service"
            yield _problem(rank, words + offset, fix)
    yield from _unfinished(deep, "DEEP001")


@deep_check("DEEP002")
def products_are_as_fast_as_those_of_peers(deep: DeepRun) -> Iterator[Problem]:
    """Every GPU multiplies matrices as fast as its peers, as itself before, and as its clock allows.

    All GPUs multiply at the same time (8192 x 8192, bf16, fp16 below compute capability 8.0), and the rate
    is that of the second, warm half. NVML's clock, power, temperature and throttle reasons are sampled
    beside it. One slow GPU sets the pace of every rank. Below 93 % of the median of the other GPUs of its
    model is a warning, below 85 % critical; below 95 % of its own best, or 60 % of its calculated peak
    (boards of 250 W and more), a warning. CPU ranks have wide margins, 55 and 40 %, and their rates leave out
    the time in which other processes had the processor.

    Fix: compare clocks, power limit and cooling with a good GPU: nvidia-smi -q -d CLOCK,POWER,PERFORMANCE.
    Source: peers of the run; ~/.local/state/gpulaunch/deep; SMs x clock x FMA per clock of the model.
    """
    for reading, rank in _slow(deep, "DEEP002"):
        fix = "compare it with a good GPU: nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,TEMPERATURE"
        yield _shortfall(reading, rank, fix, describe_sensors(rank))
    for rank in deep.ranks:
        fade = measure_fade(rank)
        if fade is not None and fade < FADE:
            words = f"matrix products fell to {fade:.0%} of their first rate{describe_sensors(rank)}"
            look = "look at cooling and power: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
            yield _problem(rank, words, look, Severity.WARNING)
    yield from _unfinished(deep, "DEEP002")


@deep_check("DEEP003")
def equal_gpus_compute_equal_results(deep: DeepRun) -> Iterator[Problem]:
    """GPUs of one model with one torch compute the same bits from the same numbers, twice.

    A GPU that computes something else corrupts every gradient without an error. One that differs from
    itself needs no witness; else a majority of three or more names the odd one, and two that differ are
    unknown.

    Fix: take the GPU out of service and have the vendor's diagnostics run on it.
    Source: seeded products of each rank, as SHA-256.
    """
    verdict = judge_digests(deep.ranks)
    fix = "take it out of service; the vendor's diagnostics (dcgmi diag -r 3) can confirm it"
    for rank in verdict.unstable:
        yield _problem(rank, "the same product gave other bits a second time: silent corruption", fix)
    for rank in verdict.odd:
        words = "its products have other bits than those of all others of its model: silent corruption"
        yield _problem(rank, words, fix)
    for group in verdict.divided:
        for rank in group:
            others = ", ".join(each.name for each in group if each is not rank)
            words = f"its products differ from those of {others}, and two do not show which is right"
            yield _problem(rank, words, "measure them together with a third of the model", Severity.UNKNOWN)
    yield from _unfinished(deep, "DEEP003")


@deep_check("DEEP004")
def the_memory_is_as_fast_as_that_of_peers(deep: DeepRun) -> Iterator[Problem]:
    """Every GPU copies within its memory as fast as its peers, as itself before, and as its bus allows.

    Copies of 1 GiB, each byte counted as read and written. The margins are those of DEEP002; 65 % of the
    peak that memory clock and bus width give.

    Fix: nvidia-smi -q -d CLOCK,ECC,ROW_REMAPPER; compare with a good GPU.
    Source: peers of the run; ~/.local/state/gpulaunch/deep; memory clock x 2 x bus width.
    """
    yield from _shortfalls(
        deep, "DEEP004", "nvidia-smi -q -d CLOCK,ECC,ROW_REMAPPER; compare with a good GPU"
    )
    yield from _unfinished(deep, "DEEP004")


@deep_check("DEEP005")
def the_host_is_reached_as_fast_as_by_peers(deep: DeepRun) -> Iterator[Problem]:
    """Every GPU copies to and from the host's memory as fast as its peers, alone and all at once.

    Pinned memory, 256 MiB each way. Alone it shows a link that has trained down (Gen3, x8), all at once a
    switch or a NUMA node that is shared. Below 85 % of the other GPUs is a warning, below 70 % critical.

    Fix: `nvidia-smi -q | grep -A9 'GPU Link Info'` while it computes; reseat the card, or look at the BIOS.
    Source: peers of the run; ~/.local/state/gpulaunch/deep.
    """
    yield from _shortfalls(deep, "DEEP005", "nvidia-smi -q | grep -A9 'GPU Link Info' while it computes")
    yield from _unfinished(deep, "DEEP005")


@deep_check("DEEP006")
def gpus_of_a_host_reach_each_other(deep: DeepRun) -> Iterator[Problem]:
    """Every two GPUs of a host exchange data, unchanged, and no pair is far slower than most.

    Rounds of disjoint pairs, over what the ranks would use: NVLink, PCIe or the host's memory. Below 85 % of
    what most pairs reach is a warning, since topology alone makes for that; bytes that change are critical.

    Fix: nvidia-smi topo -p2p r shows which pairs may reach each other, nvidia-smi nvlink -s the links.
    Bytes that change over PCIe: `iommu=pt` of the kernel, ACS off in the BIOS; NCCL_P2P_DISABLE=1 until then.
    Source: send and receive between the ranks of a host.
    """
    fix = "nvidia-smi topo -m and nvidia-smi nvlink -s show the links"
    around = f"--set env.NCCL_P2P_DISABLE=1 until PCIe is repaired (iommu=pt, ACS off in the BIOS); {fix}"
    for matrix in build_peer_matrices(deep):
        host = matrix.title.removeprefix("pairs within ")
        for one, other in matrix.wrong:
            words = f"bytes between {one} and {other} arrived changed"
            yield Problem(words, around, f"{one} {other}", Severity.CRITICAL, hosts=(host,))
        for name in matrix.verdict.nodes:
            words = f"{name} exchanges with all others at {_of_most(matrix, name)}"
            yield Problem(words, fix, name, Severity.WARNING, hosts=(host,))
        for one, other in (*matrix.verdict.links, *matrix.verdict.unresolved):
            words = f"{one} and {other} exchange at {_of_most(matrix, one, other)}"
            yield Problem(words, fix, f"{one} {other}", Severity.WARNING, hosts=(host,))
        for pair in matrix.verdict.noisy:
            yield _noisy(matrix, pair, " ".join(pair), (host,))
    yield from _unfinished(deep, "DEEP006")


@deep_check("DEEP007")
def sums_within_a_host_are_right_and_as_fast_as_elsewhere(deep: DeepRun) -> Iterator[Problem]:
    """The all-reduce within each host gives the right sums, as fast as on hosts with as many GPUs.

    Bus rate = 2 (n-1) / n x bytes / time for 1 GiB. Below 85 % of the other hosts is a warning, below 70 %
    critical; `expect: {allreduce_gbs: N}` says what a site has measured.

    Fix: NCCL_DEBUG=INFO says which transport the ranks chose; nvidia-smi nvlink -s shows the links.
    Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    for rank in deep.ranks:
        if rank.node is not None and not rank.node.correct:
            yield _problem(
                rank, "the all-reduce within its host gave a wrong sum", "take the host out of service"
            )
    fix = "NCCL_DEBUG=INFO says which transport the ranks chose; nvidia-smi nvlink -s shows the links"
    yield from _shortfalls(deep, "DEEP007", fix)
    yield from _unfinished(deep, "DEEP007")


@deep_check("DEEP008")
def sums_over_the_world_are_right(deep: DeepRun) -> Iterator[Problem]:
    """All ranks join one world, and its all-reduce gives the right sums.

    The rate over all hosts has no peer to compare it with: what is slow in it, DEEP009 names by pairs.

    Fix: see the finding; NCCL_DEBUG=INFO says what NCCL tried.
    Source: all-reduce of 1 GiB over every rank.
    """
    for rank in deep.ranks:
        if rank.world is not None and not rank.world.correct:
            words = "the all-reduce over the world gave this rank a wrong sum"
            yield _problem(rank, words, "DEEP003, DEEP006 and DEEP009 say where bits change")
    yield from _shortfalls(deep, "DEEP008", "DEEP009 names the slow node or link")
    yield from _unfinished(deep, "DEEP008")


@deep_check("DEEP009")
def every_pair_of_nodes_is_as_fast_as_most(deep: DeepRun) -> Iterator[Problem]:
    """Every two hosts exchange data, unchanged, as fast as most pairs do.

    In each round of the circle method every host exchanges with another one, both ways, first with one rank
    and then with all of them, rail by rail; up to 16 hosts meet all others, more meet three. A host that is
    slow with several partners is named, and a pair that is slow while both are fast elsewhere is a link.
    Below 85 % of what most pairs reach counts as slow (CPU ranks: 45 %), if three repetitions, alone on the
    network and in turn with fast pairs, show the same; a pair that is slow in some of them is unknown.

    Fix: look at the named host's link and port counters (ethtool -S, ibstat, perfquery), then at the switch.
    Source: send and receive between hosts; the circle method of round-robin tournaments.
    """
    counters = "look at its link and port counters: ethtool -S, ibstat, perfquery"
    for matrix in build_node_matrices(deep):
        for one, other in matrix.wrong:
            words = f"bytes between {one} and {other} arrived changed"
            yield Problem(words, counters, "link", Severity.CRITICAL, hosts=(one, other))
        for name in matrix.verdict.nodes:
            words = f"{name} is slow with every partner: {_of_most(matrix, name)} ({matrix.title})"
            yield Problem(words, counters, "node", Severity.CRITICAL, hosts=(name,))
        for one, other in matrix.verdict.links:
            words = f"the link between {one} and {other} is slow: {_of_most(matrix, one, other)}"
            words += f"; both are fast with others ({matrix.title})"
            yield Problem(words, counters, "link", Severity.CRITICAL, hosts=(one, other))
        for one, other in matrix.verdict.unresolved:
            words = f"{one} and {other} are slow with each other: {_of_most(matrix, one, other)}"
            words += ", and this does not show whether a host or the link is"
            yield Problem(words, "measure them with more hosts", "link", Severity.WARNING, hosts=(one, other))
        for pair in matrix.verdict.noisy:
            yield _noisy(matrix, pair, "link", pair)
    yield from _unfinished(deep, "DEEP009")


def _slow(deep: DeepRun, code: str) -> Iterator[tuple[Reading, RankDeep]]:
    """Yield the values of a check that are not fine, each with its rank."""
    ranks = {rank.rank: rank for rank in deep.ranks}
    slow = (each for each in read_values(deep) if each.code == code and each.verdict != "ok")
    return ((reading, ranks[reading.rank]) for reading in slow)


def _shortfalls(deep: DeepRun, code: str, fix: str) -> Iterator[Problem]:
    return (_shortfall(reading, rank, fix) for reading, rank in _slow(deep, code))


def _shortfall(reading: Reading, rank: RankDeep, fix: str, more: str = "") -> Problem:
    words = f"{describe_shortfall(reading)}{more}{describe_waits(reading)}"
    severity = Severity(reading.verdict)
    return _problem(rank, words, _BUSY_FIX if severity is Severity.UNKNOWN else fix, severity)


def _problem(rank: RankDeep, message: str, fix: str, severity: Severity = Severity.CRITICAL) -> Problem:
    subject = f"gpu{rank.gpu}" if rank.gpu is not None else f"rank {rank.rank}"
    return Problem(message, fix, subject, severity, hosts=(rank.host,))


def _of_most(matrix: PairMatrix, *names: str) -> str:
    """Return "1.2 of the 9.8 GB/s that most pairs reach", for the pairs that hold all these names."""
    rates = [rate for pair, rate in matrix.rates.items() if set(names) <= set(pair)]
    reference = format_rate(matrix.verdict.reference or 0.0)
    return f"{format_rate(max(rates))} of the {reference} GB/s that most pairs reach"


def _noisy(matrix: PairMatrix, pair: Pair, subject: str, hosts: tuple[str, ...]) -> Problem:
    words = f"{' and '.join(pair)} were slow in some repetitions and fast in others"
    words += f" ({_of_most(matrix, *pair)}): something else used the hosts or the network ({matrix.title})"
    return Problem(words, "measure again when both are idle", subject, Severity.UNKNOWN, hosts=hosts)


def _unfinished(deep: DeepRun, code: str) -> Iterator[Problem]:
    """Yield what the steps of this check could not measure, and who hung, ended or was lost in one."""
    culprits = find_culprits(deep) if deep.hung else ()
    for step in (name for name, of in STEP_CODES.items() if of == code):
        if deep.hung and find_hung_step(deep) == step:
            yield from _hang(deep, step, culprits)
            continue
        if find_hung_step(deep) == step:
            yield from _losses(deep, step)
        lacking = [rank for rank in deep.ranks if takes_part(deep, step) and not has_reported(rank, step)]
        for rank in lacking:
            log = f"gpulaunch logs {deep.run_id} --rank {rank.rank}"
            if step in rank.failed:
                words = f"{step} could not be measured: {rank.failed[step]}"
                yield _problem(rank, words, log, Severity.UNKNOWN)
            elif deep.failed_rank == rank.rank and step == (rank.begun or ("join",))[-1]:
                yield _problem(rank, f"the rank ended in the step {step}: {deep.ended}", log)
        yield from _not_measured(deep, step, [rank for rank in lacking if step not in rank.failed])


def _not_measured(deep: DeepRun, step: str, ranks: list[RankDeep]) -> Iterator[Problem]:
    """Yield once which ranks reported nothing of a step, and why."""
    hosts = tuple(dict.fromkeys(rank.host for rank in ranks))
    if hosts:
        why, fix = "the ranks reported nothing", f"gpulaunch logs {deep.run_id}"
        if deep.ended:
            why, fix = f"the run ended in the step {find_hung_step(deep)}", "repair that, then measure again"
            if deep.stopped:
                why, fix = f"stopped in the step {find_hung_step(deep)}: {deep.ended}", "measure again"
            elif deep.lost:
                lost = " and ".join(deep.lost)
                why, fix = f"{why} when {lost} was lost", f"measure again without {lost}, or when it is back"
        yield Problem(f"{step} not measured: {why}", fix, "", Severity.UNKNOWN, hosts=hosts)


def _losses(deep: DeepRun, step: str) -> Iterator[Problem]:
    for host, why in deep.lost.items():
        words = f"the host was lost in the step {step}: {why}"
        yield Problem(words, f"gpulaunch preflight {host}", "", Severity.CRITICAL, hosts=(host,))


def _hang(deep: DeepRun, step: str, culprits: tuple[Culprit, ...]) -> Iterator[Problem]:
    fix = f"gpulaunch report {deep.run_id} shows the stacks of all ranks"
    for culprit in culprits:
        stack = f"; its stack: {' < '.join(culprit.stack)}" if culprit.stack else ""
        words = f"{culprit.rank.name} hung in the step {step}: {culprit.why}{stack}"
        yield _problem(culprit.rank, words, fix)
    if not culprits:
        words = f"the step {step} hung, and no rank differs from the others"
        yield Problem(words, fix, step, Severity.UNKNOWN, hosts=deep.hosts)


_SOURCES = {
    "peers": "that its peers in this run reach",
    "own best": "that it has reached itself",
    "peak": "of its calculated peak",
    "expect": "that `expect:` wants",
}
_MUCH = 0.1


def format_rate(value: float) -> str:
    """Return a rate with three digits and without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def describe_shortfall(reading: Reading) -> str:
    """Return "matrix products at 412 TFLOPS, 61 % of the 675 TFLOPS that its peers in this run reach"."""
    expected = reading.expected
    if expected is None:
        return f"{reading.label} at {format_rate(reading.value)} {reading.unit}"
    share = reading.value / expected.value if expected.value else 0.0
    value, wanted, unit = format_rate(reading.value), format_rate(expected.value), reading.unit
    return (
        f"{reading.label} at {value} {unit}, {share:.0%} of the {wanted} {unit} {_SOURCES[expected.source]}"
    )


def describe_waits(reading: Reading) -> str:
    """Return what kept a CPU rank from its processor, "" where that is little."""
    waits, words = reading.waits, ""
    if waits.throttled >= _MUCH:
        words += f"; the CPU quota of its control group held it back for {waits.throttled:.0%} of the time"
    if waits.waited >= _MUCH:
        words += f"; it waited for a processor, since other processes ran, for {waits.waited:.0%} of the time"
    return words


def describe_sensors(rank: RankDeep) -> str:
    """Return "; 1980 -> 1200 MHz, 310 W, 88 degrees C, throttled: hw_thermal", "" where NVML said nothing."""
    if rank.matmul is None or not rank.matmul.sensors:
        return ""
    first, last = rank.matmul.sensors[0], rank.matmul.sensors[-1]
    parts = []
    for at, unit in ((1, "MHz"), (2, "W"), (3, "°C")):
        one, two = (sample[at] if len(sample) > at else None for sample in (first, last))
        if two is not None:
            parts.append(
                f"{one:.0f} -> {two:.0f} {unit}" if one is not None and one != two else f"{two:.0f} {unit}"
            )
    reasons = ", ".join(rank.matmul.throttle)
    return f"; {', '.join(parts)}{f', throttled: {reasons}' if reasons else ''}" if parts else ""


def measure_fade(rank: RankDeep) -> float | None:
    """Return the last quarter's rate of a GPU's products as a share of the first quarter's."""
    if rank.matmul is None or not rank.on_gpu or len(rank.matmul.tflops) < 8:
        return None
    rates = rank.matmul.tflops
    quarter = len(rates) // 4
    first = median(rates[:quarter])
    return median(rates[-quarter:]) / first if first else None
