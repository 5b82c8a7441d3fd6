"""`restart:` of a run config: how often a run that failed is started again, and how."""

from typing import Literal

from launcher.config.value_types import (
    HOST_WORDS,
    SCALAR,
    Field,
    Keyword,
    ListOf,
    Section,
    Text,
    boolean,
    duration,
    integer,
)
from launcher.config.yaml_tree import ConfigIssues, YamlNode, hint_nearest
from preflight import regex as re
from preflight.diagnosis.failure_category import CATEGORIES, PERMANENT, FailureCategoryName
from preflight.frozen import dataclass

CHECKPOINT = "{checkpoint}"
DEFAULT_MAX = 3
DEFAULT_BACKOFF_S = 10.0
MAX_BACKOFF_S = 300.0
CHECKPOINTS = ("checkpoint-*", "checkpoints/checkpoint_*")
"""As transformers' Trainer and accelerate's ProjectConfiguration name them."""

_BRACES = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class RestartOptions:
    """What `restart:` says."""

    max: int = DEFAULT_MAX
    exclude_failed_hosts: bool = True
    spares: tuple[str, ...] = ()  # words for Inventory.resolve
    resume_args: tuple[str, ...] = ()  # {checkpoint} is filled in; only where there is a checkpoint
    checkpoints: tuple[str, ...] = CHECKPOINTS  # below output, or the working directory where there is none
    checkpoint_on: Literal["every", "main"] = "every"  # host that must have it
    # Natures of failure that are tried again although they last.
    retry_on: tuple[FailureCategoryName, ...] = ()
    backoff_s: float = DEFAULT_BACKOFF_S

    def is_retryable(self, nature: FailureCategoryName) -> bool:
        """Whether a failure of this nature is worth another start."""
        return CATEGORIES[nature].retryable or nature in self.retry_on

    def backoff_before(self, restarts: int) -> float:
        """Return how long to wait before the next start; twice as long each time, up to a limit."""
        return min(self.backoff_s * 2.0 ** min(restarts, 16), max(self.backoff_s, MAX_BACKOFF_S))


# fmt: off
RESTART_KEYS: tuple[Field, ...] = (
    Field("max", integer(0, 1000), "How many times at most; 0: never.", "2", str(DEFAULT_MAX)),
    Field("exclude_failed_hosts", boolean(),
          "Continue without a host or GPU that has gone bad; false: on all of them or not at all.", "false",
          "true"),
    Field("spares", HOST_WORDS, "Hosts that take the places of bad ones, in this order.", '["l40s-[03-04]"]'),
    Field("resume_args", ListOf(SCALAR),
          "Arguments added when there is a checkpoint to resume from; `{checkpoint}` is its path.",
          '["--resume_from_checkpoint", "{checkpoint}"]'),
    Field(
        "checkpoints",
        ListOf(
            Text(
                "a pattern such as checkpoint-*, below output", r"(?!.*(?:^|/)\.\.(?:/|$))[^\x00-\x1f\x7f]+"
            ),
            allow_scalar=True,
        ),
        "Where the script's own checkpoints lie, below `output` (or workdir); the last whole one is taken.",
        '["step_*"]',
        ", ".join(CHECKPOINTS),
    ),
    Field("checkpoint_on", Keyword(("every", "main")),
          "Hosts that must see the checkpoint; main: only rank 0's, if the script loads it on rank 0 alone.",
          "main", "every"),
    Field("retry_on", ListOf(Keyword(PERMANENT), allow_scalar=True),
          "Kinds of failure that are tried again although they would only happen again.", "[oom]"),
    Field("backoff_s", duration(),
          "How long to wait before the first restart; twice as long before each next one.", "30s",
          f"{DEFAULT_BACKOFF_S:g}s"),
)
# fmt: on


def _refuse_other_braces(entries: dict[str, YamlNode], mistakes: ConfigIssues) -> None:
    """Find {ckpt} and {chekpoint}: nothing would fill them in."""
    args = entries.get("resume_args")
    for part in args.value if args is not None and isinstance(args.value, tuple) else ():
        for name in _BRACES.findall(part.text):
            if name != "checkpoint":
                near = hint_nearest(name, ("checkpoint",)) or f"; only {CHECKPOINT} is"
                mistakes.add(part, f"{{{name}}} is not filled in{near}")


RESTART = Section(
    RESTART_KEYS,
    "a mapping of max, spares, resume_args, checkpoints, checkpoint_on, retry_on, backoff_s and so on",
    make=RestartOptions,
    judge=_refuse_other_braces,
)
