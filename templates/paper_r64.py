"""LoRA rank-64 fine-tune of a small causal language model, with transformers' Trainer and peft.

Nothing is downloaded: the model is built from a small config, the text is made here, the tokenizer is trained
on it. The base stays in float32 and mixed precision comes from --fp16, --bf16 or the launcher, so that the
adapters' gradients can be unscaled. The number of optimizer steps is the same for every world size.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the libraries below are imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.tensorboard import SummaryWriter
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
)
from transformers.integrations import TensorBoardCallback

SAMPLES = 2500
TOKENS_PER_SAMPLE = 48
VOCABULARY = 512
RANK = 64
SEED = 64

WHO = ("the engineer", "a student", "the operator", "my colleague", "the reviewer", "an author")
DOES = ("checks", "trains", "measures", "repairs", "explains", "compares")
WHAT = ("the adapter", "a small model", "the gradient", "one checkpoint", "the scheduler", "a long log")
WHERE = ("on the first host", "in the lab", "after lunch", "before the deadline", "with great care", "again")


def main() -> None:
    """Train."""
    options = parse_options()
    warnings.filterwarnings("ignore", message="Setting `save_embedding_layers`")  # right, and meant
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    refuse_data_parallel(world_size)

    samples = make_samples()
    tokenizer = train_tokenizer(samples)
    dataset = [encode(tokenizer, samples, number) for number in range(SAMPLES)]
    model = build_model(len(tokenizer))
    arguments = training_arguments(options, world_size)
    print(f"rank {rank} of {world_size}: {arguments.device}", flush=True)

    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=dataset,
        data_collator=default_data_collator,
        processing_class=tokenizer,
    )
    if rank == 0:
        logs = str(Path(arguments.output_dir) / "logs")
        trainer.add_callback(TensorBoardCallback(SummaryWriter(log_dir=logs)))
    trainer.train(resume_from_checkpoint=options.resume_from_checkpoint)
    trainer.accelerator.wait_for_everyone()
    if world_size > 1 and arguments.device.type == "cpu":
        time.sleep(0.3)  # gloo's threads still release the last tensors; Python, ended meanwhile, would abort


def parse_options() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="paper_r64", help="name of the run; outputs go to output/NAME")
    parser.add_argument("--gpus", help="kept for old command lines: the launcher chooses the GPUs")
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--fp16", action="store_true", help="fp16 mixed precision")
    precision.add_argument("--bf16", action="store_true", help="bf16 mixed precision")
    parser.add_argument("--batch-size", type=int, default=8, help="samples per micro-batch")
    parser.add_argument(
        "--gradient-accumulation", type=int, default=8, help="micro-batches per step, over all ranks"
    )
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=0, help="stop after so many optimizer steps")
    parser.add_argument("--output", default="output", help="folder of all runs")
    parser.add_argument("--resume-from-checkpoint", metavar="DIR", help="go on from this checkpoint")
    return parser.parse_args()


def refuse_data_parallel(world_size: int) -> None:
    """Stop where one process sees several GPUs: Trainer would split each batch over all of them."""
    if world_size == 1 and "LOCAL_RANK" not in os.environ and torch.cuda.device_count() > 1:
        sys.exit(
            "several GPUs and no launcher: use `gpulaunch run --config paper_r64` or CUDA_VISIBLE_DEVICES=0"
        )


def make_samples() -> list[str]:
    """Return the training text: the same sentences on every rank, every time."""
    chance = random.Random(SEED)
    lines = []
    for _ in range(SAMPLES):
        sentences = (" ".join(chance.choice(words) for words in (WHO, DOES, WHAT, WHERE)) for _ in range(6))
        lines.append(". ".join(sentences) + ".")
    return lines


def train_tokenizer(samples: list[str]) -> PreTrainedTokenizerFast:
    """Return a byte-pair tokenizer trained on the samples."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(samples, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def encode(tokenizer: PreTrainedTokenizerFast, samples: list[str], number: int) -> dict[str, list[int]]:
    """Return one sample of exactly TOKENS_PER_SAMPLE tokens, filled up from the samples that follow it."""
    ids = [tokenizer.bos_token_id]
    while len(ids) < TOKENS_PER_SAMPLE:
        ids += tokenizer(samples[number % SAMPLES])["input_ids"]
        number += 1
    ids = ids[:TOKENS_PER_SAMPLE]
    return {"input_ids": ids, "labels": ids}


def build_model(vocabulary: int) -> torch.nn.Module:
    """Return the model in float32, its base frozen, with LoRA adapters of rank 64."""
    torch.manual_seed(SEED)  # the frozen base must be the same on every rank
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=TOKENS_PER_SAMPLE,
        use_cache=False,
    )
    lora = LoraConfig(
        r=RANK,
        lora_alpha=2 * RANK,
        target_modules=[
            "q_proj",
            "k_proj",
            "v_proj",
            "o_proj",
            "gate_proj",
            "up_proj",
            "down_proj",
            "lm_head",
        ],
        task_type="CAUSAL_LM",
    )
    return get_peft_model(LlamaForCausalLM(config), lora)


def share_of_a_step(batch_size: int, accumulation: int, world_size: int) -> tuple[int, int]:
    """Return each rank's (batch size, accumulation): all ranks together come closest to one step's samples.

    Exact where the world size divides the step's samples; 3 ranks take 3 x 7 x 3 = 63 of 64.
    """
    total = batch_size * accumulation
    lowest = max(1, min(batch_size // 4, total // world_size))
    choices = [(size, max(1, round(total / (size * world_size)))) for size in range(lowest, batch_size + 1)]
    return min(choices, key=lambda choice: (abs(choice[0] * choice[1] * world_size - total), -choice[0]))


def training_arguments(options: argparse.Namespace, world_size: int) -> TrainingArguments:
    """Return Trainer's arguments: the same optimizer steps and checkpoints for every world size."""
    steps_per_epoch = math.ceil(SAMPLES / (options.batch_size * options.gradient_accumulation))
    batch_size, accumulation = share_of_a_step(options.batch_size, options.gradient_accumulation, world_size)
    on_cpu = (
        os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
        or not torch.cuda.is_available()
    )
    return TrainingArguments(
        output_dir=str(Path(options.output) / options.config),
        max_steps=options.max_steps or options.epochs * steps_per_epoch,
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=accumulation,
        learning_rate=options.learning_rate,
        warmup_steps=4,
        fp16=options.fp16,
        bf16=options.bf16,
        use_cpu=on_cpu,
        save_strategy="steps",
        save_steps=steps_per_epoch,
        logging_steps=5,
        logging_first_step=True,
        report_to=[],  # main() adds TensorBoard with a folder of its own
        disable_tqdm=not sys.stderr.isatty(),
        ddp_find_unused_parameters=False,
        seed=SEED,
    )


if __name__ == "__main__":
    main()
