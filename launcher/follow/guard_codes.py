"""The codes that the guard in a rank reports: what each is about, why it matters, what helps."""

from typing import NamedTuple


class GuardCode(NamedTuple):
    """What `gpulaunch explain` says of one code."""

    summary: str
    reason: str
    fix: str


GUARD_CODES: dict[str, GuardCode] = {
    "G1": GuardCode(
        "The trained parameters do not fit the mixed precision.",
        'A GradScaler takes float32 parameters only ("Attempting to unscale FP16 gradients"). In pure fp16\n'
        "the first step of Adam divides by zero, and small updates of half-precision parameters are lost.",
        "load what is trained in float32 (dtype=torch.float32) and leave the rest to mixed precision.",
    ),
    "G2": GuardCode(
        "A gradient has another dtype than its parameter.",
        "Optimizers then fail, or compute in the coarser of the two.",
        "let autograd make the gradient; assign to .grad, not to .data.",
    ),
    "G3": GuardCode(
        "Parameters were cast since the optimizer made its state.",
        'Its next step fails with "expected dtype float for `end`", or computes with state of another dtype.',
        "cast a copy (copy.deepcopy(model)) for an evaluation or a save, not the model that trains.",
    ),
    "G4": GuardCode(
        "Loss, gradients or weights are NaN or infinite.",
        "Weights that are not finite stay so: all that is trained afterwards is lost. The message names the\n"
        "first bad step and the parameters.",
        "bf16 where the GPUs have it, a lower learning rate, gradient clipping, a look at that step's data.",
    ),
    "G5": GuardCode(
        "The GradScaler skips step after step, or its scale has fallen below 1.",
        "A skipped step trains nothing. A few at the start are normal, while it looks for its scale.",
        "bf16 where the GPUs have it, a lower learning rate, gradient clipping; if it does recover,\n"
        "GPULAUNCH_GUARD_SKIPS in `env` says how many skipped steps in a row are allowed (8).",
    ),
    "G6": GuardCode(
        "A rank is not on the GPU that was planned for it, or two are on one.",
        "Two ranks on one GPU run out of memory or at half speed, and NCCL refuses them.",
        "move the model to accelerator.device, not to a device that is written down in the script.",
    ),
    "G7": GuardCode(
        "Ranks differ in mixed precision, scaler, trained dtypes or library versions.",
        "DDP sums their gradients without an error, and the weights drift apart.",
        "one precision for all: let the launch decide it (`precision: auto`), and install the same versions.",
    ),
    "G8": GuardCode(
        "bf16 on a GPU below compute capability 8.0.",
        "This GPU emulates it: slowly, and kernels without a bf16 form fail later.",
        "use fp16 on that GPU, or leave it out with --gpus.",
    ),
    "G9": GuardCode(
        "Trained parameters get no gradient.",
        "They stay as they were, and the loss may fall all the same. With adapters all training is lost.",
        "see what is frozen, and whether the loss depends on them; with gradient checkpointing over a\n"
        "frozen base: model.enable_input_require_grads() or use_reentrant=False.",
    ),
    "R1": GuardCode(
        "A rehearsal was about to write into the real `output` folder.",
        "It is to leave nothing behind and to change nothing, so it ends before that happens.",
        'give the option another place in a rehearsal: `rehearse_args: [--output, "{scratch}/out"]`.',
    ),
}


def explain_guard(code: str) -> str:
    """Return what a code of the guard means."""
    row = GUARD_CODES[code]
    by = "a rehearsal" if code.startswith("R") else "the guard in a rank"
    return f"{code}: {row.summary}\n(reported by {by}; see docs/guard.md)\n\n{row.reason}\n\nFix: {row.fix}\n"
