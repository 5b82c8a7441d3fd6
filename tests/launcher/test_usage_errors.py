"""A wrong command line is one line of what is wrong and one of what to type."""

import json
import shlex
from collections import defaultdict
from pathlib import Path

import click
import pytest

from launcher.cli import cli, run_command_line
from launcher.commands._argv import is_text
from launcher.config.command_config import read_command


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        ("help run", 'gpulaunch has no command "help"', "gpulaunch run --help"),
        ("help me", 'gpulaunch has no command "help"', "did you mean --help?"),
        ("frobnicate", 'gpulaunch has no command "frobnicate"', "gpulaunch --help"),
        ("preflihgt a", 'gpulaunch has no command "preflihgt"', "did you mean preflight?"),
        ("status", 'gpulaunch has no command "status"', "did you mean ps?"),
        ("help", 'gpulaunch has no command "help"', "did you mean --help?"),
        ("sync", 'gpulaunch has no command "sync"', "did you mean run --sync?"),
        (
            "a.py --lr 1",
            'gpulaunch has no command "a.py"',
            "gpulaunch run a.py; options of the script go last",
        ),
        ("torchrun a.py", 'gpulaunch has no command "torchrun"', "gpulaunch run -- torchrun a.py"),
        ("--nope", "gpulaunch has no option --nope", "gpulaunch --help"),
        ("--json ps", "gpulaunch has no option --json", "options go after the command: gpulaunch COMMAND"),
        ("-V", "gpulaunch has no option -V", "gpulaunch --version"),
        ("explain FOO", "no finding FOO", "gpulaunch checks lists those of preflight"),
        ("explain persistence", "no finding PERSISTENCE", "codes with this word in the title (1)"),
        ("explain in", "no finding IN", "gpulaunch checks lists those of preflight"),
        (
            "run a.py --strategy deepspeed",
            "gpulaunch run has no option --strategy",
            "options of the script go last, after --: gpulaunch run a.py -- --strategy deepspeed",
        ),
        (
            "run a.py -f c.yaml --dry-run data",
            "gpulaunch run has no option -f",
            "options of the script go last, after --: gpulaunch run a.py --dry-run -- -f c.yaml data",
        ),
        ("stop --force", "gpulaunch stop has no option --force", "without time for a checkpoint: --now"),
        ("explain gpu", "no finding GPU", "did you mean GPU001, GPU002"),
        ("explain host7", "no finding HOST7", "did you mean HOST007?"),
        (
            "explain RuntimeError:",
            "no finding RUNTIMEERROR:: expected a code",
            "the text of an error: gpulaunch diagnose -",
        ),
        ("explain FOO,", "no finding FOO", "gpulaunch checks lists those of preflight"),
        ("explain ,", "gpulaunch explain needs CODE", "gpulaunch checks lists the codes"),
        ("diagnose tests/users.py", "tests/users.py is a script and no log", "gpulaunch lint tests/users.py"),
        ("run a.py --no-sync", "gpulaunch run has no option --no-sync", "--set sync=false"),
        (
            "fetch last out/c-5",
            "gpulaunch fetch takes no further argument, got out/c-5",
            "a file or directory of the output: --path out/c-5; a host: --host out/c-5; other runs: one by",
        ),
        (
            "fetch last a'b",
            "gpulaunch fetch takes no further argument, got a'b",
            """a file or directory of the output: --path 'a'"'"'b'; a""",
        ),
        ("run a.py --gpus 4 hours", "hours would be an argument of the script", "a host: --hosts hours; an"),
        ("run README.md 1", "1 would be an argument of the script", "an argument of the script goes last"),
        ("run a.py -1e-4", "gpulaunch run has no option -1e-4", "options of the script go last"),
        (
            "run a.py --hosts a 0.5",
            "0.5 after --hosts a would be an argument",
            "an argument of the script goes",
        ),
        (
            "run a.py data/x.json",
            "data/x.json would be an argument of the script",
            "an argument of the script",
        ),
        (
            "run a.py 192.0.2.7",
            "192.0.2.7 would be an argument of the script",
            "a host: --hosts 192.0.2.7; an",
        ),
        ("fetch last a b", "gpulaunch fetch takes no further argument, got a b", "gpulaunch fetch --help"),
        ("checks GPU", "gpulaunch checks takes no further argument, got GPU", "gpulaunch checks | grep GPU"),
        ("report README.md", "README.md: no such run locally", "gpulaunch diagnose README.md reads a log"),
        ("int", 'gpulaunch has no command "int"', "did you mean init or lint?"),
        ("inti", 'gpulaunch has no command "inti"', "did you mean init or lint?"),
        ("run a.py --wait 4 hours --sync", "--wait: expected one word, got 4 hours", "write 4h"),
        ("prune -n", "gpulaunch prune has no option -n", "to see it and change nothing: --dry-run"),
        ("rm a --dry-run", "gpulaunch rm has no option --dry-run", "gpulaunch ps shows the run"),
        ("run a.py -n 4", "gpulaunch run has no option -n", "the plan alone: run --dry-run; ranks of each"),
        ("submit -c a --logs b", "gpulaunch submit has no option --logs", "what is not sent with --login"),
        ("stop a -f", "gpulaunch stop has no option -f", "without time for a checkpoint: --now"),
        ("attach a -r 0", "gpulaunch attach has no option -r", "one rank alone: gpulaunch logs RUN -f -r N"),
        ("init a.py --dry-run", "gpulaunch init has no option --dry-run", "gpulaunch run has it"),
        (
            "init a.py --force",
            "gpulaunch init has no option --force",
            "move hosts.yaml or the run config away first",
        ),
        ("preflight l40s*", '"l40s*" is not a host', "several at once: a range, l40s-[01-04], or all"),
        ("preflight a --ignore PROC01", "--ignore: no check PROC01", "did you mean PROC001?"),
        (
            "preflight -p 22 a",
            "gpulaunch preflight has no option -p",
            "write a port with its host: user@host:port",
        ),
        ("ps --al", "gpulaunch ps has no option --al", "did you mean --all?"),
        ("stop a b", "gpulaunch stop takes no further argument, got b", "gpulaunch stop --help"),
        ("run a.py --name a/b", "--name: expected at most 40 letters, digits", "gpulaunch run --help"),
        ("rehearse a.py --name -a", "--name: expected at most 40 letters, digits", "gpulaunch rehearse"),
        ("run a.py --gpus", "--gpus needs a value", "gpulaunch run --help"),
        ("ps --json=yes", "option '--json' does not take a value", "gpulaunch ps --help"),
        (
            "schema",
            "gpulaunch schema needs {hosts|config}",
            "such as: gpulaunch schema hosts > hosts.schema.json",
        ),
        ("explain", "gpulaunch explain needs CODE", "gpulaunch checks lists the codes"),
        (
            "schema users",
            '{hosts|config}: expected one of hosts, config, got "users"',
            "gpulaunch schema --help",
        ),
        (
            "ps --parallel 0",
            '--parallel: expected a whole number from 1 to 1024, got "0"',
            "gpulaunch ps --help",
        ),
        (
            "ps --parallel x",
            '--parallel: expected a whole number from 1 to 1024, got "x"',
            "gpulaunch ps --help",
        ),
        (
            "bench --seconds x",
            '--seconds: expected a duration such as 90, 30s, 10m, 2h or 30d, got "x"',
            "gpulaunch bench --help",
        ),
        ("logs -r x", '--rank: expected a whole number of at least 0, got "x"', "gpulaunch logs --help"),
        ("stop --grace soon", "--grace: expected a duration such as 90", "gpulaunch stop --help"),
        (
            "clean-zombies --grace 2d",
            "--grace: expected at most 1d, got 2d",
            "gpulaunch clean-zombies --help",
        ),
        ("top --interval 0", "--interval: expected at least 0.5s, at most 1h, got 0", "gpulaunch top --help"),
        ("submit paper_r64", "gpulaunch submit needs --config", "gpulaunch submit --config paper_r64"),
        ("lint paper_r64", "paper_r64: no such file", "gpulaunch lint --config paper_r64"),
        (
            "run a.py --epochs 3",
            "gpulaunch run has no option --epochs",
            "options of the script go last, after --: ",
        ),
        ("run a.py --hosts ", '--hosts: expected a value, got ""', "leave --hosts out, or give it a value"),
        ("run a.py --gpus=", '--gpus: expected a value, got ""', "leave --gpus out, or give it a value"),
        ("preflight --html  a", '--html: expected a value, got ""', "leave --html out, or give it a value"),
        ("rehearse -c ", '-c: expected a value, got ""', "leave -c out, or give it a value"),
        (
            "ps -i none.yaml",
            "--inventory: none.yaml does not exist",
            "gpulaunch init -i none.yaml --hosts HOSTS",
        ),
        ("ps --identity-file=~root/none.pem", "--identity-file: /", "name a file that exists"),
        ("preflight --from none.json", "--from: none.json does not exist", "name a file that exists"),
        ("record a -o /", "--output: / is a directory", "name a file"),
        ("fetch --to /dev/null", "--to /dev/null: not a directory", "name a directory that you can write to"),
        (
            "preflight --json --jsonl a",
            "--json prints one document: --jsonl would have no effect",
            "leave out --json, or --jsonl",
        ),
        ("lint /", "SCRIPT: / is a directory", "name a file"),
        ("ssh", 'gpulaunch has no command "ssh"', "did you mean ssh-config?"),
        ("ssh a/b", 'gpulaunch has no command "ssh"', "did you mean ssh-config?"),
        ("ssh localhost", 'gpulaunch has no command "ssh"', "did you mean ssh-config?"),
        ("exec a/b", 'gpulaunch has no command "exec"', "did you mean ssh-config?"),
        ("completion bash", 'gpulaunch has no command "completion"', 'eval "$(_GPULAUNCH_COMPLETE='),
        ("ssh ada@titan:2222", 'gpulaunch has no command "ssh"', "ssh -p 2222 ada@titan"),
        ("run  x", 'expected a word, got ""', "leave it out, or give the variable in it a value"),
        ("submit -c x --nodes 2", "gpulaunch submit has no option --nodes", "--set slurm.nodes=VALUE"),
        ("submit -c x --gpus none", "gpulaunch submit has no option --gpus", "--set gpus=VALUE"),
        (
            "submit -c x --gpus-per-node 2",
            "gpulaunch submit has no option --gpus-per-node",
            "--set slurm.gpus_per_node=VALUE",
        ),
        ("submit -c x --restarts 2", "gpulaunch submit has no option --restarts", "--set restart.max=VALUE"),
        (
            "submit -c x --mem=2G",
            "gpulaunch submit has no option --mem",
            "for sbatch: --set slurm.sbatch.mem=VALUE",
        ),
        (
            "submit -c x --hosts a",
            "gpulaunch submit has no option --hosts",
            "Slurm chooses the nodes; for sbatch: --set slurm.sbatch.nodelist=HOSTS",
        ),
        ("submit -c x --env A=1", "gpulaunch submit has no option --env", "--set env.KEY=VALUE"),
        ("submit -c x --detach", "gpulaunch submit has no option --detach", "leave it out: a job needs"),
        ("submit -c x --dryrun", "gpulaunch submit has no option --dryrun", "did you mean --dry-run?"),
        ("rehearse", "nothing to run", "name a local script"),
        ("logs --tail 3", "gpulaunch logs has no option --tail", "the last lines: -n N"),
        (
            "run a.py --without b",
            "gpulaunch run has no option --without",
            "all hosts but titan: 'all!titan'; options",
        ),
        (
            "ps --hostfile f",
            "gpulaunch ps has no option --hostfile",
            "hosts.yaml lists hosts; names of a file: ",
        ),
        ("stop --all", "gpulaunch stop has no option --all", "name the run; gpulaunch ps lists"),
        (
            "ps last",
            "last is a run, expected hosts",
            "gpulaunch ps --all lists all runs; gpulaunch report last",
        ),
        ("ps a-20261126-130504-dcbc55", "a-20261126-130504-dcbc55 is a run", "gpulaunch ps --all"),
        ("top --once last", "last is a run, expected hosts", "gpulaunch ps --all lists all runs"),
        ("clean-zombies --hosts last", "last is a run, expected hosts", "gpulaunch ps --all lists all runs"),
        ("report --logs . nothing", "nothing: no such run locally", "name a run"),
        ("ps \x1b[2J", None, None),
    ],
)
def test_a_wrong_command_line_is_two_lines(
    capsys: pytest.CaptureFixture[str], words: str, message: str | None, fix: str | None
) -> None:
    code = run_command_line(words.split(" "))
    lines = capsys.readouterr().err.splitlines()
    assert (code, len(lines)) == ((2, 2) if message else (code, len(lines)))
    assert not any("\x1b" in line for line in lines)
    if message is not None and fix is not None:
        assert lines[0].startswith(f"error: {message}")
        assert lines[1].startswith(f"  fix: {fix}")


