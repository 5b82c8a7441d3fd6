"""gpulaunch run: check the hosts, launch the training on all of them, follow it to its end."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from launcher.commands.reaching import reaching, reaching_options
from launcher.config import Overrides, RunConfig, load_run_config
from launcher.errors import GpulaunchError
from launcher.preflighting import PreflightResult
from launcher.rehearsal import rehearse
from launcher.rehearsing.kept import fingerprint, keep, standing
from launcher.report.findings import report_lines
from launcher.report.plan import plan_json, plan_text
from launcher.report.preflight_json import preflight_json
from launcher.report.rehearsal import rehearsal_json, rehearsal_lines
from launcher.report.run import Screen, outcome_json, outcome_lines
from launcher.report.text import wants_colour
from launcher.run import DEFAULT_GRACE_S, Launch, Prepared, ask, carry_out, check, entries_here
from launcher.running.connections import Connections
from launcher.sending import sent_script


@click.command("run")
@click.option("-c", "--config", "config", required=True, help="Run config: a name, or a path to a YAML file.")
@click.option("--hosts", multiple=True, metavar="WORDS", help="Names, ranges, groups or all; repeatable.")
@click.option("--gpus", default="", help="all, none, auto, a count per host, or a list of indices or UUIDs.")
@click.option("--port", default="", help="Main port to ask for; another free one is taken when it is busy.")
@click.option("--precision", default="", help="auto, no, fp16, bf16 or fp8.")
@click.option("--guard", default="", help="What the guard in each rank does: stop, warn or off.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a key of the run config.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Findings that shall not stop the launch.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the plan and why; start nothing.")
@click.option("--rehearse", is_flag=True, help="Rehearse a few steps first; run only if all is proven.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; all else goes to stderr.")
@click.option("-d", "--detach", is_flag=True, help="Leave once the ranks are as planned; the run goes on.")
@click.option(
    "--grace",
    type=click.FloatRange(3, 86400),
    default=DEFAULT_GRACE_S,
    show_default=True,
    help="Seconds the run goes on without us when the connection breaks.",
)
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gpulaunch-runs"),
    show_default=True,
    help="Where each rank's full log is kept here.",
)
@reaching_options
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
def command(config: str, extra: tuple[str, ...], **options: Any) -> int:
    """Check the hosts, launch the training on all of them, and follow it to its end.

    EXTRA arguments (after --) are added to the script's. The exit code is the first failing rank's;
    1: findings stopped the launch; 3: a host could not be reached; 4: the ranks were not as planned; 5: the
    run could not be carried through; 130: Ctrl-C (once: SIGTERM everywhere, twice: SIGKILL).
    """
    run_config, launch = launch_of(config, extra, options)
    try:
        return _run(
            run_config,
            launch,
            dry_run=options["dry_run"],
            as_json=options["as_json"],
            rehearse_first=options["rehearse"],
        )
    finally:
        launch.connections.close()


def launch_of(config: str, extra: tuple[str, ...], options: dict[str, Any]) -> tuple[RunConfig, Launch]:
    """Return the run config and the launch that the options of `run` and `rehearse` describe."""
    overrides = Overrides(
        sets=options["sets"],
        hosts=options["hosts"],
        gpus=options["gpus"],
        port=options["port"],
        precision=options["precision"],
        guard=options["guard"],
        extra_args=extra,
    )
    run_config = load_run_config(config, overrides)
    ways = reaching(
        options["inventory"],
        accept_new_host_keys=options["accept_new_host_keys"],
        parallel=options["parallel"],
    )
    return run_config, Launch(
        entries=entries_here(ways.inventory.resolve(run_config.hosts), run_config.job),
        job=run_config.job,
        connections=Connections(ways.open),
        sent=sent_script(run_config),
        ignore=_codes(options["ignore"]),
        grace_s=options["grace"],
        logs=options["logs"],
        width=ways.width,
        detach=options.get("detach", False),
    )


def _run(config: RunConfig, launch: Launch, *, dry_run: bool, as_json: bool, rehearse_first: bool) -> int:
    screen = Screen(sys.stderr if as_json else sys.stdout)
    told: list[PreflightResult] = []

    def on_result(result: PreflightResult) -> None:
        told.append(result)
        for line in report_lines(result, colour=wants_colour(screen.stream)):
            screen.show(line)

    try:
        prepared = (ask if dry_run else check)(launch, on_result)
    except Exception:
        if as_json and told:
            _print(preflight_json(told[0]))
        raise
    if dry_run:
        return _show_plan(prepared, as_json=as_json)
    if rehearse_first and not rehearsed_well(config, launch, screen):
        screen.say("nothing was started: the rehearsal has not proven this run", bad=True)
        return 1
    words = standing(config.path, fingerprint(launch.job, prepared.result.facts, launch.sent))
    if words:
        screen.say(words, bad="rehearse again" in words or "not prove" in words)
    outcome = carry_out(prepared, screen)
    for line in outcome_lines(outcome):
        screen.say(line, bad=outcome.exit_code != 0)
    if as_json:
        _print(outcome_json(outcome))
    return outcome.exit_code


def _show_plan(prepared: Prepared, *, as_json: bool) -> int:
    """Print the plan, also where findings stop it; those are raised then."""
    refusal = prepared.refusal()
    try:
        plan = prepared.plan()
    except GpulaunchError:
        if as_json:
            _print(preflight_json(prepared.result))
        raise
    if as_json:
        _print(plan_json(plan))
    else:
        click.echo(plan_text(plan), nl=False)
    if refusal is not None:
        raise refusal
    return 0


def rehearsed_well(config: RunConfig, launch: Launch, screen: Screen) -> bool:
    """Rehearse before a run; keep the proof."""
    done = rehearse(launch, lambda _: None, screen)
    for line in rehearsal_lines(done, launch.job):
        screen.show(line)
    keep(config.path, rehearsal_json(done, config.name))
    return done.verdict.proven


def _print(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=1))


def _codes(words: tuple[str, ...]) -> frozenset[str]:
    """Return the codes of --ignore, given together or one by one."""
    return frozenset(code.strip().upper() for word in words for code in word.split(",") if code.strip())
