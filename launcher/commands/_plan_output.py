"""What `run --dry-run` prints: the plan, why, and what a pasted command becomes."""

from launcher.commands._launch_request import LaunchOptions, RunRequest
from launcher.commands._preflight_report import shorten_error
from launcher.engines.command_line.parsed_command import explain_missing_value
from launcher.errors import GpulaunchError
from launcher.host_checks.render_json import encode_preflight
from launcher.launch.launch import CheckedLaunch
from launcher.report.command import encode_command, render_command, without_edits
from launcher.report.plan import encode_plan, render_plan
from launcher.report.restarts import describe_unattended_restart, encode_restart_policy, render_restart_policy
from launcher.terminal.output import echo_json, echo_lines, echo_text


def show_plan(prepared: CheckedLaunch, request: RunRequest, options: LaunchOptions) -> int:
    """Print the plan, also where findings stop it; those are raised then."""
    spec, spares, as_json = request.config.restart, request.spares, options.as_json
    pasted = request.config.command
    refusal = prepared.refusal() or (explain_missing_value(pasted) if pasted is not None else None)
    try:
        plan = prepared.plan()
    except GpulaunchError as error:
        result = prepared.result
        raise shorten_error(error, result).with_document(encode_preflight(result)) from None
    secrets = options.show_secrets
    policy = None if spec is None else encode_restart_policy(spec, spares, show_secrets=secrets)
    document = {**encode_plan(plan, show_secrets=secrets), "restart": policy}
    document["left_out_hosts"] = dict(request.left_out)
    if pasted is not None:
        document["command"] = encode_command(pasted, plan, show_secrets=secrets)
    if as_json and refusal is None:
        echo_json({**document, "exit_code": 0})
    elif not as_json:
        if pasted is not None:
            echo_lines(render_command(pasted, plan, show_secrets=secrets))
            plan = without_edits(pasted, plan)
        text = render_plan(plan, show_secrets=secrets, verbose=options.verbose)
        echo_text(text)
        if spec is not None:
            lone = describe_unattended_restart(len(plan.nodes), continues=request.config.disconnect.continues)
            echo_lines(("", *render_restart_policy(spec, spares, show_secrets=secrets), lone))
        also = [f"{option} {what}" for option, given, what in _list_steps(options) if given]
        echo_lines(("", f"in a launch: {'; '.join(also)}") if also else ())
    if refusal is not None:
        raise refusal.with_document(document)
    return 0


def _list_steps(options: LaunchOptions) -> tuple[tuple[str, object, str], ...]:
    """Return the options that add something to a launch and nothing to its plan, and what they add."""
    return (
        ("--clean", options.clean, "first ends what is left over of dead runs of yours"),
        ("--wait", options.wait, "waits where GPUs are in use"),
        ("--deep", options.deep, "measures every free GPU and the links"),
        ("--rehearse", options.rehearse, "rehearses a few steps"),
        ("--detach", options.detach, "leaves once the ranks are as planned"),
    )
