# target: capability=8.0 transformers=5.24 peft=0.21 accelerate=1.15 trl=0.20
from accelerate import Accelerator
from peft import prepare_model_for_int8_training  # expect: V304 error
from transformers import AdamW, Trainer, TrainingArguments  # expect: V304 error
from trl import SFTConfig, SFTTrainer

accelerator = Accelerator(logging_dir="logs")  # expect: V301 error
arguments = TrainingArguments(
    "out",
    overwrite_output_dir=True,  # expect: V301 error
    warmup_ratio=0.1,  # expect: V301 error
)
config = SFTConfig("out", max_seq_length=512)  # expect: V301 error
trainer = SFTTrainer("model", config, packing=True)  # expect: V301 error
