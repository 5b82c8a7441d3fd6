"""Manifests of clusters: what their keys say beside the command, and where a key's value ends."""

import pytest

from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.parsed_command import Request
from launcher.errors import CommandRefused

_PYTORCHJOB = """\
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {}
    Worker:
      replicas: 3  # and the master
      template:
        spec:
          containers:
          - name: pytorch
            command:
            - torchrun
            - "--nproc_per_node=4"  # GPUs of a node
            - a.py
"""
_MPIJOB = """\
kind: "MPIJob"
spec:
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - command: ["mpirun", "-np", "16",  # of both
                      "python", "a.py"]
    Worker:
      replicas: 2
"""
_SKY = """\
num_nodes: 2
resources:
  accelerators: {H100: 8}
envs:
  LR: 0.1
setup: |
  A=1 hf download x
  B=2 pip install y
run: |
  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE a.py
"""
_AZURE = """\
command: python a.py
distribution:
  type: pytorch
  process_count_per_instance: 4
resources: # of the cluster
  instance_count: 2
"""
_VOLCANO = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  tasks:
    - replicas: 1
      name: master
      template: &task
        spec:
          containers:
            - command: ["sh", "-c", "torchrun --nproc_per_node=1 a.py"]
    - replicas: 2
      name: worker
      template: *task
"""


@pytest.mark.parametrize(
    ("text", "request_of_it"),
    [
        (_PYTORCHJOB, Request(nodes=4, per_node=4)),
        (_PYTORCHJOB.replace('"--nproc_per_node=4"', '"--nnodes=1"'), Request(nodes=1)),
        (_MPIJOB, Request(nodes=2, total=16)),
        (_SKY, Request(nodes=2, per_node=8)),
        (_SKY.replace("{H100: 8}", "'H100:4'"), Request(nodes=2, per_node=4)),
        (_SKY.replace("num_nodes: 2\n", "num_nodes: 2  # or 1\n"), Request(nodes=2, per_node=8)),
        (_AZURE, Request(nodes=2, per_node=4)),
        (_AZURE.replace("python", "accelerate launch --num_processes 8"), Request(nodes=2, total=8)),
        (_VOLCANO, Request(nodes=3, per_node=1)),
        (_AZURE + "---\ncommand: ls\nresources:\n  instance_count: 7\n", Request(nodes=2, per_node=4)),
        ("trainer:\n  command:\n    - torchrun a.py\n  numNodes: 5\n", Request(nodes=5)),
        ("command: torchrun a.py\nx: {}\nnum_nodes: two\n", Request()),
        (
            "jobs:\n  a:\n    command: torchrun a.py\n  b:\n    num_nodes: 2\n  c:\n    num_nodes: 3\n",
            Request(),
        ),
    ],
)
def test_the_counts_of_a_manifest_are_those_of_the_launch(text: str, request_of_it: Request) -> None:
    assert parse_line(text).request == request_of_it


@pytest.mark.parametrize(
    ("code", "directory", "said"),
    [
        ("code: ./src\n", "src", ["environment"]),
        ("code: .\n", ".", ["environment"]),
        ("code: azureml:c:1\n", "", ["code azureml:c:1", "environment"]),
        ("", "", ["environment"]),
    ],
)
def test_a_job_of_azure_starts_in_the_folder_that_it_sends(
    code: str, directory: str, said: list[str]
) -> None:
    parsed = parse_line(f"{code}{_AZURE}environment: azureml:e:1\n")
    assert parsed.directory == directory
    assert [one.partition(": ")[0] for one in parsed.dropped] == said


def test_a_job_of_azure_may_start_a_script() -> None:
    text = _AZURE.replace("python a.py", '>-\n  bash -lc "./run.sh --np 4 && echo done"')
    parsed = parse_line(f"$schema: https://azuremlschemas.azureedge.net/x.json\n{text}")
    assert (parsed.program, parsed.request) == ("bash", Request(nodes=2, per_node=4))


def test_a_value_goes_on_in_deeper_lines() -> None:
    text = "type: task\nnodes: 2\ncommands:\n  # first\n  - pip install x\n\n"
    text += "  - torchrun\n    --nproc_per_node=2\n    a.py 1\n"
    for shown in (text, text.replace("commands:", "x: 1\ncommands:")):
        parsed = parse_line(shown)
        assert (parsed.args, parsed.request) == (("1",), Request(nodes=2, per_node=2))
    assert parse_line("command: torchrun a.py\n  --lr 1\nx: 2\n").args == ("--lr", "1")


def test_roles_that_differ_in_their_rank_are_one_launch() -> None:
    role = "template:\n  containers:\n  - command: [torchrun, --nnodes=2, --node_rank={}, a.py]\n"
    parsed = parse_line(role.format(0) + role.format(1))
    assert parsed.request == Request(nodes=2, node_rank=0)


_JOBSET = """\
kind: JobSet
spec:
  replicatedJobs:
  - replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            containers:
            - command: [bash, -c, torchrun --nproc_per_node=8 a.py]
              env:
              - name: RANK_OF_POD
                valueFrom:
                  fieldRef: {fieldPath: x}
