"""What a training script was found to do, by reading it; it is never executed."""

from typing import Literal, TypeAlias

from preflight.frozen import dataclass

Style: TypeAlias = Literal["trainer", "trl", "accelerate", "torch", "unknown"]

OptionValue: TypeAlias = str | int | float | bool | None

LIBRARIES = ("accelerate", "trl", "lightning", "pytorch_lightning", "deepspeed")
"""Libraries whose import says which launcher a script is for."""


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A place in a script, for messages: `train.py:31`."""

    path: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class PrecisionSite:
    """A place where the script itself says which mixed precision it wants.

    `value` is what it says: "no", "fp16", "bf16", "fp8"; "" when it is computed and reading cannot know it.
    `binding` True: no flag can change it (a literal in `Accelerator(...)`, `fp16=True` in TrainingArguments).
    False: it says what the launch may decide (`Accelerator()`, `mixed_precision=args.mixed_precision`).
    """

    place: CodeLocation
    call: str  # "Accelerator", "TrainingArguments", "SFTConfig", ...
    value: str
    binding: bool
    option: str = ""  # the command-line option that feeds it, e.g. "--mixed_precision", where one was found
    why: str = ""  # when the value is not written in the script: "trl's default is bf16"


@dataclass(frozen=True, slots=True)
class Option:
    """A command-line option of the script that looks like a precision switch."""

    flag: str  # "--fp16"
    precision: str  # what giving it means: "fp16" for a store_true --fp16; "" when its value says so
    takes_value: bool  # False: store_true
    choices: tuple[str, ...] = ()  # empty: any
    default: str = ""  # "" when None or not known


@dataclass(frozen=True, slots=True)
class LightningSize:
    """How many processes a Trainer or Fabric of Lightning is to be."""

    place: CodeLocation
    call: str  # "Trainer", "Fabric"
    devices: int  # on each node; -1: as many as the node has, 0: computed, and not known
    nodes: int  # 0: not known
    on_cpu: bool


@dataclass(frozen=True, slots=True)
class ServiceUse:
    """A call that needs a login to a service, or a repository of Hugging Face's hub that is gated."""

    place: CodeLocation | None  # None: the launch's arguments name it
    service: str  # of LOGINS of the probes
    what: str  # "wandb.init", "meta-llama/Llama-3.1-8B"
    first_rank: bool = False  # rank 0 alone calls it


@dataclass(frozen=True, slots=True)
class ParserArgument:
    """One `add_argument`: an option, or a positional argument where no name starts with a dash."""

    place: CodeLocation
    names: tuple[str, ...]
    action: str = "store"  # as argparse spells it; "boolean" is BooleanOptionalAction
    kind: str = ""  # "int", "float" or "str" as Python converts them; "": any text may be right
    nargs: int | str | None = None
    choices: tuple[OptionValue, ...] | None = None  # None: any, or not known
    required: bool = False
    default: OptionValue = None
    group: int = 0  # of the options that exclude each other; 0: none

    @property
    def shown(self) -> str:
        """The name that messages have."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


@dataclass(frozen=True, slots=True)
class ScriptParser:
    """The parser that every start of the script reaches, with the whole command line."""

    place: CodeLocation  # of parse_args, or of what else calls it
    arguments: tuple[ParserArgument, ...]
    required_groups: tuple[int, ...] = ()  # of which one option must be given
    groups: int = 0  # their number
    add_help: bool = True
    allow_abbrev: bool = True
    by: str = ""  # whose it is: "hydra.main", "fire.Fire", "tyro.cli"; "": argparse's


@dataclass(frozen=True, slots=True)
class ScriptAnalysis:
    """All that the planner wants to know about a script. Evidence is `file:line: text`, "" when none.

    `trained_dtype` is the dtype of the parameters that are trained: "checkpoint" when it comes from the
    checkpoint's own config.json (transformers >= 5 without `dtype=`), "" when reading does not show it.
    """

    path: str
    style: Style
    places_device: str  # evidence that every rank sets its device from LOCAL_RANK before it uses CUDA
    precision: tuple[PrecisionSite, ...]
    options: tuple[Option, ...]
    own_scaler: str = ""  # evidence of its own GradScaler
    own_autocast: str = ""
    trained_dtype: Literal["", "float32", "float16", "bfloat16", "checkpoint"] = ""
    trained_dtype_evidence: str = ""
    manages_precision: str = ""  # DeepSpeed / FSDP: evidence that something else keeps fp32 masters
    style_evidence: str = ""
    reads_rank: str = ""  # evidence that it is written for a launcher: it reads LOCAL_RANK, or joins a group
    imports: tuple[str, ...] = ()  # those of `LIBRARIES` that its own text imports
    refuses_local_rank: str = ""  # evidence that its own parser ends it where it gets --local_rank
    classes: tuple[str, ...] = ()  # that it and its own modules define
    reads_all: bool = False  # all of it was read, and every module of its own that it imports
    without_torch: bool = False  # all of it was read, and nothing that it imports uses torch
    lightning: tuple[LightningSize, ...] = ()
    services: tuple[ServiceUse, ...] = ()  # that it surely calls
    parser: ScriptParser | None = None  # None: reading does not prove what its own parser takes
    problem: str = ""  # why the script could not be read (syntax error), "" when it was
