"""The plan of a launch from hosts, facts and job. Pure: it asks, opens and starts nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.engines import base
from launcher.engines.accelerate_config import find_deepspeed_file
from launcher.engines.choice import choose_engine
from launcher.engines.environment import OWNED_ENV, UNSET
from launcher.errors import LaunchRefused
from launcher.planning import main_address_and_port
from launcher.planning.accelerate_default_config import describe_effect_on_cpu, take_default_config
from launcher.planning.plan import Change, NodePlan, Plan, ScriptFile
from preflight.checks.finding import Finding
from preflight.decide.decision import Decision, DecisionReason, NodeRanks
from preflight.decide.gpu_assignment import map_ranks
from preflight.decide.gpu_signs import resolve_gpus
from preflight.decide.precision import choose_fp8_backend, decide_precision
from preflight.decide.script_args import align_args
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.frozen import dataclass
from preflight.job import Job

_MAX_THREADS_PER_GPU_RANK = 8


@dataclass(frozen=True, slots=True)
class LaunchDecisions:
    """All that is decided for a launch, before any node's command is made of it."""

    job: Job
    engine: str
    ranks: dict[str, NodeRanks]
    precision: Decision
    world: base.World
    changes: tuple[Change, ...]
    reasons: tuple[DecisionReason, ...]


def decide_launch(
    hosts: Sequence[main_address_and_port.Host],
    job: Job,
    *,
    run_id: str,
    script: ScriptAnalysis | None = None,
    avoid_ports: frozenset[int] = frozenset(),
) -> LaunchDecisions:
    """Decide precision, ranks, main address and port; the first host is the main host (node rank 0).

    `script` is what reading the training script found, `avoid_ports` are ports that turned out to be taken
    when a launch tried them. Raises RanksRefused, PrecisionRefused or LaunchRefused.
    """
    if not hosts:
        raise LaunchRefused("no host is left to launch on", "name hosts with --hosts")
    original, job = job, resolve_gpus(job, [facts for _, facts in hosts])
    job, why_engine = choose_engine(job, script, [facts for _, facts in hosts])
    job, why_config = take_default_config(job, [facts for _, facts in hosts])
    engine = "" if job.engine is None else job.engine.name
    ranks = {
        facts.host: map_ranks(facts, job, script, allowed=entry.gpus, allowed_by=entry.gpus_source)
        for entry, facts in hosts
    }
    _refuse_shared_gpus(ranks)
    decision = decide_precision({facts.host: facts for _, facts in hosts}, job, script, ranks)
    if find_deepspeed_file(job.accelerate_config or {}):
        decision = Decision(
            "no", (DecisionReason("the precision is that of the DeepSpeed config file", "accelerate config"),)
        )
    edit = align_args(job, decision.mixed_precision, script)
    size = sum(len(node.slots) for node in ranks.values())
    address, why_address = main_address_and_port.choose_main_address(hosts)
    port = _choose_port(hosts[0][1], job, engine, size, avoid_ports)
    world = base.World(
        run_id=run_id,
        nodes=len(hosts),
        size=size,
        main_address=address,
        main_port=port.port,
        mixed_precision=decision.mixed_precision,
        fp8_backend=choose_fp8_backend(facts for _, facts in hosts)
        if decision.mixed_precision == "fp8"
        else "",
        rendezvous_timeout_s=job.command.rendezvous_timeout or base.RENDEZVOUS_TIMEOUT_S,
        engine_requested=original.engine is not None and not job.command.launched_by,
    )
    job, local_rank = _local_rank(job, script)
    changes = (
        *local_rank,
        *_request_changes(original, job, decision),
        *_count_changes(job, ranks),
        *(Change("script arguments", old, new, why) for old, new, why in edit.edits),
        *_port_changes(job, port),
        *_env_changes(hosts, job),
    )
    because = (*decision.reasons, why_engine, *(why for node in ranks.values() for why in node.reasons))
    notes = tuple(DecisionReason(note, "accelerate config") for note in job.launcher_notes)
    because = (*because, *why_config, *describe_effect_on_cpu(job, ranks.values()), *notes, why_address)
    because = tuple(dict.fromkeys((*because, *port.reasons)))
    return LaunchDecisions(replace(job, args=edit.args), engine, ranks, decision, world, changes, because)


def _choose_port(
    facts: HostFacts, job: Job, engine: str, size: int, avoid: frozenset[int]
) -> main_address_and_port.MainPort:
    needed = base.opens_port(engine, size)
    if needed and size == 1 and engine in base.SELECTABLE:
        return main_address_and_port.choose_port_of_one_rank(facts, job.main_port, avoid=avoid)
    return main_address_and_port.choose_main_port(facts, job.main_port, needed=needed, avoid=avoid)