"""


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (_JOBSET, 8),
        (_JOBSET.replace("JobSet", "Job").replace("  - replicas: 2\n    template", "    template"), 4),
        (_JOBSET.replace("completions: 4", "parallelism: 2"), None),
        (_JOBSET.replace("JobSet", "Deployment"), None),
    ],
)
def test_the_pods_of_a_job_are_its_nodes(text: str, nodes: int | None) -> None:
    parsed = parse_line(text)
    assert parsed.request == Request(nodes=nodes, per_node=8)
    assert parsed.dropped[0].startswith("RANK_OF_POD (fieldRef): the manifest does not say its value")


def test_the_folder_and_gpus_of_databricks_are_named() -> None:
    text = "compute:\n  num_accelerators: 8\ncode_source:\n  snapshot:\n"
    text += "    root_path: /home/x\ncommand: torchrun a.py\n"
    assert [one.partition(":")[0] for one in parse_line(text).dropped] == [
        "root_path /home/x",
        "num_accelerators 8",
    ]


def test_what_a_template_fills_in_has_no_value() -> None:
    parsed = parse_line('command: ["torchrun", "--nnodes={n}", "a.py", "--lr={{ .Values.lr }}", "{x}"]\n')
    assert parsed.request == Request()
    assert [one.message for one in parsed.unknown] == ["the line has {{ .Values.lr }}, which has no value"]


def test_what_a_task_does_first_is_named() -> None:
    (first, *_) = parse_line(_SKY).dropped
    assert first.startswith("setup: it comes before the launch")


@pytest.mark.parametrize(
    ("text", "words", "env"),
    [
        (
            "- run: x\n  env:\n    A_X: 1\n  working-directory: n\n- run: torchrun b.py\n  env:\n    B: 2\n",
            ("torchrun", "b.py"),
            {"B": "2"},
        ),
        (
            "- command: [nginx]\n  args: [serve]\n- command: [torchrun]\n  args: [b.py]\n",
            ("torchrun", "b.py"),
            {},
        ),
    ],
)
def test_an_item_has_nothing_of_the_item_before_it(
    text: str, words: tuple[str, ...], env: dict[str, str]
) -> None:
    parsed = parse_line(text)
    assert (parsed.words, parsed.env, parsed.directory) == (words, env, "")


def test_variables_end_with_their_key() -> None:
    assert parse_line(_SKY).env == {"LR": "0.1"}
    below = (
        "containers:\n- env:\n  - name: A\n    value: '1'  # one\n  # none\n  args: ['torchrun', 'a.py']\n"
    )
    assert parse_line(below).env == {"A": "1"}


@pytest.mark.parametrize(
    ("value", "args"),
    [
        ('"--lr"  # of Adam', ["--lr"]),
        ('"#a # b"', ["#a # b"]),
        ("--a=b#c # d", ["--a=b#c"]),
        ("it's # that", ["it's"]),
        ("'it''s # that' # this", ["it's # that"]),
    ],
)
def test_a_comment_behind_a_word_of_a_manifest_is_none_of_it(value: str, args: list[str]) -> None:
    assert list(parse_line(f"command:\n- torchrun\n- a.py\n- {value}\n").args) == args


def test_a_file_of_variables_for_uv_is_lacking() -> None:
    (unknown,) = parse_line("uv run --env-file .env torchrun a.py", files={".env": "A=1\n"}.get).unknown
    assert unknown.message == "--env-file .env sets what gpulaunch cannot see"


@pytest.mark.parametrize("to", ['${PBS_O_WORKDIR:-""}', "${SLURM_SUBMIT_DIR:-}", "$PBS_O_WORKDIR"])
def test_a_job_stays_in_the_directory_that_it_was_submitted_in(to: str) -> None:
    assert parse_line(f"cd {to}\ntorchrun a.py", {"HOME": "/home/ana"}).directory == "."


def test_a_launcher_within_a_program_is_remarked() -> None:
    (remark,) = parse_line("fit distributed accelerate launch -m pkg").remarks
    assert remark.startswith("accelerate launch is started by fit, and gpulaunch cannot change its options")
    assert not parse_line("bash fit.sh accelerate launch -m pkg").remarks
    assert not parse_line("fit --engine deepspeed").remarks


def test_a_variable_that_mpirun_gets_as_itself_is_handed_on() -> None:
    parsed = parse_line(
        "mpirun -np 2 -x WANDB_API_KEY=$WANDB_API_KEY -x MASTER_PORT=$MASTER_PORT python a.py"
    )
    assert (parsed.forwarded, parsed.env, parsed.unknown) == (("WANDB_API_KEY",), {}, ())


def test_a_manifest_without_a_command_is_refused_as_one() -> None:
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Master:\n"
        "      template:\n        spec:\n          containers:\n"
        "          - image: x/y:1\n            name: pytorch\n"
    )
    with pytest.raises(CommandRefused, match="the manifest has no command: its image") as caught:
        parse_line(text)
    assert "-- torchrun" in caught.value.fix


def test_variables_that_a_workflow_or_a_chart_fills_in_are_named() -> None:
    text = "jobs:\n  a:\n    env:\n      A_KEY: ${{ secrets.KEY }}\n      NCCL_DEBUG: INFO\n    steps:\n"
    text += "    - run: torchrun a.py\n      env:\n        B_PATH: '{{ .Values.path }}/x'\n"
    parsed = parse_line(text)
    assert (parsed.env, parsed.unknown) == ({"NCCL_DEBUG": "INFO"}, ())
    assert [one.partition(":")[0] for one in parsed.dropped] == [
        "A_KEY (${{ secrets.KEY }})",
        "B_PATH ({{ .Values.path }})",
    ]


def test_a_container_in_flow_style_has_its_words_and_its_variables() -> None:
    text = """env:
