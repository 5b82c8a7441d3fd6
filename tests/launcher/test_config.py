"""Run configs: what overrides what, and what is told when they are wrong."""

import json
from pathlib import Path

import pytest

from launcher.commands._preflight import parse_gpus
from launcher.config.config_overrides import Overrides
from launcher.config.restart_options import CHECKPOINTS, RestartOptions
from launcher.config.run_config import RunConfig, load_run_config
from launcher.errors import BadInput, ConfigError
from preflight.job import Job
from tests.launcher.typed_keys import typed

METACHARACTERS = ("$(reboot)", "`id`", "a b", "'", '"', "\\", "*", "; rm -rf /", "é\t", "", "--", "{run_dir}")


@pytest.fixture(name="here", autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str = "script: train.py\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def load(text: str, **overrides: object) -> RunConfig:
    write(Path("configs/x.yaml"), text)
    return load_run_config("x", Overrides(**overrides))  # type: ignore[arg-type]


def complaint(text: str, **overrides: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, **overrides)
    return caught.value.message


@pytest.mark.parametrize(
    "over", [{"gpus": "1"}, {"gpus": "all"}, {"gpus": "[0]"}, {"key_values": ("gpus=2",)}]
)
def test_gpus_asked_for_at_the_command_line_take_the_place_of_cpu_ranks(over: dict[str, object]) -> None:
    for gpus in ("auto", "none"):
        config = load(f"script: train.py\ngpus: {gpus}\nprocesses_per_host: 2", **over)
        assert (config.job.processes_per_host, config.job.gpus) != (2, gpus)


def test_gpus_and_processes_both_asked_for_at_the_command_line_contradict_each_other() -> None:
    message = complaint("script: train.py", gpus="1", key_values=("processes_per_host=2",))
    assert "--set processes_per_host" in message
    assert "only for CPU ranks" in message


def test_a_script_alone_is_a_run_config() -> None:
    config = load("script: train.py")
    assert config.job == Job(name="x", script="train.py")
    assert (config.name, config.hosts, config.local_script) == ("x", ("localhost",), None)


def test_every_key_arrives() -> None:
    config = load(
        """
        module: pkg.train
        args: [--lr, 2e-5, --flag, no, 010, 1:30, "a b"]
        hosts: [titan, "l40s-[01-02]", "@ada"]
        gpus: none
        processes_per_host: 3
        precision: no
        precision_args: {fp16: ["--fp16"], bf16: [--dtype, bf16]}
        main_port: 29511
        env: {NCCL_DEBUG: on, N: 1}
        workdir: ~/project
        output: out/x
        """
    )
    assert config.hosts == ("titan", "l40s-[01-02]", "@ada")
    assert config.job == Job(
        name="x",
        module="pkg.train",
        args=("--lr", "2e-5", "--flag", "no", "010", "1:30", "a b"),
        gpus="none",
        processes_per_host=3,
        precision="no",
        precision_args={"fp16": ("--fp16",), "bf16": ("--dtype", "bf16")},
        main_port=29511,
        env={"NCCL_DEBUG": "on", "N": "1"},
        workdir="~/project",
        output="out/x",
    )


def test_a_path_works_too(here: Path) -> None:
    path = write(here / "elsewhere/mine.yaml")
    assert load_run_config(str(path)).job.name == "mine"
    write(here / "bare.yaml")
    assert load_run_config("bare.yaml").path == Path("bare.yaml")


def test_the_command_line_wins_over_the_file() -> None:
    config = load(
        "{script: a.py, args: [x], env: {A: 1, B: 2}, gpus: all, main_port: 1, hosts: all}",
        key_values=("env.B=3", "args=[y, 2e-5]", "precision_args.fp16=['--fp16']", "script=b.py", "output="),
        hosts=("titan,l40s-[01,02]", "p100"),
        gpus="0,2",
        keys=typed(port="29600", precision="fp16"),
        extra_args=("--more",),
    )
    assert config.hosts == ("titan", "l40s-[01,02]", "p100")
    assert config.job == Job(
        name="x",
        script="b.py",
        args=("y", "2e-5", "--more"),
        gpus=(0, 2),
        precision="fp16",
        precision_args={"fp16": ("--fp16",)},
        main_port=29600,
        env={"A": "1", "B": "3"},
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", 2),
        ("all", "all"),
        ("none", "none"),
        ("auto", "auto"),
        ("[0]", (0,)),
        ("0,", (0,)),
        ("1,0", (1, 0)),
        ("GPU-1f2e,GPU-3", ("GPU-1f2e", "GPU-3")),
        ("MIG-7", ("MIG-7",)),
        ("0-3", (0, 1, 2, 3)),
        ("0-1,6", (0, 1, 6)),
        ("[2-3, 0]", (2, 3, 0)),
    ],
)
def test_gpus_can_be_said_in_every_form(text: str, expected: object) -> None:
    assert load("script: a.py", gpus=text).job.gpus == expected
    assert (
        load(f"{{script: a.py, gpus: {text if text[0] == '[' else json.dumps(text)}}}").job.gpus == expected
    )
    assert parse_gpus(text) == expected


