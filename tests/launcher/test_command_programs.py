"""Programs of a command: what starts ranks, what is a launcher, what counts ranks."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.tables.side_programs import PROBES
from launcher.errors import CommandRefused


@pytest.mark.parametrize("name", sorted(PROBES))
def test_a_program_that_is_started_for_its_answer_is_no_launch(name: str) -> None:
    line = parse_line(f"{name} x && exit 1\ntorchrun a.py")
    assert (line.program, [said.split(":")[0].split()[0] for said in line.dropped[:1]]) == ("a.py", [name])
    assert parse_line(f"{name} x && torchrun a.py").program == "a.py"
    with pytest.raises(CommandRefused, match=rf"a shell loop or condition \({name}\)"):
        parse_line(f"{name} x && torchrun a.py || torchrun b.py")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python ./deepy.py train.py -d configs 125M.yml", "deepy.py"),
        ("srun -N2 deepy.py train.py", "deepy.py"),
        ("python tools/launch.py --gpus 4 train.py", "launch.py"),
        ("python -m pkg.dist.launch --nproc_per_node 8 train.py", "pkg.dist.launch"),
        ("python -m pkg.launcher.local train.py", "pkg.launcher.local"),
        ("python -m verl.trainer.main_ppo data=x", "verl.trainer.main_ppo"),
        ("python -m recipe.dapo.main_dapo trainer.n_gpus_per_node=8", "recipe.dapo.main_dapo"),
        ("python -m horovod.run -np 4 python train.py", "horovod.run"),
        ("horovodrun -np 4 python train.py", "horovodrun: the ranks of Horovod meet through it"),
    ],
)
def test_a_program_that_starts_ranks_is_not_started_for_each_gpu(command: str, program: str) -> None:
    with pytest.raises(CommandRefused, match=program):
        parse_line(command)


@pytest.mark.parametrize(
    ("command", "launcher", "program"),
    [
        ("python launch.py --config configs/a.yaml --train", "python", "launch.py"),
        ("python launch.py --config a.py --train", "python", "launch.py"),
        ("python launch_train.py configs/a.py", "python", "launch_train.py"),
        (
            "python -m verl.trainer.fsdp_sft_trainer trainer.nnodes=1",
            "python",
            "verl.trainer.fsdp_sft_trainer",
        ),
        ("python -m accelerate launch --num_processes 4 a.py", "accelerate", "a.py"),
        ("python -m deepspeed --num_gpus 4 a.py", "deepspeed", "a.py"),
        ("python -m colossalai.cli run --nproc_per_node 4 a.py", "colossalai", "a.py"),
        ("python -m llamafactory.cli train x.yaml", "opaque", "python"),
        ("oumi distributed torchrun -m oumi train -c c.yaml", "torchrun", "oumi"),
        ("oumi distributed accelerate launch a.py", "accelerate", "a.py"),
        ("python /v/lib/python3.9/site-packages/torch/distributed/run.py a.py", "torchrun", "a.py"),
        ("python /v/site-packages/accelerate/commands/launch.py a.py", "accelerate", "a.py"),
    ],
)
def test_a_launcher_is_known_by_its_module_and_behind_another(
    command: str, launcher: str, program: str
) -> None:
    parsed = parse_line(command)
    assert (parsed.launcher, parsed.program) == (launcher, program)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("litgpt pretrain x --devices 8 --num_nodes 2", ["--devices", "--num_nodes"]),
        ("yolo train device=0,1", ["device"]),
        ("fairseq-train x --distributed-world-size=8", ["--distributed-world-size", "fairseq-train"]),
        ("python train_net.py --num-gpus 8 --dist-url tcp://h:1", ["--num-gpus", "--dist-url"]),
        ("python train.py trainer.devices=4 --lr 1", ["trainer.devices"]),
        ("python train.py --device cuda --launcher pytorch", []),
        ("python train.py cfg.py --launcher slurm", ["--launcher"]),
        ("trl sft --config c.yaml", ["trl"]),
        ("axolotl train c.yaml", ["axolotl"]),
        ("axolotl train c.yaml --launcher torchrun -- --max-restarts=1", ["axolotl"]),
        ("axolotl train c.yaml --launcher python", []),
        ("./develop 'cd d && torchrun --nnodes 2 a.py'", ["./develop"]),
    ],
)
def test_an_argument_that_counts_ranks_is_named(command: str, named: list[str]) -> None:
    assert [said.partition(" ")[0] for said in parse_line(command).remarks] == named


@pytest.mark.parametrize(
    ("line", "message"),
    [("a.py --lr 1e\u22124", "typographic"), ("NAME = x python a.py", "NAME is a program")],
)
def test_a_sign_of_a_page_and_blanks_around_the_sign_of_an_assignment_are_said(
    line: str, message: str
) -> None:
    with pytest.raises(CommandRefused, match=message):
        parse_line(line)


@pytest.mark.parametrize(
    "text", ["program: train.py\nmethod: grid\nlr:\n  values: [1, 2]\n", "a: b.sh\nc: 1\n"]
)
def test_a_file_of_settings_that_names_a_script_starts_none(text: str) -> None:
    with pytest.raises(CommandRefused, match="is a file of settings"):
        parse_line(text)


@pytest.mark.parametrize(
    "args", ["-- --backend deepspeed --x", "-- --model python b.py", "-- --engine accelerate launch"]
)
def test_the_name_of_a_launcher_that_an_option_behind_dashes_takes_starts_none(args: str) -> None:
    parsed = parse_line(f"python a.py {args}")
    assert (parsed.program, " ".join(parsed.args)) == ("a.py", args)
