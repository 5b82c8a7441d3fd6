"""Nothing around a command is lost in silence: each part of a file is read, named, or harmless by name."""

from dataclasses import replace

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.unread_keys import HARMLESS
from launcher.errors import CommandRefused

_POD = """\
kind: StatefulSet
metadata: {name: x}
spec:
  replicas: 2
  serviceName: s
  template:
    metadata: {labels: {a: b}}
    spec:
      hostNetwork: true
      hostIPC: true
      nodeSelector: {gpu: h100}
      restartPolicy: Always
      initContainers: [{name: prepare, command: ["python", "prepare.py"]}]
      containers:
      - name: train
        image: x/y:1
        args: ["a.py", "--lr", "1"]
        securityContext: {privileged: true}
        workingDir: src
        env:
        - name: NCCL_DEBUG
          value: INFO
# of the team
        - name: KEY
          valueFrom:
            secretKeyRef: {name: b}
        envFrom: [{secretRef: {name: a}}]
        command: ["torchrun", "--nproc_per_node=2"]
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
        resources:
          limits:
            nvidia.com/gpu: 4
            rdma/ib: 1
            memory: 64Gi
      volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""
_COMPOSE = """\
x-common: &common
  restart: always
services:
  train:
    <<: *common
    image: y
    shm_size: 16g
    ipc: host
    ulimits: {memlock: -1}
    runtime: nvidia
    container_name: t
    volumes: ["./:/w"]
    working_dir: src
    env_file: .env
    command: torchrun --nproc_per_node 2 a.py
    environment:
      NCCL_DEBUG: INFO
      KEY:
    depends_on: [db]
  db: {image: pg}
"""
_WORKFLOW = """\
name: train
on: push
env:
  A: 1
jobs:
  lint: {steps: []}
  train:
    runs-on: gpu
    container: x/y
    env: {B: 2}
    timeout-minutes: 5
    steps:
    - run: torchrun --nproc_per_node 2 a.py
      name: go
      env:
        C: 3
        http_proxy: http://p
      if: github.ref == 'x'
      shell: bash
      working-directory: src
"""
_SKY = """\
name: x
num_nodes: 2
resources:
  accelerators: H100:8
  image_id: docker:x
  cpus: 8
