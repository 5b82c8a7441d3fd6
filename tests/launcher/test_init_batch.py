"""`gpulaunch init JOB.sbatch`: what a batch script of Slurm becomes."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.commands.init import command
from launcher.config.config_overrides import Overrides
from launcher.config.inventory_reader import load_inventory
from launcher.config.run_config import load_run_config
from launcher.errors import BadInput, CommandRefused, ConfigError
from launcher.scaffold.sbatch_reader import read_batch_script
from launcher.slurm.submit import render_batch_script


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


BATCH = """\
#!/bin/bash
#SBATCH --job-name=llama-ft -N 2-4
#SBATCH --ntasks-per-node=8 --cpus-per-task 8   # a task per GPU: that's how it was
#SBATCH --gpus-per-task=1 --gpu-bind=closest
#SBATCH -t 2-00:00:00 -pgpu,long
##SBATCH -A nobody
#SBATCH --account="proj42"
#SBATCH --signal=USR1@600 --requeue --exclusive --wait
#SBATCH --mail-type=END --mail-type=FAIL --mem=0 -o logs/%x-%j.out

# Where the ranks meet
export HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export NCCL_DEBUG=INFO
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint $HEAD:29500 \\
    train.py --lr 1e-4
#SBATCH --mem=4G
"""


def test_a_batch_script_becomes_a_command_and_the_job_that_it_asks_for(home: Path) -> None:
    Path("train.py").write_text("print(1)\n")
    Path("job.sbatch").write_text(BATCH)
    result = CliRunner().invoke(command, ["job.sbatch"])
    assert result.exit_code == 0, result.output
    assert result.output.endswith("next: gpulaunch submit --config job --dry-run\n")
    assert "8 tasks of a node -> one task, with all their processors: 64\n" in result.output
    assert "--nodes=2-4 -> nodes: 2\n" in result.output
    assert "--wait -> left out" in result.output
    config = load_run_config("job")
    assert (config.job.script, config.job.args) == ("train.py", ("--lr", "1e-4"))
    assert config.job.env == {"NCCL_DEBUG": "INFO"}
    assert not config.names_hosts
    assert config.disconnect.before_stop is not None
    assert config.disconnect.before_stop.signal == "USR1"
    assert config.slurm is not None
    assert render_batch_script("job", config.slurm, ("true",), workdir="/w").splitlines()[1:-2] == [
        *("#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=1", "#SBATCH --gpus-per-node=8"),
        *("#SBATCH --time=2-00:00:00", "#SBATCH --partition=gpu,long", "#SBATCH --account=proj42"),
        *("#SBATCH --requeue", "#SBATCH --signal=B:USR1@600", "#SBATCH --open-mode=append"),
        *("#SBATCH --chdir=/w", "#SBATCH --job-name=llama-ft", "#SBATCH --cpus-per-task=64"),
        *("#SBATCH --exclusive", "#SBATCH --mail-type=END,FAIL", "#SBATCH --mem=0"),
        "#SBATCH --output=logs/%x-%j.out",
    ]
    inventory = load_inventory(None)
    assert not inventory.hosts
    assert inventory.lookup("n1").python != ""


def test_an_older_name_of_an_option_of_tasks_counts_them(home: Path) -> None:
    """`--tasks-per-node` is what Slurm's programs take for `--ntasks-per-node`, too."""
    Path("train.py").write_text("print(1)\n")
    Path("job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2 --tasks-per-node=4\nsrun python train.py\n")
    result = CliRunner().invoke(command, ["job.sbatch"])
    assert "4 tasks of a node -> one task" in result.output
    config = load_run_config("job")
    assert config.slurm is not None
    assert "tasks-per-node" not in config.slurm.sbatch


@pytest.mark.parametrize(
    ("line", "slurm", "sbatch"),
    [
        ("--gres=gpu:a100:4", {"nodes": 1}, {"gres": "gpu:a100:4"}),
        ("--gres=gpu:4 --gpus-per-task=1", {"nodes": 1, "gpus_per_node": 4}, {}),
        ("--gpus-per-node=h100:8", {"nodes": 1}, {"gres": "gpu:h100:8"}),
        ("-N2 -G 8", {"nodes": 2, "gpus_per_node": 4}, {}),
        ("-N 2 -n 16 -c 4", {"nodes": 2}, {"cpus-per-task": "32"}),
        ("--gres=gpu:1 --gres=shard:11264", {"nodes": 1}, {"gres": "shard:11264"}),
        ("--signal=B:SIGTERM@90", {"nodes": 1, "warn": "90s"}, {}),
        ("--signal=15", {"nodes": 1, "warn": "60s"}, {}),
        ("--time=UNLIMITED --contiguous", {"nodes": 1}, {"contiguous": "true"}),
        ("-J 'say \"no\"' -D ./ --nice", {"nodes": 1}, {"chdir": "./", "nice": "true"}),
    ],
)
def test_options_of_sbatch_are_keys_where_there_are_and_otherwise_stay(
    line: str, slurm: dict[str, object], sbatch: dict[str, str]
) -> None:
    script = read_batch_script(f"#!/bin/sh\n#SBATCH {line}\npython train.py\n")
    assert script is not None
    assert (script.slurm, script.sbatch, script.command) == (slurm, sbatch, "python train.py")
    assert script.before_stop == ""


def test_variables_of_each_job_stay_in_the_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text("print(1)\n")
    line = "srun torchrun train.py --out o/$SLURM_JOB_ID/$SLURM_ARRAY_TASK_ID --x ${NONE:?}\n"
    Path("job.sbatch").write_text(f"#!/bin/bash\n#SBATCH -N1 --array=0-3\n{line}")
    assert "${NONE:?}" in str(CliRunner().invoke(command, ["job.sbatch"]).exception)
    Path("job.sbatch").write_text(
        f"#!/bin/bash\n#SBATCH -N1 --array=0-3\n{line.replace(' --x ${NONE:?}', '')}"
    )
    assert CliRunner().invoke(command, ["job.sbatch"]).exit_code == 0
    with pytest.raises(CommandRefused, match="SLURM_JOB_ID, "):
        load_run_config("job")
    assert load_run_config("job", Overrides(for_job=True)).slurm is not None
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert load_run_config("job").job.args == ("--out", "o/17/3")
    with pytest.raises(ConfigError) as refused:
        load_run_config("job.sbatch")
    assert refused.value.fix == "gpulaunch init job.sbatch makes one of a batch script"


def test_what_no_job_can_be_made_of_is_refused() -> None:
    assert read_batch_script("#!/bin/sh\npython train.py\n#SBATCH -N2\n") is None
    for line in ("hetjob", "--comment='open", "nodes=2"):
        with pytest.raises(BadInput):
            read_batch_script(f"#SBATCH {line}\ntrue\n")