def test_extra_arguments_arrive_exactly() -> None:
    assert load("{script: a.py, args: [x]}", extra_args=METACHARACTERS).job.args == ("x", *METACHARACTERS)


def test_a_set_to_nothing_unsets() -> None:
    assert load("{script: a.py, gpus: 2}", key_values=("gpus=",)).job.gpus == "all"


def test_restarts_arrive_with_what_is_not_said_as_usual() -> None:
    config = load(
        """
        script: a.py
        restart:
          max: 2
          spares: l40s-[03-04]
          resume_args: [--resume_from_checkpoint, "{checkpoint}"]
          retry_on: [oom]
        """
    )
    resume = ("--resume_from_checkpoint", "{checkpoint}")
    wanted = RestartOptions(max=2, spares=("l40s-[03-04]",), resume_args=resume, retry_on=("oom",))
    assert config.restart == wanted
    assert (wanted.exclude_failed_hosts, wanted.checkpoints) == (True, CHECKPOINTS)


@pytest.mark.parametrize(
    ("text", "overrides", "restarts"),
    [
        ("script: a", {}, None),
        ("{script: a, restart: {}}", {}, 3),
        ("{script: a, restart: {max: 0}}", {}, None),
        ("{script: a, restart: {max: 5}}", {"keys": typed(restarts="1")}, 1),
        ("{script: a, restart: {max: 5}}", {"keys": typed(restarts="0")}, None),
        ("script: a", {"keys": typed(restarts="2")}, 2),
        ("script: a", {"key_values": ("restart.max=4",)}, 4),
        ("{script: a, restart: {max: 5}}", {"key_values": ("restart=",)}, None),
    ],
)
def test_how_often_a_run_is_started_again(text: str, overrides: dict[str, object], restarts: object) -> None:
    spec = load(text, **overrides).restart
    assert (spec.max if spec else None) == restarts


def test_pauses_double_up_to_a_limit() -> None:
    spec = RestartOptions(backoff_s=30.0)
    assert [spec.backoff_before(n) for n in range(6)] == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]
    assert RestartOptions(backoff_s=0.0).backoff_before(9) == 0.0
    assert RestartOptions(backoff_s=900.0).backoff_before(1) == 900.0


