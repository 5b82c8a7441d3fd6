"""`gpulaunch ps` on a login node names the Slurm jobs whose runs only `ps JOB` lists."""

from pathlib import Path

import pytest

from tests.users import User

pytestmark = pytest.mark.slow

SQUEUE = "#!/bin/sh\nprintf '17|17\\n21|18_3\\n19|19\\n'\n"
SCONTROL = """#!/bin/sh
case "$3" in
17) echo 'exec python -m gpulaunch run -c train' ;;
21) printf 'srun hostname\\ngpulaunch run train.py\\n' ;;
19) echo 'srun python other.py' ;;
esac
"""


def login_node(tmp_path: Path, squeue: str) -> User:
    user = User(tmp_path / "home")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("squeue", squeue), ("scontrol", SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    user.env["PATH"] = f"{programs}:{user.env['PATH']}"
    return user


def test_jobs_of_slurm_that_start_gpulaunch_are_named(tmp_path: Path) -> None:
    done = login_node(tmp_path, SQUEUE).gpulaunch("ps")
    assert done.returncode == 0
    words = "the runs of 2 Slurm jobs of yours with gpulaunch are not in this list: "
    assert f"{words}gpulaunch ps 17, gpulaunch ps 18_3\n" in done.stderr


SILENCE = "slurm_load_jobs error: Socket timed out on send/recv operation"


@pytest.mark.parametrize(
    ("squeue", "why", "fix"),
    [
        (
            f"echo 'squeue: {SILENCE}' >&2; exit 1",
            f"squeue: {SILENCE}",
            "is the controller up, or only busy?",
        ),
        ("exec absent-program", "the PATH has no command squeue", "load the site's Slurm module"),
    ],
)
def test_a_cluster_that_does_not_answer_costs_no_list_and_is_named(
    squeue: str, why: str, fix: str, tmp_path: Path
) -> None:
    done = login_node(tmp_path, f"#!/bin/sh\n{squeue}\n").gpulaunch("ps")
    said = f"runs of Slurm jobs may be missing from this list: {why}\n  fix: {fix}"
    assert (done.returncode, done.stderr[: len(said)]) == (0, said)