workdir: .
file_mounts: {/data: s3://b}
envs:
  A: 1
secrets:
  KEY: null
setup: pip install x
run: |
  torchrun --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE a.py
"""
_AZURE = """\
type: command
compute: azureml:gpu
environment: azureml:e:1
code: src
command: torchrun a.py --lr ${{inputs.lr}}
inputs:
  lr: 1
outputs: {model: {type: uri_folder}}
environment_variables:
  A: 1
distribution:
  type: pytorch
  process_count_per_instance: 4
resources:
  instance_count: 2
  shm_size: 8g
"""
_CELL = """\
import os
os.environ.update({"A": "1"})
os.environ.setdefault("B", "2")
os.chdir("src")
os.environ["C"] = str(4)
%env D=4
COUNT = 2
!torchrun --nproc_per_node {COUNT} a.py
"""
_LAUNCH_JSON = """\
{"name": "x",
"type": "debugpy",
"request": "launch",
"program": "a.py",
"args": ["--lr", "1"],
"env": {"A": "1", "b-c": "2"},
"envFile": ".env",
"cwd": "${workspaceFolder}/src",
"preLaunchTask": "prepare",
"linux": {"env": {"B": "1"}},
"console": "integratedTerminal",
"pythonArgs": ["-u"]}
"""
_TASK_JSON = """\
{"label": "x",
"type": "shell",
"command": "torchrun a.py",
"dependsOn": ["prepare"],
"options": {"cwd": "src", "env": {"A": "1"}, "shell": {"executable": "zsh"}},
"problemMatcher": []}
"""
_PIXI = """\
[tool.pixi.tasks.train]
cmd = "torchrun a.py"
cwd = "/abs"
env = { A = "1" }
inputs = ["x"]
clean-env = true
description = "trains"
"""
_OUTSIDE = ("import os", "# of the team")
"""Parts without an effect that are no keys."""


def _parts(text: str) -> list[tuple[str, str]]:
    """Return each line of a text that says something, and the text without it and what is below it."""
    lines = text.splitlines(keepends=True)
    found = []
    for at, line in enumerate(lines):
        depth = len(line) - len(line.lstrip(" "))
        end = at + 1
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip(" ")) > depth:
            end += 1
        if end - at < len(lines):
            found.append((line.strip(), "".join(lines[:at] + lines[end:])))
    return found


def _key(part: str) -> str:
    return part.lstrip("- ").partition(":")[0].partition("=")[0].strip(" \"'")


@pytest.mark.parametrize(
    "text", [*(_POD, _COMPOSE, _WORKFLOW, _SKY, _AZURE, _CELL, _LAUNCH_JSON, _TASK_JSON, _PIXI)]
)
def test_each_part_of_a_file_is_read_or_named_or_harmless(text: str) -> None:
    whole = parse_line(text)
    lost = []
    for part, rest in _parts(text):
        try:
            is_seen = replace(parse_line(rest), words=()) != replace(whole, words=())
        except CommandRefused:
            is_seen = True
        if not is_seen and _key(part) not in HARMLESS and part not in _OUTSIDE:
            lost.append(part)
    assert lost == []


@pytest.mark.parametrize("text", [_POD, _COMPOSE, _WORKFLOW, _SKY, _AZURE])
def test_an_unknown_key_beside_a_command_or_around_it_is_named(text: str) -> None:
    lines = text.splitlines(keepends=True)
    keys = [at for at, line in enumerate(lines) if line.strip().startswith(("command:", "- run:", "run:"))]
    command = keys[-1]
    depth = len(lines[command]) - len(lines[command].lstrip(" "))
    for at in range(command, -1, -1):
        own = len(lines[at]) - len(lines[at].lstrip(" "))
        if own < depth and not lines[at].startswith("#") and not lines[at].lstrip().startswith("- "):
            depth = own
            changed = "".join((*lines[:at], f"{' ' * own}newest_key: 7\n", *lines[at:]))
            assert any("newest_key" in said for said in parse_line(changed).dropped), changed


def test_a_page_with_a_launch_names_its_configuration_of_an_editor() -> None:
    page = "Run:\n```bash\ntorchrun a.py\n```\nor:\n```json\n" + _LAUNCH_JSON + "```\n"
    assert parse_line(page).dropped[0].startswith("launch.json: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{% if p %}\nexport A=1\n{% endif %}\ntorchrun a.py", "template"),
        ("srun $(head -n 1 commands.txt)", r"which has no value"),
        ("srun -N2 --container-image=x bash -c 'torchrun a.py'", "--container-image"),
        (
            "apiVersion: a/v1\nkind: TrainJob\nspec:\n  trainer:\n    numNodes: 2\n",
            "its cluster says what starts",
        ),
        (
            "- Several GPUs:\n> deepspeed a.py\n- One GPU:\n> deepspeed b.py\n",
            "2 commands, 1: deepspeed a.py",
        ),
    ],
)
def test_a_command_that_the_text_does_not_say_is_refused_for_that(text: str, said: str) -> None:
    with pytest.raises(CommandRefused, match=said):
        parse_line(text)


def test_a_template_may_decide_lines_of_a_scheduler() -> None:
    text = "#!/bin/bash\n{% if p %}\n#SBATCH -p {{ p }}\n{%- endif %}\nsrun torchrun a.py\n"
    assert (parse_line(text).program, parse_line(text).args) == ("a.py", ())


def test_the_launch_in_a_container_of_srun_is_typed_out() -> None:
    with pytest.raises(CommandRefused) as refusal:
        parse_line("srun --container-image=x --container-mounts=/a:/b torchrun --nnodes 2 a.py")
    assert refusal.value.fix.endswith("-- torchrun --nnodes 2 a.py")


@pytest.mark.parametrize(
    ("text", "program", "args"),
    [
        ("for i in {0..0}; do torchrun a.py $i; done", "a.py", ("0",)),
        ("services:\n  a:\n    environment:\n    - B=1\n    command: bash run.sh\n", "bash", ("run.sh",)),
        (".PHONY: a.py\nn = 2\n\na.py:\n\ttorchrun --nproc_per_node=$(n) $@ --lr 1\n", "a.py", ("--lr", "1")),
    ],
)
def test_what_a_file_starts_has_its_own_arguments(text: str, program: str, args: tuple[str, ...]) -> None:
    assert (parse_line(text).program, parse_line(text).args) == (program, args)


def test_a_directory_above_that_of_the_script_is_named() -> None:
    parsed = parse_line(
        'R="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"\ntorchrun $R/a.py', {"PWD": "/w/x"}
    )
    assert (parsed.program, parsed.dropped[-1].partition(":")[0]) == ("/w/a.py", "dirname")