MISTAKES: dict[str, tuple[str, dict[str, object], str]] = {
    "hosts": ("hosts: {a: {}}", {}, "a hosts.yaml, which goes after -i: expected script: PATH"),
    "nothing to run": ("{}", {}, "nothing to run: expected script: PATH, module: NAME or command: WORDS"),
    "script and module": (
        "script: a\nmodule: b",
        {},
        "x.yaml:2: module: script is set too; keep one of them",
    ),
    "processes with gpus": ("script: a\nprocesses_per_host: 2", {}, "only for CPU ranks: set gpus: none"),
    "nothing to send": ("module: a\nsend_script: true", {}, "no script to send"),
    "script to send is absent": ("script: a.py\nsend_script: true", {}, "a.py: no such local file"),
    "precision": ("script: a\nprecision: fp61", {}, "one of auto, no, fp16, bf16, fp8"),
    "precision spelling": ("script: a\nprecision: fp61", {}, 'got "fp61"; did you mean "fp16"?'),
    "no gpus at all": ("script: a\ngpus: 0", {}, "none for CPU ranks, [0] for the GPU with index 0"),
    "null argument": (
        "script: a\nargs: [null]",
        {},
        'x.yaml:2: args[0]: expected text or a number; write ""',
    ),
    "nested argument": ("script: a\nargs: [[1]]", {}, "args[0]: expected text or a number, got a list"),
    "args as text": ("script: a\nargs: --x 1", {}, "x.yaml:2: args: expected a list"),
    "host for hosts": ("script: a\nhost: titan", {}, 'x.yaml:2: host: unknown key; did you mean "hosts"?'),
    "key of a host": (
        "script: a\naddress: 10.0.0.7",
        {},
        "x.yaml:2: address: unknown key; it is a key of a host in hosts.yaml",
    ),
    "unknown key": ("script: a\nprot: 1", {}, 'x.yaml:2: prot: unknown key; did you mean "main_port"?'),
    "no colon": ("script: a\nrestart: {max 2}", {}, 'x.yaml:2: restart.max 2: unknown key (write "max: 2")'),
    "no colon below a key": ("script: a\nrestart:\n  max 2", {}, '(write "max: 2"), got "max 2"'),
    "a colon elsewhere": ("script: a\nenv A: 1", {}, 'x.yaml:2: env A: unknown key; did you mean "env"?'),
    "no blank": (
        "script: a\nrestart: {max:2}",
        {},
        'x.yaml:2: restart.max:2: unknown key (write "max: 2", with a blank)',
    ),
    "a pattern": ("script: a\nsync: exclude *.ckpt", {}, '(write exclude: "*.ckpt")'),
    "word of another tool": ("script: a\nmachines: [b]", {}, 'machines: unknown key; did you mean "hosts"?'),
    "word of SkyPilot": ("script: a\nnum_nodes: 2", {}, 'num_nodes: unknown key; did you mean "nodes"?'),
    "names in place of a number": (
        "script: a\nnodes: [b]",
        {},
        "x.yaml:2: nodes: expected a whole number from 1 to 4096; names go under hosts, got a list",
    ),
    "no nodes": ("script: a", {"keys": typed(nodes="0")}, "--nodes: expected a whole number from 1 to 4096"),
    "word of a host": (
        "script: a\nconda: train",
        {},
        'conda: unknown key; did you mean "python" of a host in hosts.yaml?',
    ),
    "key of slurm": (
        "script: a\npartition: gpu",
        {},
        "partition: unknown key; it is a key under slurm: of a run config",
    ),
    "retries": ("script: a\nrestart: {retries: 1}", {}, 'restart.retries: unknown key; did you mean "max"?'),
    "no inheritance": ("script: a\nextends: b", {}, "extends: unknown key; expected one of"),
    "option of sbatch": ("slurm: {cpus_per_task: 8}", {}, "goes under sbatch: {cpus-per-task: ...}"),
    "spelling of a name": ("slurm: {sbatch: {--job_name: x}}", {}, 'did you mean "job-name"?'),
    "time with a unit": ("slurm: {time: 90m}", {}, "(write 90, in minutes)"),
    "time without end": ("slurm: {time: UNLIMITED}", {}, "(leave it out: the partition's limit holds)"),
    "number for a mapping": ("script: a\nrestart: 3", {}, '(write {max: 3}), got "3"'),
    "true for a mapping": ("script: a\nrestart: yes", {}, "(write {} for its defaults)"),
    "false for a mapping": ("script: a\nslurm: no", {}, "(leave it out)"),
    "words for a list": ("script: a\nargs: --lr 1e-4", {}, "(write [--lr, 1e-4])"),
    "options for a list": ("script: a\nargs: {lr: 1e-4, out: o}", {}, "(write [--lr, 1e-4, --out, o])"),
    "options in a list": ("script: a\nargs:\n- a\n- --lr: 1\n- fast:", {}, "(write [a, --lr, 1, --fast])"),
    "words with a placeholder": (
        "script: a\nrestart: {max: 1, resume_args: '--resume {checkpoint}'}",
        {},
        '(write [--resume, "{checkpoint}"])',
    ),
    "hosts with blanks": ("script: a\nhosts: b c", {}, "(write [b, c])"),
    "no host of ssh": (
        "script: a\nhosts: [b, 'c:d']",
        {},
        'x.yaml:2: hosts[1]: "c:d" is not a host: expected',
    ),
    "range backwards": ("script: a\nhosts: 'n[4-1]'", {}, 'x.yaml:2: hosts: "n[4-1]" is not a range'),
    "port of a spare": ("script: a\nrestart: {spares: b:0}", {}, 'x.yaml:2: restart.spares: "b:0": 0 is'),
    "a text too long to be a word": (f"script: a\nargs: {'x' * 70}", {}, "each text or a number, got"),
    "hosts as keys": ("script: a\nhosts: {b: }", {}, "(write [b])"),
    "command as a text": ("script: a\non_end: mail ana", {}, "(write [mail, ana])"),
    "variables in a list": ("script: a\nenv: [A=1]", {}, '(write "A: 1" in place of "- A=1")'),
    "GPUs by host": (
        "script: a\ngpus: {a: 2}",
        {},
        "(for one host: gpus: [0, 1] below it in hosts.yaml), got",
    ),
    "a key of sync as text": ("script: a\nsync: to ~/x", {}, '(write "to: ~/x")'),
    "size in MiB": ("script: a\nsync: {max_mib: 1.5GB}", {}, "(it is in MiB: write 1536)"),
    "duration spelled out": ("script: a\ngrace: 5 minutes", {}, "(write 5m)"),
    "another engine": ("script: a\nengine: mpi", {}, "(what another launcher starts goes under command:)"),
    "module name": ("module: a b", {}, "module: expected a Python module"),
    "no host": ("script: a", {"hosts": (" , ",)}, '--hosts: expected names of hosts, got " , "'),
    "set without value": ("script: a", {"key_values": ("gpus",)}, '--set: expected key=value, got "gpus"'),
    "set of an unknown key": (
        "script: a",
        {"key_values": ("gpu=1",)},
        '--set gpu: unknown key; did you mean "gpus"?',
    ),
    "set below a scalar": ("script: a", {"key_values": ("script.b=1",)}, "script has no keys of its own"),
    "set of no YAML": ("script: a", {"key_values": ("gpus=[",)}, "--set gpus: not valid YAML"),
    "set of no text": (
        "script: a",
        {"key_values": ("output=caf\udce9",)},
        "--set output: YAML takes no control",
    ),
    "port": ("script: a", {"keys": typed(port="http")}, "--port: expected a whole number from 1 to 65535"),
    "gpus": ("script: a", {"gpus": "some"}, "--gpus: expected all, auto, none, a count per host or a list"),
    "gpus backwards": (
        "script: a",
        {"gpus": "3-0,6"},
        '--gpus: expected ranges from low to high (0-3, not 3-0), got "3-0,6"',
    ),
    "gpus without end": ("script: a\ngpus: 0-9999", {}, "gpus: expected GPU indices up to 1023 (not 0-9999)"),
    "gpu twice": ("script: a\ngpus: 0-3,2", {}, "each once"),
    "restart key": (
        "script: a\nrestart:\n  spare: [b]",
        {},
        'x.yaml:3: restart.spare: unknown key; did you mean "spares"?',
    ),
    "restart as a number": ("script: a\nrestart: 2", {}, "x.yaml:2: restart: expected a mapping of max"),
    "restart on what passes anyway": (
        "script: a\nrestart:\n  retry_on: [omo]",
        {},
        'restart.retry_on[0]: expected one of oom, script, precision, crash, environment, unknown, got "omo"',
    ),
    "checkpoint misspelt": (
        "script: a\nrestart:\n  resume_args: [--resume, '{chekpoint}']",
        {},
        'x.yaml:3: restart.resume_args[1]: {chekpoint} is not filled in; did you mean "checkpoint"?',
    ),
    "checkpoints elsewhere": (
        "script: a\nrestart: {checkpoints: ../x/*}",
        {},
        "x.yaml:2: restart.checkpoints: expected a pattern such as checkpoint-*, below output",
    ),
    "restarts": (
        "script: a",
        {"keys": typed(restarts="many")},
        "--restarts: expected a whole number from 0 to 1000",
    ),
    "argument, no host": ("script: a", {"hosts": (",",), "hosts_from": "HOST"}, "HOST: expected names"),
    "tenth after second": (
        f"script: a\nhosts: [b, 'c:d'{', b' * 8}, 'e:f']",
        {},
        "[IPv6]:port\n  configs/x.yaml:2: hosts[10]:",
    ),
    "option as host": ("script: a", {"hosts": ("-oProxyCommand=x",)}, "--hosts: expected a host"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(name: str) -> None:
    text, overrides, expected = MISTAKES[name]
    assert expected in complaint(text, **overrides)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scirpt: a", 'x.yaml:1: scirpt: unknown key; did you mean "script"?'),
        ("comand: python a.py\nlaunch: 2", 'x.yaml:1: comand: unknown key; did you mean "command"?'),
        ("scrip: a.py\nsend_script: true", 'x.yaml:1: scrip: unknown key; did you mean "script"?'),
        ("script: a\ngpu: none\nprocesses_per_host: 2", 'x.yaml:2: gpu: unknown key; did you mean "gpus"?'),
    ],
)
def test_what_lacks_because_its_key_is_misspelt_is_no_second_mistake(text: str, expected: str) -> None:
    assert complaint(text) == f"configs/{expected}"


def test_file_and_command_line_are_judged_together() -> None:
    message = complaint(
        "script: a\ngpu: 1\nmain_port: x\n", keys=typed(precision="half"), key_values=("env.1X=2",)
    )
    assert message.startswith("4 mistakes:")


def test_a_script_that_travels_lies_beside_its_config(here: Path) -> None:
    write(here / "configs/train.py", "print()")
    config = load("script: train.py\nsend_script: true")
    assert config.local_script == Path("configs/train.py")


def test_hosts_are_separated_by_commas_with_or_without_blanks() -> None:
    assert load("script: a", hosts=("a, b ,c-[1,2]",)).hosts == ("a", "b", "c-[1,2]")
    with pytest.raises(BadInput) as caught:
        load("script: a", hosts=("a b",))
    assert caught.value.fix == 'separate hosts by commas: "a,b"'
