"""`gpulaunch run` without preflight and without torch: a plan of plain ranks, launched as any other is.

    python -m tests.lab.fault_client CONFIG.json

A process of its own, so that it can be killed; everything behind the plan is what `gpulaunch run` uses.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.config.disconnect_options import DisconnectOptions
from launcher.config.inventory_reader import load_inventory
from launcher.launch.attempt import Attempt
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.planning.plan import NodePlan, Plan
from launcher.remote.connection_pool import ConnectionPool
from launcher.report.outcome import render_outcome
from launcher.terminal.screen import Screen
from launcher.transports.base import OpenOptions
from launcher.transports.ssh.endpoint import build_opener
from preflight.decide.decision import Decision, NodeRanks, RankSlot
from preflight.job import Job

PORT = 29500
# What accelerate does for us, without torch.
LAUNCHER = """
import os, subprocess, sys, time
first, count, world = map(int, sys.argv[1:4])
ranks = [
    subprocess.Popen(
        [sys.executable, *sys.argv[4:]],
        env=dict(os.environ, RANK=str(first + n), LOCAL_RANK=str(n), WORLD_SIZE=str(world)),
        start_new_session=True,
    )
    for n in range(count)
]
while any(rank.poll() is None for rank in ranks):
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    time.sleep(0.3)  # on a busy machine, too, the supervisor reads the kernel's status before it is taken
sys.exit(any(rank.returncode for rank in ranks))
"""


def plain_plan(run_id: str, hosts: list[str], ranks: int, script: str, *, claims: bool) -> Plan:
    """Return a plan of `ranks` ranks on each host; each may claim a GPU that only it is given."""
    world = ranks * len(hosts)
    nodes = []
    for number, host in enumerate(hosts):
        first = number * ranks
        words = [str(first), str(ranks), str(world), "{run_dir}/rank.py", "{run_dir}/s/x.py"]
        gpus = [f"GPU-lab-{first + n}" if claims else None for n in range(ranks)]
        slots = tuple(RankSlot(n, gpu, n if claims else None) for n, gpu in enumerate(gpus))
        nodes.append(
            NodePlan(
                host=host,
                node_rank=number,
                ranks=NodeRanks(slots, single_gpu_visible=False, reasons=()),
                first_rank=first,
                python=sys.executable,
                argv=(sys.executable, "{run_dir}/launch.py", *words),
                env={},
                unset=(),
                cwd="~",
                files=(("launch.py", LAUNCHER), ("s/x.py", script)),
                output_dir="~/out",
                gpus=tuple(gpu for gpu in gpus if gpu is not None),
            )
        )
    return Plan(run_id, "survive", tuple(nodes), world, "", PORT, Decision("no", ()), (), (), ())


def main(config: dict[str, Any]) -> int:
    """Launch, follow, tell the outcome; return its exit code."""
    inventory = load_inventory(Path(config["inventory"]))
    launch = LaunchRequest(
        entries=inventory.resolve(config["hosts"]),
        job=Job(name="survive"),
        connections=ConnectionPool(build_opener(inventory, OpenOptions())),
        follow=FollowOptions(
            DisconnectOptions(*config.get("disconnect", ())),
            detach=config["detach"],
            quiet_s=config.get("quiet_s", 2.0),
        ),
    )
    claims = config.get("claims", True)
    plan = plain_plan(config["run_id"], config["hosts"], config["ranks"], config["script"], claims=claims)
    nodes = tuple(replace(node, env=config.get("env", {})) for node in plan.nodes)
    plan = replace(plan, nodes=nodes, hang_timeout_s=config.get("hang_timeout_s"))
    screen = Screen(sys.stdout)
    outcome = Attempt(launch, plan, screen).start_and_follow()
    for line in render_outcome(outcome):
        screen.notify(line)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