def build_plan(
    hosts: Sequence[main_address_and_port.Host],
    job: Job,
    *,
    run_id: str,
    script: ScriptAnalysis | None = None,
    sent: ScriptFile | None = None,
    findings: tuple[Finding, ...] = (),
    avoid_ports: frozenset[int] = frozenset(),
) -> Plan:
    """Return everything the launch will do: what decide_launch decides, and each node's command and files.

    Raises RanksRefused, PrecisionRefused or LaunchRefused.
    """
    settled = decide_launch(hosts, job, run_id=run_id, script=script, avoid_ports=avoid_ports)
    world, nodes = settled.world, _nodes(hosts, settled, sent)
    return Plan(
        run_id=run_id,
        job_name=job.name,
        nodes=nodes,
        world_size=sum(len(node.ranks.slots) for node in nodes),
        main_address=world.main_address,
        main_port=world.main_port,
        precision=settled.precision,
        changes=settled.changes,
        reasons=settled.reasons,
        findings=findings,
        engine=settled.engine,
        hang_timeout_s=job.hang_timeout or None,
    )


def _nodes(
    hosts: Sequence[main_address_and_port.Host], settled: LaunchDecisions, sent: ScriptFile | None
) -> tuple[NodePlan, ...]:
    job, world, engine = settled.job, settled.world, base.load_engine(settled.engine)
    nodes: list[NodePlan] = []
    first_rank = 0
    for node_rank, (entry, facts) in enumerate(hosts):
        mine = settled.ranks[facts.host]
        setup = base.NodeSetup(
            node_rank=node_rank,
            first_rank=first_rank,
            ranks=mine,
            python=entry.python,
            words=(*_target(job, sent), *job.args),
            omp_threads=_threads(facts, mine),
            launcher_args=job.command.launcher_args,
            launched_by=job.command.launched_by,
            options_at=job.command.options_at,
            local_rank_option=job.command.local_rank_option,
            precision_option=job.command.precision_option,
            accelerate_config=job.accelerate_config or {},
        )
        files = [
            *engine.files(world, setup),
            ("expected.json", _expected(job, world, setup)),
            *job.launcher_files,
        ]
        if sent:
            files.append((f"script/{sent.name}", sent.text))
        env = {
            **base.build_environment(world, setup),
            **engine.environment(world, setup),
            **_guard_environment(job),
        }
        nodes.append(
            NodePlan(
                host=facts.host,
                node_rank=node_rank,
                ranks=_started(job, mine),
                first_rank=node_rank if _once_per_host(job) else first_rank,
                gpus=tuple(slot.gpu_uuid for slot in mine.slots if slot.gpu_uuid is not None),
                python=entry.python,
                argv=engine.argv(world, setup),
                env=env | build_own_environment(entry, facts, job, nodes=world.nodes),
                unset=(*UNSET, *job.command.unset),
                cwd=job.directory_in(entry.workdir),
                files=tuple(files),
                output_dir=job.output_in(job.directory_in(entry.workdir) or "~"),
                notes=tuple(engine.notes(world, setup)),
            )
        )
        first_rank += len(mine.slots)
    return tuple(nodes)


def _once_per_host(job: Job) -> bool:
    return job.engine is not None and job.engine.once_per_host


def _started(job: Job, ranks: NodeRanks) -> NodeRanks:
    """Return what is started and watched on a node: its ranks, or the one command that starts them."""
    return replace(ranks, slots=ranks.slots[:1]) if _once_per_host(job) else ranks


def _expected(job: Job, world: base.World, setup: base.NodeSetup) -> str:
    """Return expected.json; of a command, as if it were the one rank of its node."""
    if not _once_per_host(job):
        return base.render_expected(world, setup)
    alone = replace(setup, first_rank=setup.node_rank, ranks=_started(job, setup.ranks))
    return base.render_expected(replace(world, size=world.nodes), alone)


def _target(job: Job, sent: ScriptFile | None) -> tuple[str, ...]:
    """Return what `python` takes before the script's arguments, with the path as the host will see it."""
    if job.module:
        return ("-m", job.module)
    if job.command.executable:
        return ("--exec", job.command.executable)
    if sent:
        return (f"{base.RUN_DIR}/script/{sent.name}",)
    return (f"./{job.script}" if job.script.startswith("-") else job.script,)  # no option


