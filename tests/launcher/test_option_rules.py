"""No option is ignored in silence: what excludes another one, or needs it, is refused by every command."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launcher.cli import run_command_line
from launcher.commands._launch_request import _in_step
from launcher.config.run_config import RunConfig
from launcher.errors import BadInput
from preflight.job import Job
from tests.launcher.typed_keys import typed

REFUSED = """\
preflight --prolog --json               | --prolog prints one line about this node: --json would
preflight --prolog --html x.html        | --html
preflight --prolog --jsonl              | --jsonl
preflight --prolog -c x                 | --config
preflight --prolog --gpus 0             | --gpus
preflight --prolog --port 29501 -v      | --port, --verbose
preflight --prolog --deep               | --deep
preflight --from HERE --deep            | --from judges files and asks no host: --deep would have no effect
preflight --from HERE --from-smi HERE   | --from-smi
preflight --from-smi HERE --max-age 1h  | --max-age
preflight --from HERE --transport ssh   | --transport
preflight --from-smi HERE --parallel 2  | --parallel
preflight --json -v                     | --json prints one document: --verbose would have no effect
preflight --jsonl -v                    | --jsonl prints documents
preflight --json --jsonl                | --json prints one document
preflight --facts                       | --facts has no effect without --json or --jsonl
preflight --seconds 3                   | --seconds has no effect without --deep
preflight --save-expect                 | --save-expect has no effect without --deep
run x.py --show-secrets                 | --show-secrets has no effect without --dry-run
rehearse x.py --grace 5                 | --grace
rehearse x.py --on-disconnect continue  | --on-disconnect
run x.py --no-restart --restarts 2      | --no-restart starts no failed run again
submit -c x --parallel 2                 | --parallel has no effect without --login
lint x.py --yes                         | --yes has no effect without --fix
lint x.py --fix --json                  | --fix shows a diff
lint x.py --json --sarif                | --json prints one document
lint x.py --cpu --capability 7.5        | --cpu judges for ranks without a GPU
stop x --now --grace 5                  | --now gives no time between SIGTERM and SIGKILL
logs x --json -f                        | --json prints one document
logs x --since 3s -n 4                  | --lines chooses where a log starts
fetch x --logs-only --path a            | --logs-only leaves out the output
prune a --forget --older-than 3d        | --forget forgets launches of any age
init --launch 2                         | --launch: only for a command
report --html - --json                  | --html - and --json would both be on standard output
"""


@pytest.mark.parametrize("row", REFUSED.splitlines())
def test_what_would_have_no_effect_is_refused(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, _, message = (part.strip() for part in row.partition("|"))
    argv = words.replace("HERE", __file__).split()
    assert run_command_line(argv) == 2
    said = capsys.readouterr()
    assert message in said.err.splitlines()[0]
    if "--json" in argv:
        assert json.loads(said.out)["exit_code"] == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keys": typed(on_disconnect="continue")}, "--on-disconnect continue: a run in a Slurm job ends"),
        ({"keys": typed(disconnect_timeout="1m")}, "--disconnect-timeout: a run in a Slurm job ends"),
        ({"sync": True}, "--sync: the nodes of a Slurm job are taken to have this directory"),
        ({}, ""),
    ],
    ids=str,
)
def test_in_a_slurm_job_what_would_have_no_effect_is_refused(given: dict[str, object], message: str) -> None:
    options = SimpleNamespace(**{"keys": {}, "sync": False, **given})
    said: str
    try:
        said = _in_step(
            RunConfig("a", Path("a.yaml"), Job(), ()), "17", cast("Any", options)
        ).disconnect.policy
    except BadInput as refused:
        said = refused.message
    assert said.startswith(message or "stop")


def test_a_command_without_its_dashes_is_shown_with_our_options_in_front(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "run torchrun --nproc_per_node 2 train.py --hosts a,b --gpus 4 --dry-run --lr 1"
    assert run_command_line(words.split()) == 2
    meant = "run --hosts a,b --dry-run -- torchrun --nproc_per_node 2 train.py --gpus 4 --lr 1"
    assert f"a command goes after --: gpulaunch {meant}\n" in capsys.readouterr().err
