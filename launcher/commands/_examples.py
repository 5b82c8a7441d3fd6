"""Examples, one a line: the help of a command has those that call it."""

from preflight import regex as re

_EXAMPLES = """\
gpulaunch init --hosts root@192.0.2.7:41022
gpulaunch init --hosts ubuntu@192.0.2.9 --identity-file ~/Downloads/key.pem
gpulaunch init train.py --hosts titan,l40s-01
gpulaunch init --hosts titan,l40s-01 -- torchrun --nproc_per_node 4 train.py
gpulaunch init job.sbatch
gpulaunch preflight titan ada@192.0.2.7
gpulaunch preflight "l40s-[01-04]" -c paper_r64
gpulaunch preflight "l40s-[01-04]" --html page.html
gpulaunch preflight --from titan.json
gpulaunch preflight --from-smi saved.xml
gpulaunch run train.py --dry-run
gpulaunch run train.py --hosts root@192.0.2.7:41022 --sync -- --lr 1e-4
gpulaunch run --hosts a,b --sync -- torchrun --nproc_per_node 4 train.py --lr 1e-4
gpulaunch run -c paper_r64 --hosts "l40s-[01-02]" -- --epochs 1
gpulaunch run -c paper_r64 --restarts 2 --hang-timeout 30m
gpulaunch submit -c paper_r64 --dry-run
gpulaunch submit -c paper_r64 --set slurm.time=2-00:00:00 -- --epochs 3
gpulaunch submit -c paper_r64 --login cluster
gpulaunch bench titan
gpulaunch bench "l40s-[01-04]" --seconds 60 --json > bench.json
gpulaunch clean-zombies titan --dry-run
gpulaunch clean-zombies titan --gpu 0 --gpu 1
gpulaunch clean-zombies all --yes
gpulaunch lint train.py
gpulaunch lint train.py --capability 7.5 --processes 4
gpulaunch lint train.py --args "--fp16 --epochs 3" --fix
gpulaunch rehearse train.py --hosts titan --sync
gpulaunch rehearse -c paper_r64 --steps 20 -- --lr 1e-4
gpulaunch top
gpulaunch top titan "l40s-[01-04]" --interval 5s
gpulaunch top all --once
gpulaunch ps
gpulaunch ps titan --all
gpulaunch logs
gpulaunch logs paper_r64 -r 0 -f
gpulaunch logs last -n 20 --host titan
gpulaunch attach last
gpulaunch attach paper_r64 --stop-on-exit
gpulaunch stacks last
gpulaunch forward --tensorboard            TensorBoard of the last run, at http://127.0.0.1:6006
gpulaunch forward paper_r64 8888           port 8888 of its main host
gpulaunch forward last 9000:8888 --host l40s-02
gpulaunch stop
gpulaunch stop paper_r64 --grace 2m
gpulaunch diagnose
gpulaunch diagnose slurm-4711.out
kubectl logs trainer-0 | gpulaunch diagnose -
gpulaunch report
gpulaunch report paper_r64 --html report.html
gpulaunch fetch
gpulaunch fetch paper_r64 --path 'checkpoint-5*'
gpulaunch fetch last --logs-only --to ~/logs
gpulaunch rm paper_r64-20260301-100000-ab12cd
gpulaunch prune titan --older-than 7d --dry-run
gpulaunch prune all --yes
gpulaunch explain PROC001
gpulaunch explain P101 S44 G1
gpulaunch explain cuda-oom
gpulaunch checks --json
gpulaunch record titan -o titan.json --mask
gpulaunch ssh-config > ~/.ssh/gpulaunch.conf    then: Include gpulaunch.conf, first line of ~/.ssh/config
gpulaunch schema hosts > hosts.schema.json
"""


def render_examples(command: str) -> str:
    """Return the end of a command's help, as click takes it."""
    return "\n  ".join(["\b\nExamples:", *list_examples(command)])


def list_examples(command: str) -> list[str]:
    """Return the lines that call a command."""
    calls = re.compile(rf"gpulaunch {command}(?![\w-])")
    return list(filter(calls.search, _EXAMPLES.splitlines()))