- { name: NCCL_DEBUG, value: "INFO" }
command: ["torchrun"]
args: ["--nnodes=$(WORLD_SIZE)", "--nproc-per-node=8",
       "--rdzv-endpoint=$(MASTER_ADDR):29500", "a.py",
       "--note", "$5 `x`"]
"""
    parsed = parse_line(text)
    assert (parsed.program, parsed.args, parsed.request.per_node) == ("a.py", ("--note", "$5 `x`"), 8)
    assert (parsed.env, parsed.unknown) == ({"NCCL_DEBUG": "INFO"}, ())


def test_manifests_in_blocks_of_a_page_are_documents_of_their_own() -> None:
    one = (
        "```yaml\ntype: task\nnodes: 2\nenv:\n  - A=1\ncommands:\n  - torchrun --nproc_per_node=2 a.py\n```\n"
    )
    two = "```yaml\ntype: service\nenv:\n  - B=2\ncommands:\n  - torchrun --nproc_per_node=4 b.py\n```\n"
    page = f"Train with two nodes:\n\n{one}\nThen serve what it made:\n\n{two}"
    first, second = (parse_line(page, {}, None, number) for number in (1, 2))
    assert (first.program, first.request.nodes, first.env) == ("a.py", 2, {"A": "1"})
    assert (second.program, second.request.nodes, second.env) == ("b.py", None, {"B": "2"})
