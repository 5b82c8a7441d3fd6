"""gpulaunch submit: a run as a job of Slurm."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from launcher.commands._answer import Answer, json_option
from launcher.commands._completion import complete_files
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._host_options import HostOptions, add_host_options
from launcher.commands._option_rules import require_another
from launcher.commands._param_types import config_option, flag, host_option, set_option
from launcher.commands._usage_errors import WrongUsage
from launcher.config.config_overrides import Overrides
from launcher.config.config_search import is_config_name
from launcher.config.run_config import RunConfig, load_run_config
from launcher.errors import BadInput
from launcher.local.project import local_runs_dir
from launcher.slurm import submit
from launcher.slurm.commands import open_local_commands
from launcher.terminal.output import echo_text
from launcher.text import one_line
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class SubmitOptions(HostOptions):
    """The values of what `submit` takes."""

    dry_run: bool
    login: str
    sets: tuple[str, ...]
    as_json: bool


@click.command("submit")
@config_option("Run config with `slurm:`: a name, or a path to a YAML file.")
@flag("--dry-run", "Print the batch script; submit nothing.")
@host_option("Submit on this login node by SSH, after the tree was sent to it.", "--login")
@set_option
@json_option
@add_host_options
@require_another("--identity-file --accept-new-host-keys --parallel", "--login")
@click.argument(
    "extra", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_files, metavar="[-- ARGS]..."
)
def command(config: str | None, extra: tuple[str, ...], **given: Any) -> int:
    """Submit a run config to Slurm as one batch job, whose nodes `gpulaunch run` then takes.

    `slurm:` of the run config names nodes, GPUs, time and so on. The batch script is printed by --dry-run,
    and holds all that is submitted. Prints the job's id; `logs`, `attach`, `stop`, `ps` and `fetch` take it.
    """
    options = SubmitOptions(**given)
    if config is None:
        raise WrongUsage("gpulaunch submit needs --config", _config_fix(extra))
    found = load_run_config(config, Overrides(key_values=options.sets, extra_args=extra, for_job=True))
    if found.slurm is None:
        raise BadInput(
            f"{found.path} has no `slurm:`, so it does not say which nodes to ask for",
            "add, for example: slurm: {nodes: 2, gpus_per_node: 8, time: 12:00:00}",
        )
    if found.nodes > found.slurm.nodes + found.slurm.spare_nodes:
        raise BadInput(
            f"{found.path}: nodes: {found.nodes}: more than the nodes of the job that slurm: asks for",
            f"slurm: {{nodes: {found.nodes}}}",
        )
    # With --login the file is for the way to the login node, whose own hosts.yaml the job reads.
    named = options.inventory is not None and not options.login
    chosen = (f"--inventory={options.inventory}",) if named else ()
    sets = (f"--set={text}" for text in options.sets)
    words = (config, *chosen, *sets, *(("--", *extra) if extra else ()))
    _refuse_wrong_args(found, ("gpulaunch", "submit", "-c", *words))
    access = open_host_access(options)
    job = reason = ""
    if options.login:
        text, job, reason = _submit_there(found, words, access, options)
    else:
        text = _text(found, (sys.executable,), words, str(Path.cwd()))
        if not options.dry_run:
            local = open_local_commands()
            job = submit.submit_job(local, text, directories=submit.list_output_dirs(found.slurm))
            reason = submit.read_wait_reason(local, job)
    answer = Answer("gpulaunch.submit/1", as_json=options.as_json)
    if not job and not options.as_json:
        echo_text(text)
    if job:
        answer.say(submit.describe_job(job, found.slurm))
    for hint in (
        submit.describe_wait(job, reason),
        submit.describe_short_wait(found.slurm, found.disconnect.before_stop),
    ):
        if hint:
            answer.say(hint, err=not job)
    return answer.finish(0, job=job or None, pending_reason=reason or None, script=text)


def _refuse_wrong_args(found: RunConfig, typed: tuple[str, ...]) -> None:
    """Raise BadInput for arguments that would end the run once its job has waited for its nodes."""
    from launcher.planning.script_file import read_script_of_job  # noqa: PLC0415 - what submits is fast to start
    from preflight.checks.script_args import describe_refused_args  # noqa: PLC0415 - as above
    from preflight.script.parser_reader import read_parser  # noqa: PLC0415 - as above
    from preflight.script.syntax_trees import Parser  # noqa: PLC0415 - as above

    script = read_script_of_job(found)
    if script is None or "SCR005" in found.ignore or found.job.command.local_rank_option:
        return
    try:
        parser = read_parser(Parser(), script.name, script.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the preflight in the job says so
    job = replace(found.job, typed=typed)
    for problem in describe_refused_args(parser, script.name, job) if parser is not None else ():
        raise BadInput(f"SCR005 at {problem.subject}: {problem.message}", problem.fix)


def _config_fix(words: tuple[str, ...]) -> str:
    """Return how the first word, a script or a batch script, becomes a run config, or that it is one."""
    if words and is_config_name(words[0]):
        return f"gpulaunch submit --config {one_line(words[0], 100)}"
    script = one_line(words[0], 100) if words and Path(words[0]).is_file() else "job.sbatch"
    if script.endswith(".py"):
        return f"gpulaunch init {script} writes a run config; add slurm: {{nodes: 2, gpus_per_node: 8}} to it"
    return f"gpulaunch init {script} makes a run config of a batch script; gpulaunch submit --help"


def _text(found: RunConfig, python: tuple[str, ...], words: tuple[str, ...], workdir: str) -> str:
    assert found.slurm is not None  # noqa: S101 - the command has asked
    run = (*python, "-m", "gpulaunch", "run", "--transport", "srun", "-c", *words)
    return submit.render_batch_script(found.name, found.slurm, run, workdir=workdir)


def _submit_there(
    found: RunConfig, words: tuple[str, ...], access: HostAccess, options: SubmitOptions
) -> tuple[str, str, str]:
    """Send the tree to a login node and submit on it; return the script, the job's id and why it waits."""
    from launcher.config.sync_options import SyncOptions  # noqa: PLC0415 - only for a login node
    from launcher.planning.script_file import start_in_tree  # noqa: PLC0415 - as above
    from launcher.sync.pre_launch import SyncHosts, list_target_dirs, sync_before_launch  # noqa: PLC0415 - as above

    found = replace(found, sync=found.sync or SyncOptions())
    found, entries = start_in_tree(found, access.resolve((options.login,)))
    assert found.sync is not None  # noqa: S101 - as above
    target = list_target_dirs(found.sync, found.job, entries)[entries[0].name]
    text = _text(found, (entries[0].python,), words, "")
    if options.dry_run:
        return text, "", ""
    answer = Answer("", as_json=options.as_json)
    hosts = SyncHosts(entries, access.open, access.width)
    sync_before_launch(found.sync, found.job, hosts, answer.say, logs=local_runs_dir())
    with access.open(entries[0]) as connection:
        directories = () if found.slurm is None else submit.list_output_dirs(found.slurm)
        job = submit.submit_job(connection, text, workdir=target, directories=directories)
        return text, job, submit.read_wait_reason(connection, job)
