"""A preflight: ask the hosts, judge each and all together, and say what a launch would use."""

import gc
import os
import posixpath
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.host_checks.collection import Collection, OnHostDone, ReachabilityProbe, name_awaited_hosts
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.result import PreflightResult
from launcher.planning.main_address_and_port import choose_main_address, choose_main_port
from launcher.planning.plan import ScriptFile
from launcher.remote.agent import AgentRequest
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import WIDTH
from launcher.remote.reachability import MOST_HOSTS, StartProgram, probe_pairs, probe_reachability
from launcher.remote.shards.count import choose_shard_count
from preflight.decide.deepspeed_config import find_offload_path
from preflight.decide.input_paths import find_input_paths, resolve_host_path
from preflight.facts.host import HostFacts, Reach
from preflight.job import Job
from preflight.probes.request import ENV_NAMES, SECRET_NAMES
from preflight.probes.script_imports import list_imported_names

FREE_PORTS = 4  # that each host proves free: one in place of the main port, others if it is stolen
_OF_GPUS = ("cuda", "gpus", "driver")  # ranks on the CPU wait for no driver that hangs


def preflight(
    entries: Iterable[HostEntry],
    job: Job,
    opener: OpenConnection,
    *,
    options: PreflightOptions | None = None,
    probe: ReachabilityProbe | None = None,
    on_done: OnHostDone | None = None,
) -> PreflightResult:
    """Ask all hosts and judge them; the first one is the main host.

    Hosts that cannot be reached become findings with the code of their error. `probe` tests the way between
    the nodes; without it that stays unknown. Raises BadInput for mistakes in the user's files only.
    """
    how = options or PreflightOptions()
    hosts = tuple(entries)
    probe = probe if how.as_one_launch and len(hosts) > 1 else None
    earlier = None if how.cache is None else how.cache.find_earlier
    ask = partial(build_agent_request, job=job, options=how)
    find_port = partial(_port_to_use, job=job)
    count = choose_shard_count(len(hosts)) if how.shards is not None else 0
    while_waiting = partial(_import_judgement, how.while_waiting, reads_script=bool(job.script or job.module))
    with name_awaited_hosts(hosts, on_done) as note:
        collection = Collection(hosts, ask, opener, how.width, note, earlier, while_waiting)
        if how.shards is not None and count:
            gathered, reached = collection.collect_sharded(how.shards, count, probe, find_port)
        else:
            gathered, reached = collection.collect(probe, find_port)
    if how.cache is not None:
        how.cache.keep(hosts, gathered.facts)
    from launcher.host_checks.earlier_gpus import note_earlier_gpus  # noqa: PLC0415 - _import_judgement says why
    from launcher.host_checks.evaluation import evaluate_facts  # noqa: PLC0415 - as above

    gathered = note_earlier_gpus(hosts, gathered, job)
    result = evaluate_facts(hosts, gathered, job, reach=reached, options=how, clocks=collection.clocks)
    return replace(result, seconds=time.monotonic() - collection.started)


def _import_judgement(more: Callable[[], object] | None, *, reads_script: bool) -> None:
    """Import what judges facts, half of the modules of a preflight: no host has to wait for them."""
    import launcher.host_checks.earlier_gpus  # noqa: PLC0415
    import launcher.host_checks.evaluation  # noqa: F401, PLC0415

    if reads_script:
        import preflight.checks.script_judge  # noqa: F401, PLC0415
    if more is not None:
        more()
    gc.freeze()  # or the first search for garbage would go through all of them, while answers are read


def build_reachability_probe(*, width: int = WIDTH) -> ReachabilityProbe:
    """Return a probe that connects for real: each host to each, of many hosts each to the main one."""

    def probe(
        entries: Sequence[HostEntry], facts: Mapping[str, HostFacts], port: int, begin: StartProgram
    ) -> tuple[Reach, ...]:
        main, others = entries[0], entries[1:]
        try:
            address, _ = choose_main_address([(entry, facts[entry.name]) for entry in entries])
        except GpulaunchError as refusal:
            return tuple(
                Reach(entry.name, main.name, "?", port, ok=False, error=refusal.message, ms=0.0)
                for entry in others
            )
        if len(entries) > MOST_HOSTS:
            return probe_reachability(main, others, begin, address=address, port=port, width=width)
        addresses = {main.name: address, **dict(_addresses(others, main, facts))}
        return probe_pairs(entries, begin, addresses=addresses, port=port, width=width)

    return probe


def _addresses(
    entries: Sequence[HostEntry], main: HostEntry, facts: Mapping[str, HostFacts]
) -> Iterator[tuple[str, str]]:
    """Yield the address at which other hosts would call each host, where one is known."""
    for entry in entries:
        with suppress(GpulaunchError):
            pair = [(entry, facts[entry.name]), (main, facts[main.name])]
            yield entry.name, choose_main_address(pair)[0]


def build_agent_request(entry: HostEntry, job: Job, options: PreflightOptions | None = None) -> AgentRequest:
    """Return the request to the agent of one host for this job."""
    workdir = job.directory_in(entry.workdir or (str(Path.cwd()) if entry.is_local else "~"))
    paths = {"workdir": workdir, "hf_cache": "", "tmp": "", "run_dir": ""}
    if job.output:
        paths["output"] = job.output_in(workdir)
    if offload := find_offload_path(job.deepspeed):
        paths["offload"] = posixpath.join(workdir, offload)
    for number, given in enumerate(find_input_paths(job)):
        paths[f"input:{number}"] = resolve_host_path(given, workdir)
    how = options or PreflightOptions()
    earlier = None if how.cache is None else how.cache.find_earlier(entry)
    env = {**entry.env, **job.env}
    return AgentRequest(
        host=entry.name,
        ports=(job.main_port,),
        free_ports=FREE_PORTS,
        seed=f"{job.name}{os.getpid()}",
        paths=paths,
        script="" if job.send_script else job.script,
        env={name: env[name] for name in ENV_NAMES if name in env}
        | {name: "set" for name in SECRET_NAMES if env.get(name)},
        modules=_modules_to_find(how.sent or how.script_after_sync, how.tree, env.get("PYTHONPATH", "")),
        skip=how.skip if job.wants_gpus else (*how.skip, *_OF_GPUS),
        known={} if earlier is None else earlier.key(),
        deadline_s=how.deadline_s,
    )


@lru_cache(maxsize=4)
def _modules_to_find(
    script: ScriptFile | None, tree: Path | None, python_path: str
) -> tuple[str, ...] | None:
    """Return the modules that a script on its way imports and that do not come with it, or with its tree."""
    if script is None:
        return None
    try:
        names = list_imported_names(script.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    if tree is None:
        return tuple(names)
    root = tree.absolute()  # Python caches what it finds by the name of a directory, wherever that was
    beside = [str(root / place) for place in (posixpath.dirname(script.name), *python_path.split(":"))]
    return tuple(name for name in names if PathFinder.find_spec(name, beside) is None)


def _port_to_use(main: HostFacts, *, job: Job) -> int:
    """Return the port that a launch would take; the asked one where none can be chosen."""
    try:
        return choose_main_port(main, job.main_port, needed=True, avoid=frozenset()).port
    except GpulaunchError:
        return job.main_port
