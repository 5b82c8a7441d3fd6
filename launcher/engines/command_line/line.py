"""A line while it is read: what has been found so far."""

from collections.abc import Sequence

from launcher.engines.command_line.option_reader import Found
from launcher.engines.command_line.options import Option
from launcher.engines.command_line.records import Environment, OptionUse
from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused

_RANK = "ranks and addresses are the plan's"
VARIABLES: dict[str, Option] = {
    option.name: option
    for option in (
        Option("CUDA_VISIBLE_DEVICES", "owned", "asked for as GPUs of each host", kind="gpus", sets="gpus"),
        Option("MASTER_ADDR", "owned", "the plan takes the first host's address", sets="main_address"),
        Option("MASTER_PORT", "owned", "asked for as the main port", kind="int", sets="main_port"),
        Option("NNODES", "owned", "the hosts are those of --hosts", kind="nodes", sets="nodes"),
        Option(
            "NPROC_PER_NODE",
            "owned",
            "the plan counts the processes of each host",
            kind="per_node",
            sets="per_node",
        ),
        Option("PET_NNODES", "owned", "the hosts are those of --hosts", kind="nodes", sets="nodes"),
        Option(
            "PET_NPROC_PER_NODE",
            "owned",
            "the plan counts the processes of each host",
            kind="per_node",
            sets="per_node",
        ),
        Option(
            "ACCELERATE_MIXED_PRECISION",
            "owned",
            "asked for as precision",
            kind="precision",
            sets="precision",
        ),
        *(
            Option(name, "owned", _RANK)
            for name in (
                *(
                    "RANK",
                    "LOCAL_RANK",
                    "WORLD_SIZE",
                    "LOCAL_WORLD_SIZE",
                    "NODE_RANK",
                    "GROUP_RANK",
                    "CUDA_DEVICE_ORDER",
                ),
                *("PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ID", "PET_RDZV_BACKEND"),
                *("PET_RDZV_ENDPOINT", "ACCELERATE_USE_CPU", "GPULAUNCH_RUN_ID"),
            )
        ),
    )
}
"""Environment variables in front of a command that the plan replaces."""


class Line:
    """Collects what wrappers, prefixes and the launcher of one line ask for."""

    def __init__(self, words: tuple[Word, ...]) -> None:
        self.words = words
        self.found: list[Found] = []
        self.env: dict[str, str] = {}
        self.unset: list[str] = []
        self.forwarded: list[str] = []
        self.environment: Environment | None = None
        self.directory = ""
        self.dropped: list[str] = []
        self.prefix = ""

    def assign(self, position: int, name: str, value: Word) -> None:
        """Take an environment assignment: owned by the plan, or a variable of the ranks.

        Raises CommandRefused for a variable of the ranks that has no value yet.
        """
        option = VARIABLES.get(name)
        if option is not None:
            use = OptionUse(name, name, (value.text,), position, 1, "environment", option.why)
            self.found.append(Found(option, use, (value,)))
            return
        require_known(value, f"the variable {name}")
        self.env[name] = value.text

    def enter(self, environment: Environment | None, directory: str) -> None:
        """Take the environment and directory that a wrapper enters; the innermost counts."""
        self.environment = environment or self.environment
        self.directory = directory or self.directory


def require_known(word: Word, where: str) -> None:
    """Raise CommandRefused for a word that a shell or a person would still have to fill in."""
    if not word.is_known:
        raise without_values((word,), where)


def without_values(words: Sequence[Word], where: str) -> CommandRefused:
    """Return the error for words without values, each part that lacks one named once."""
    parts = tuple(dict.fromkeys(part for word in words for part in word.unresolved))
    they = "them" if len(parts) > 1 else "it"
    are_variables = all(part.startswith("$") and not part.startswith("$(") for part in parts)
    return CommandRefused(
        f"{where} has {', '.join(parts)}, which {'have' if len(parts) > 1 else 'has'} no value",
        f"export {they}, or write the value" if are_variables else f"write a value for {they}",
    )
