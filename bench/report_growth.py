"""CPU time of judging and reporting a preflight of 2 N hosts to that of N hosts: 2 where it is linear.

    python -m bench.report_growth [--hosts 500] [--fleet 10000]

Hosts have names that do not fold and findings that differ; text, JSON and page are measured apart. Target: at
most 2.4, which leaves room for the machine's caches. A dry run of 10,000 hosts takes 10 s of CPU at most,
after their facts have come.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable

from bench.common import ROOT, Target, tell
from bench.fleet import Recorded
from launcher.config.inventory import HostEntry
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.render_json import encode_preflight
from launcher.host_checks.render_text import render_report
from launcher.host_checks.result import PreflightResult
from launcher.planning.planner import build_plan
from launcher.remote.agent import GatherResult
from launcher.report.plan import render_plan
from launcher.report.preflight_page.page import render_preflight_page
from preflight.facts.host import HostFacts, Reach
from preflight.facts.json_codec import decode, encode
from preflight.job import Job

_LIMIT = 2.4
_ROUNDS = 3
_DRY_RUN_S = 10.0


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, default=500, help="the smaller number")
    parser.add_argument("--fleet", type=int, default=10_000, help="hosts of 8 GPUs for the dry run")
    arguments = parser.parse_args()
    size = arguments.hosts
    few, many = _cpu_of(size), _cpu_of(2 * size)
    for name, seconds in many.items():
        print(f"{name:6} {1000 * few[name]:8.1f} ms for {size} hosts {1000 * seconds:8.1f} ms for {2 * size}")
    ratios = [Target(f"{name}: {2 * size} to {size} hosts", many[name] / few[name], _LIMIT) for name in many]
    fleet = arguments.fleet
    rounds = 1 if fleet > 2000 else _ROUNDS  # what takes less than a second is at the mercy of other work
    half_s, whole_s = (min(_dry_run_s(size) for _ in range(rounds)) for size in (fleet // 2, fleet))
    ratios.append(Target(f"dry run: {fleet} to {fleet // 2} hosts", whole_s / half_s, _LIMIT))
    seconds = whole_s * 10_000 / fleet
    return tell(
        [*ratios, Target("dry run for each 10,000 hosts of 8 GPUs: CPU seconds", seconds, _DRY_RUN_S)]
    )


def _dry_run_s(size: int) -> float:
    """Return the CPU time of judging, planning and printing a launch on so many hosts of 8 GPUs."""
    recorded = Recorded()
    facts: dict[str, HostFacts] = {}
    for number in range(size):
        name = f"node-{number:05}"
        facts[name] = decode(HostFacts, json.loads(recorded.of(name, number)))
    entries = [HostEntry(name) for name in facts]
    reach = tuple(
        Reach(name, entries[0].name, "192.0.2.5", port, ok=True, error="", ms=0.3)
        for name in list(facts)[1:]
        for port in (29500, 40000)
    )
    gc.set_threshold(50_000, 20, 20)  # as launcher.cli.main does
    began = time.process_time()
    result = evaluate_facts(entries, GatherResult(facts, {}), Job(), reach=reach)
    list(render_report(result))
    hosts = [(entry, facts[entry.name]) for entry in entries]
    render_plan(build_plan(hosts, result.job, run_id="bench", findings=result.findings))
    return time.process_time() - began


def _cpu_of(size: int) -> dict[str, float]:
    facts = _facts(size)
    result = _judge(facts)
    return {
        "judge": _least(lambda: _judge(facts)),
        "text": _least(lambda: list(render_report(result))),
        "json": _least(lambda: json.dumps(encode_preflight(result))),
        "page": _least(lambda: render_preflight_page(result, made_at=0.0, version="")),
    }


def _least(function: Callable[[], object]) -> float:
    """Return the least CPU time of a few rounds."""
    taken = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        function()
        taken.append(time.process_time() - began)
    return min(taken)


def _judge(facts: dict[str, HostFacts]) -> PreflightResult:
    main, *others = facts
    reach = tuple(Reach(name, main, "192.0.2.5", 29500, ok=False, error="refused", ms=0.3) for name in others)
    return evaluate_facts([HostEntry(name) for name in facts], GatherResult(facts, {}), Job(), reach=reach)


def _facts(size: int) -> dict[str, HostFacts]:
    """Return facts of hosts of which each lacks memory of its own on a GPU."""
    recording = ROOT / "tests/preflight/recordings/2xl40s.json"
    document = encode(decode(HostFacts, json.loads(recording.read_text())["facts"]))
    facts: dict[str, HostFacts] = {}
    for number in range(size):
        name = f"ip-10-{number * 7 % 251}-{number * 13 % 241}-{number % 239}"
        document["gpus"][0]["memory"]["used_mib"] = 9000 + number
        facts[name] = decode(HostFacts, {**document, "host": name})
    return facts


if __name__ == "__main__":
    sys.exit(main())
