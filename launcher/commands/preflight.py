"""gpulaunch preflight: the command line. The body is imported when it is called."""

from typing import Any

import click

from launcher.commands import _host_options, _param_types
from launcher.commands._answer import json_option
from launcher.commands._deep_options import add_deep_options, deep_flag
from launcher.commands._option_rules import forbid_together, require_another

_OF_HOSTS = "--deep --max-age --transport --identity-file --accept-new-host-keys --parallel"


@click.command()
@_host_options.add_hosts_argument
@_param_types.config_option("Judge for this run config (a name or a path).")
@_param_types.gpus_option
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="N", help="Main port, instead of the config's or 29500."
)
@click.option("--precision", type=_param_types.PrecisionParam(), help="Mixed precision to judge for.")
@_param_types.ignore_option
@_param_types.flag("--separately", "Judge each host for itself, not all as one launch.")
@json_option
@_param_types.flag(
    "--jsonl", "as_jsonl", "Print a line of JSON for each host as it answers, and one for all."
)
@_param_types.flag("--facts", "With --json or --jsonl: everything that was read, too.")
@click.option(
    "--html",
    "page",
    type=_param_types.page_param,
    metavar="FILE",
    help="Write a page to look at, too: one file, no network; - is standard output, for the page alone.",
)
@_param_types.flag("-v", "--verbose", "Show what was read, and all information.")
@click.option(
    "--from",
    "recordings",
    multiple=True,
    type=_param_types.LocalPathParam(exists=True, dir_okay=False),
    help="Judge facts saved by `gpulaunch record` instead of asking a host; with -i by what that expects.",
)
@click.option(
    "--from-smi",
    "smi_files",
    multiple=True,
    type=_param_types.LocalPathParam(exists=True, dir_okay=False, allow_dash=True),
    help="Judge a saved `nvidia-smi -q -x` (or -q, a table, a CSV; - is stdin), of one host or several.",
)
@_param_types.flag("--prolog", "Only the health of this node: one line, exit code 0 or 1, less than 10 s.")
@_host_options.max_age_option
@deep_flag
@add_deep_options
@_host_options.transport_option
@_host_options.add_host_options
@forbid_together(
    "--prolog",
    "--html --json --jsonl --facts --from --from-smi --config --gpus --port --precision --separately"
    " --verbose --transport --deep --max-age",
    "prints one line about this node",
)
@forbid_together("--from", f"--from-smi {_OF_HOSTS}", "judges files and asks no host")
@forbid_together("--from-smi", _OF_HOSTS, "judges files and asks no host")
@forbid_together("--json", "--jsonl --verbose", "prints one document")
@forbid_together("--jsonl", "--verbose", "prints documents")
@require_another("--facts", "--json --jsonl")
@require_another("--seconds --step-timeout --save-expect", "--deep")
def command(hosts: tuple[str, ...], **given: Any) -> int:
    """Check HOSTS before a launch (default: the config's hosts, else localhost). Changes nothing on them.

    Several hosts are judged as one launch, the first being the main host. Exit code 0: nothing stops a launch
    and nothing was left unchecked; 1: something does, or could not be checked.
    """
    from launcher.commands._preflight import run_preflight  # noqa: PLC0415 - --help needs none of it
    from launcher.commands._preflight_options import PreflightCommandOptions  # noqa: PLC0415 - as above

    return run_preflight(hosts, PreflightCommandOptions(**given))