def build_own_environment(entry: HostEntry, facts: HostFacts, job: Job, *, nodes: int) -> dict[str, str]:
    """Return what a node's ranks get beside the launcher's own: the interface, and `env:` of both files."""
    interface = main_address_and_port.choose_interface(entry, facts) if nodes > 1 else ""
    # "=": this very name, not every name that starts so
    env = {"NCCL_SOCKET_IFNAME": f"={interface}", "GLOO_SOCKET_IFNAME": interface} if interface else {}
    theirs = {**entry.env, **job.env}
    return env | {name: value for name, value in theirs.items() if name not in OWNED_ENV}


def _guard_environment(job: Job) -> dict[str, str]:
    """Return what rank.py and the guard beside it go by; see launcher/onhost/guard/main.py."""
    output = {"GPULAUNCH_OUTPUT": job.output} if job.output else {}  # PROC006 of a later launch reads it
    if _once_per_host(job):
        return output
    if job.rehearse_steps:
        return {"GPULAUNCH_GUARD": "stop", "GPULAUNCH_REHEARSE": str(job.rehearse_steps), **output}
    return output if job.guard == "off" else {"GPULAUNCH_GUARD": job.guard, **output}


def _threads(facts: HostFacts, ranks: NodeRanks) -> int:
    """Share the host's processors among its ranks; the default of torch's launcher is 1, that of none all."""
    if isinstance(facts.limits, Missing):
        return 1
    share = max(1, facts.limits.cpus // max(1, len(ranks.slots)))
    on_cpu = ranks.slots[0].gpu_uuid is None
    return share if on_cpu else min(share, _MAX_THREADS_PER_GPU_RANK)


def _refuse_shared_gpus(ranks: dict[str, NodeRanks]) -> None:
    owners: dict[str, str] = {}
    for host, node in ranks.items():
        for slot in node.slots:
            if slot.gpu_uuid is None:
                continue
            other = owners.setdefault(slot.gpu_uuid, host)
            if other != host:
                raise LaunchRefused(
                    f"{other} and {host} are the same machine: both have {slot.gpu_uuid}, and two ranks"
                    " cannot share a GPU",
                    "name only one of them in --hosts, or give each its own `gpus:` list in hosts.yaml",
                )


def _request_changes(original: Job, job: Job, decision: Decision) -> tuple[Change, ...]:
    changes: list[Change] = []
    if original.gpus != job.gpus and job.gpus == "none":
        changes.append(Change("--gpus", "auto", "none", "none of the hosts has a GPU"))
    if decision.requested:
        why = decision.reasons[0].text
        name = job.command.option("precision", "--precision")
        changes.append(Change(name, decision.requested, decision.mixed_precision, why))
    return tuple(changes)


def _local_rank(job: Job, script: ScriptAnalysis | None) -> tuple[Job, tuple[Change, ...]]:
    """Leave out the --local_rank that a launcher adds, where it would only end the script."""
    option = job.command.local_rank_option
    if not option or script is None or not script.refuses_local_rank:
        return job, ()
    why = f"the script's own parser does not know it and would end it ({script.refuses_local_rank})"
    job = replace(job, command=replace(job.command, local_rank_option=""))
    return job, (Change("script arguments", f"{option}=LOCAL_RANK", "", why),)


def _count_changes(job: Job, ranks: dict[str, NodeRanks]) -> Iterator[Change]:
    """Yield where a host has fewer ranks than were asked for, and why."""
    for host, node in ranks.items():
        wanted, have = job.command.ranks_wanted(host), len(node.slots)
        if wanted is not None and have < wanted:
            why = "; ".join(reason.text for reason in node.reasons if reason.source == "left out")
            name = job.command.option("ranks_per_host", "ranks_per_host")
            offers = f"{host} offers {have} GPU{'s' * (have != 1)}"
            yield Change(name, str(wanted), f"{have} on {host}", why.replace(f" of {host}", "") or offers)


def _port_changes(job: Job, port: main_address_and_port.MainPort) -> tuple[Change, ...]:
    if not port.reason:
        return ()
    name = job.command.option("main_port", "--port")
    return (Change(name, str(job.main_port), str(port.port), port.reason),)


def _env_changes(hosts: Sequence[main_address_and_port.Host], job: Job) -> tuple[Change, ...]:
    dropped: dict[str, str] = {}
    for entry, _ in hosts:
        dropped |= {name: value for name, value in {**entry.env, **job.env}.items() if name in OWNED_ENV}
    why = "the launch sets it itself, from gpus, precision and hosts"
    return tuple(Change(f"env {name}", value, "", why) for name, value in sorted(dropped.items()))
