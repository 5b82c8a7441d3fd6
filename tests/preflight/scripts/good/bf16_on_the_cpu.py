# target: capability=7.5
import lightning as L
from accelerate import Accelerator
from transformers import Trainer, TrainingArguments

from mine import Net

accelerator = Accelerator(cpu=True, mixed_precision="bf16")  # expect: P122 info
trainer = Trainer(args=TrainingArguments(output_dir="out", bf16=True, use_cpu=True))
L.Trainer(accelerator="cpu", precision="bf16-mixed").fit(Net())
