"""GPUs that earlier launches of this client had on hosts which now show none."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.local.user import format_user_at_machine
from launcher.planning.run_record import RunRecord, read_run_records
from launcher.remote.agent import GatherResult
from launcher.text import count_noun
from preflight.decide.gpu_signs import resolve_gpus
from preflight.job import Job


def note_earlier_gpus(entries: Iterable[HostEntry], gathered: GatherResult, job: Job) -> GatherResult:
    """Return the facts with what earlier launches had, where `gpus: auto` would leave a launch on the CPU."""
    if job.gpus != "auto" or resolve_gpus(job, gathered.facts.values()).gpus != "none":
        return gathered
    known = dict(_earlier_gpus({entry.name: entry for entry in entries}))
    facts = {name: replace(host, earlier_gpus=known.get(name, "")) for name, host in gathered.facts.items()}
    return replace(gathered, facts=facts)


def _earlier_gpus(hosts: dict[str, HostEntry]) -> Iterator[tuple[str, str]]:
    """Yield what is said of each host, by the last launch that had GPUs on it last."""
    for record in sorted(read_run_records().values(), key=lambda each: each.at):
        for entry, node in zip(record.entries, record.plan.nodes, strict=True):
            count = sum(slot.gpu_uuid is not None for slot in node.ranks.slots)
            if count and entry.name in hosts and _is_same(hosts[entry.name], entry, record):
                day = time.strftime("%Y-%m-%d", time.localtime(record.at))
                yield entry.name, f"run {record.plan.run_id} of {day} had {count_noun(count, 'GPU')} on it"


def _is_same(entry: HostEntry, earlier: HostEntry, record: RunRecord) -> bool:
    """Whether a name means the same machine as in a record; a home directory may be shared by several."""
    if entry.is_local:
        return record.started_by == format_user_at_machine()
    return (entry.address, entry.port) == (earlier.address, earlier.port)
