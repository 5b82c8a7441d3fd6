"""CPU ranks for each host of its own: from the words of a run config to the hosts that they name."""

from dataclasses import replace

from launcher.config.inventory import Inventory
from launcher.errors import ConfigError
from preflight.job import Job


def resolve_rank_counts(job: Job, inventory: Inventory) -> Job:
    """Return the job with `processes_per_host` by host name, where it was given by ranges and groups.

    Raises BadInput for a word that names nothing, and ConfigError for a host that two words give two numbers.
    """
    if not isinstance(job.processes_per_host, dict):
        return job
    counts: dict[str, int] = {}
    for word, count in job.processes_per_host.items():
        for entry in inventory.resolve([word]):
            if counts.setdefault(entry.name, count) != count:
                raise ConfigError(
                    f"processes_per_host: {entry.name} gets {counts[entry.name]} ranks, {count} by {word}",
                    "name each host once",
                )
    return replace(job, processes_per_host=counts)
