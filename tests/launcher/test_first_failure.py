"""Which rank is named for a run's end where several have ended since the supervisor last looked."""

from pathlib import Path

import pytest

from tests.launcher.onhost_driver import Driver

pytestmark = pytest.mark.slow

# As torchrun: when a rank has failed, it ends the others. The supervisor sees nothing until all have ended.
ENDS_OTHERS = """
import os, signal, subprocess, sys, time
ranks = [
    subprocess.Popen([sys.executable, *sys.argv[2:]], env=dict(os.environ, RANK=str(n), LOCAL_RANK=str(n)))
    for n in range(int(sys.argv[1]))
]
while not all(map(os.path.exists, ("{up}0", "{up}1"))):
    time.sleep(0.01)
time.sleep(1.0)  # both are known to the supervisor
os.kill(os.getppid(), signal.SIGSTOP)
open("{go}", "w").close()
os.waitid(os.P_PID, ranks[1].pid, os.WEXITED | os.WNOWAIT)
ranks[0].terminate()
os.waitid(os.P_PID, ranks[0].pid, os.WEXITED | os.WNOWAIT)
os.kill(os.getppid(), signal.SIGCONT)
time.sleep(60)
"""


def test_a_rank_that_failed_is_the_cause_beside_those_that_its_launcher_ended(
    run: Driver, tmp_path: Path
) -> None:
    up, go = tmp_path / "up", tmp_path / "go"
    script = (
        f"import os, time; n = os.environ['RANK']; open('{up}' + n, 'w')\n"
        f"while n == '0' or not os.path.exists('{go}'): time.sleep(0.01)\nos._exit(3)"
    )
    run.start(script, ranks=2, files=[["launch.py", ENDS_OTHERS.format(up=up, go=go)], ["s/x.py", script]])
    end = run.ended()
    assert end["exit"]["ranks"] == {"0": -15, "1": 3}
    assert end["exit"]["why"] == "rank 1 failed with exit code 3"
