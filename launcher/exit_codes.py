"""The exit codes of gpulaunch: one table for the code, docs/exit-codes.md and the tests."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns. A rank's own exit code passes through `run`, `attach` and `rehearse`."""

    OK = 0
    NEGATIVE = 1
    USAGE = 2
    UNREACHABLE = 3
    VERIFICATION_FAILED = 4
    ABORTED = 5
    BUG = 70
    WAIT_TIMED_OUT = 75
    BAD_NODE = 77
    GUARD = 86
    HUNG = 124
    TERMINAL_CLOSED = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "fine",
    ExitCode.NEGATIVE: 'an answer that is not "fine"; see below',
    ExitCode.USAGE: "the command line, hosts.yaml or a run config is wrong,"
    " or a question needs an answer and stdin is not a terminal",
    ExitCode.UNREACHABLE: "a host that was needed could not be reached",
    ExitCode.VERIFICATION_FAILED: "the ranks were not what was planned; gpulaunch stopped the launch",
    ExitCode.ABORTED: "the run could not be completed: a host was lost or has nothing of it any more, no"
    " client followed it (`on_disconnect: stop`), the disk is full, a file is not writable",
    ExitCode.BUG: "a bug in gpulaunch; the traceback is in a file under `~/.local/state/gpulaunch/`, without"
    " arguments or environment",
    ExitCode.WAIT_TIMED_OUT: "the GPUs were not free within the time of"
    " [`run --wait`](reliability.md#waiting-for-gpus); nothing was started",
    ExitCode.BAD_NODE: "in a Slurm job: a node is bad and no spare takes its place;"
    " the line `BAD-NODES` says [what follows](slurm.md#a-bad-node)",
    ExitCode.GUARD: "the [guard](guard.md) inside a rank stopped what could not train",
    ExitCode.HUNG: "the run hung, and `--hang-timeout` [ended it](reliability.md#hangs)",
    ExitCode.TERMINAL_CLOSED: "the terminal was closed; a run that was followed"
    " [continues](reliability.md#a-client-that-is-gone)",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C or SIGTERM (with `on_disconnect: stop` also by SIGHUP),"
    " or by `gpulaunch stop` from elsewhere",
    ExitCode.BROKEN_PIPE: "the reader of the output went away",
}

NEGATIVE_MEANS: dict[str, str] = {
    "preflight": "something is critical or could not be checked, a host that could not be reached included",
    "run": "findings stop the launch",
    "bench": "something is slow, computes wrong or could not be measured, a GPU in use included",
    "rehearse": "it ran to its end, and something is not proven",
    "lint": "errors, or something was not judged",
    "clean-zombies": "something that may be ended still runs, or `--pid` names a rank, launcher or holder"
    " that may not be ended (another process: 2), or something could not be judged;"
    " with `--dry-run`, something could be ended",
    "stop": "something cannot be ended, or you said no",
    "stacks": "the run is over: it has no stacks any more",
    "fetch": "a file could not be read on the host, or no host has a `--path`",
    "rm": "the run is not over, a host refused, or you said no",
    "prune": "a host refused, or you said no",
}
"""What NEGATIVE means, by command; the others do not return it."""


def table() -> str:
    """Return the two tables of docs/exit-codes.md."""
    codes = "".join(f"| {code.value} | {text} |\n" for code, text in MEANINGS.items())
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in NEGATIVE_MEANS.items())
    return f"| code | means |\n| --- | --- |\n{codes}\n| command | 1 means |\n| --- | --- |\n{rows}"
