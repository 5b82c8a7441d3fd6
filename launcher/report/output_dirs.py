"""Where the output of a run that is over lies, and the command that copies it to this machine."""

from collections.abc import Iterator

from launcher.config.inventory import LOCALHOST
from launcher.config.node_sets import fold_hosts
from launcher.follow.outcome import Outcome
from launcher.text import one_line


def find_output_dirs(outcome: Outcome) -> dict[str, str]:
    """Return {host: directory} of the hosts on which the run config says where the script writes."""
    return {
        node.host: node.output_dir.replace("{run_dir}", outcome.run_dirs.get(node.host, "{run_dir}"))
        for node in outcome.plan.nodes
        if node.output_dir
    }


def render_output_dirs(outcome: Outcome) -> Iterator[str]:
    """Yield a line for each directory with output; of a run without `output`, where its script ran.

    The plan of a run that was found on its hosts has no argv, and knows of neither directory.
    Of the local machine a command would copy what is local already. A Slurm job mostly ends with its step; no
    command reaches its nodes then.
    """
    if not outcome.run_dirs:
        return  # no host has started anything
    remote = [node for node in outcome.plan.nodes if node.host != LOCALHOST]
    known = find_output_dirs(outcome)
    by_place: dict[str, list[str]] = {}
    for host, place in known.items():
        by_place.setdefault(place, []).append(host)
    for place, hosts in by_place.items():
        on = "" if hosts == [LOCALHOST] else f" on {fold_hosts(tuple(hosts))}"
        yield f"output: {one_line(place, 400)}{on}"
    if not remote or outcome.slurm_job:
        return
    fetch = f"gpulaunch fetch {outcome.plan.run_id}"
    if known:
        yield f"to copy it to this machine: {fetch}"
        return
    places = sorted({node.cwd or "~" for node in remote if node.argv})
    where = f"in {one_line(', '.join(places))} " if places else ""
    on = fold_hosts(tuple(node.host for node in remote))
    path = "--path PATH" if places else "(--path PATH if its config names no output)"
    yield f"to copy what the script wrote {where}on {on}: {fetch} {path}"
