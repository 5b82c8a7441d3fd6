"""The five field notes: where each ran, and what each line of defence must say of it."""

from dataclasses import dataclass, field

from tests.field_notes import scripts

MODEL = "MODEL"


@dataclass(frozen=True)
class Note:
    """One field note: its script, where it ran, and what each line of defence must say of it."""

    script: str
    corrected: str
    rule: str  # what lint calls it
    line: str  # the words on the faulty line
    precision: str
    guard: str
    step: int
    cause: tuple[str, ...]  # words of the guard's message or fix
    gpus: str = ""  # a profile of simulated GPUs; "" = CPU ranks
    shim: str = ""  # what it runs beside, of tests/shims, with LIGHT
    capability: str = ""  # of the GPUs, as torch reports it
    args: tuple[str, ...] = ()
    precision_args: dict[str, list[str]] = field(default_factory=dict)
    passed: tuple[str, ...] = ()  # what gpulaunch itself adds to the script's arguments
    ranks: int = 1

    @property
    def faulty_line(self) -> int:
        return 1 + self.script[: self.script.index(self.line)].count("\n")

    def words(self, model: str) -> list[str]:
        """Return the script's arguments, for a model that has been saved."""
        return [model if word == MODEL else word for word in self.args]


NOTES = {
    "0": Note(
        scripts.NOTE_0,
        scripts.NOTE_0_FIXED,
        rule="P101",
        line="torch_dtype=torch.float16",
        precision="fp16",
        guard="G1",
        step=1,
        cause=("Attempting to unscale FP16 gradients", "dtype=torch.float32"),
        shim="cpu_scaler known_models",
        args=(MODEL,),
    ),
    "1": Note(
        scripts.NOTE_1,
        scripts.NOTE_1_FIXED,
        rule="P101",
        line=".to(torch.float16)",
        precision="fp16",
        guard="G1",
        step=1,
        cause=("Attempting to unscale FP16 gradients", "0.weight"),
        gpus="titan-rtx",
        shim="pretended_gpus",
        capability="7.5",
        precision_args={"fp16": ["--fp16"], "bf16": []},
        passed=("--fp16",),
    ),
    "2": Note(
        scripts.NOTE_2,
        scripts.NOTE_2_FIXED,
        rule="P102",
        line="model.half()",
        precision="no",
        guard="G1",
        step=1,
        cause=("the weights become NaN in step 1", "lora_A"),
        shim="known_models",
        args=(MODEL,),
    ),
    "3": Note(
        scripts.NOTE_3,
        scripts.NOTE_3_FIXED,
        rule="P102",
        line="model.to(getattr",
        precision="no",
        guard="G1",
        step=1,
        cause=("pure fp16", "the weights become NaN in step 1"),
        gpus="p100",
        shim="pretended_gpus",
        capability="6.0",
    ),
    "4": Note(
        scripts.NOTE_4,
        scripts.NOTE_4_FIXED,
        rule="P111",
        line="model.to(torch.bfloat16)",
        precision="bf16",
        guard="G3",
        step=8,
        cause=("between step 7 and step 8", "expected dtype float for `end`"),
        gpus="2xl40s",
        shim="pretended_gpus",
        capability="8.9",
        ranks=2,
    ),
}