def test_ssh_is_answered_with_the_command_that_reaches_the_host_of_hosts_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text(
        "hosts: {box: {address: 192.0.2.7, port: 41022, user: root}, 'n[01-03]': {}}\n"
        "groups: {g: [n01, n02]}\n"
    )
    file = "~/.ssh/gpulaunch.conf"
    clush = f'fix: gpulaunch ssh-config > {file} && clush -b -o "-F $HOME/.ssh/gpulaunch.conf" -w'
    for words, fix in (
        (["ssh", "box"], "fix: ssh -p 41022 root@192.0.2.7\n"),
        (["exec", "box", "--", "nvidia-smi", "-L"], "fix: ssh -p 41022 root@192.0.2.7 nvidia-smi -L\n"),
        (["exec", "@g", "--", "ls", "-l", "a"], f"{clush} 'n[01-02]' ls -l a\n"),
        (["exec", "@g", "--", "ls", "a b"], f"{clush} 'n[01-02]' {shlex.quote(shlex.join(['ls', 'a b']))}\n"),
        (["ssh", "n[01-03]"], f"{clush} 'n[01-03]' COMMAND\n"),
    ):
        assert run_command_line(words) == 2
        assert fix in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("/bin/zsh", 'eval "$(_GPULAUNCH_COMPLETE=zsh_source gpulaunch)"'),
        ("/usr/bin/fish", "_GPULAUNCH_COMPLETE=fish_source gpulaunch | source"),
        ("", 'eval "$(_GPULAUNCH_COMPLETE=bash_source gpulaunch)"'),
    ],
)
def test_completion_is_answered_with_the_line_for_the_users_shell(
    shell: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", shell)
    assert run_command_line(["install-completion"]) == 2
    assert f"fix: {line}\n" in capsys.readouterr().err
    assert run_command_line(["completion", "fish"]) == 2
    assert "fix: _GPULAUNCH_COMPLETE=fish_source gpulaunch | source\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--dry-run", "a.py", "--", "--name", ""],
        ["run", "--dry-run", "a.py", "--set", "env="],
        ["run", "--dry-run", "--", "torchrun", "--nproc_per_node=", ""],
        ["run", "--", "a.py", "trainer.logger="],
    ],
)
def test_empty_words_that_are_the_scripts_or_a_keys_are_no_empty_option(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # without a.py: the error that ends this is another one
    assert run_command_line(words) == 2
    assert "expected a value" not in capsys.readouterr().err


def test_a_wrong_command_line_is_one_document_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["ps", "--json", "--parallel", "many"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["fix"]) == ("usage", "gpulaunch ps --help")
    assert error["message"].startswith("--parallel: expected a whole number")


@pytest.mark.parametrize(
    ("script", "fix"), [("a.py", "gpulaunch init a.py writes"), ("b.sh", "gpulaunch init b.sh makes")]
)
def test_what_is_given_to_submit_becomes_a_run_config_first(
    script: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(script).touch()
    assert run_command_line(["submit", script]) == 2
    assert capsys.readouterr().err.splitlines()[1].startswith(f"  fix: {fix}")


def test_a_job_reads_the_inventory_that_submit_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.yaml").write_text("hosts: {n1: {}}")
    Path("a.yaml").write_text("{script: a.py, slurm: {nodes: 2}}")
    assert run_command_line(["submit", "-c", "./a.yaml", "--dry-run", "-i", "nodes.yaml"]) == 0
    assert "--transport srun -c ./a.yaml --inventory=nodes.yaml" in capsys.readouterr().out


def test_an_option_means_the_same_in_every_command() -> None:
    longs, are_flags = defaultdict[str, set[str]](set), defaultdict[str, set[bool]](set)
    ctx = click.Context(cli)
    for command in filter(None, (cli.get_command(ctx, name) for name in cli.list_commands(ctx))):
        for option in (param for param in command.params if isinstance(param, click.Option)):
            for short in (name for name in option.opts if name[1] != "-"):
                longs[short].add(max(option.opts, key=len))
            are_flags[max(option.opts, key=len)].add(option.is_flag)
    assert {short: names for short, names in longs.items() if len(names) > 1} == {}
    assert [name for name, kinds in are_flags.items() if len(kinds) > 1] == []


def test_a_document_without_a_blank_is_a_text_and_no_program() -> None:
    text = '{"configurations":[{"program":"train.py","args":["--lr","1e-4"]}]}'
    assert is_text(text)
    assert not is_text("[")
    assert read_command((text,)).args == ("--lr", "1e-4")


def test_a_file_in_place_of_hosts_is_named_with_the_option_it_goes_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("hosts: {titan: {}}\n")
    assert run_command_line(["top", "hosts.yaml"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: hosts.yaml is a file, expected hosts"
    assert "-i (all -i hosts.yaml)" in second
