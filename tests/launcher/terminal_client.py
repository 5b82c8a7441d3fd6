"""A run of plain ranks on this machine, followed on this terminal: `gpulaunch run` behind its plan, no torch.

python -m tests.launcher.terminal_client RUN_ID RANKS SCRIPT [--all-ranks]
"""

import sys
from dataclasses import replace
from pathlib import Path

from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions
from launcher.commands._interrupt_prompt import build_ctrl_c_prompt
from launcher.launch.attempt import Attempt
from launcher.launch.request import LaunchRequest
from launcher.remote.connection_pool import ConnectionPool
from launcher.report.outcome_printer import print_outcome
from launcher.terminal.live_screen import choose_screen
from preflight.job import Job
from tests.lab.fault_client import plain_plan


def main(run_id: str, ranks: int, script: Path, *, all_ranks: bool) -> int:
    ways = open_host_access(HostOptions(None, accept_new_host_keys=False, parallel=1, identity_file=None))
    launch = LaunchRequest(
        ways.inventory.resolve(["localhost"]), Job(name="plain"), ConnectionPool(ways.open)
    )
    screen = choose_screen(sys.stdout, all_ranks=all_ranks)
    launch = replace(launch, follow=replace(launch.follow, choose=build_ctrl_c_prompt(screen, again="stop")))
    try:
        outcome = Attempt(
            launch, plain_plan(run_id, ["localhost"], ranks, script.read_text(), claims=False), screen
        ).start_and_follow()
        print_outcome(outcome, screen)
    except KeyboardInterrupt:  # one more, when all has been done: as launcher.cli.execute has it
        return 130
    finally:
        screen.clear()
        launch.connections.close()
    return outcome.exit_code


if __name__ == "__main__":
    try:
        code = main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), all_ranks="--all-ranks" in sys.argv)
    except KeyboardInterrupt:  # as launcher.cli ends, wherever it is
        code = 130
    sys.exit(code)
