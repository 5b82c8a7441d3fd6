# target: capability=8.0 processes=4
import time
from datetime import date, datetime

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from data import dataset

PartialState()
started = datetime.now().strftime("%Y%m%d-%H%M%S")
names = [f"runs/{started}"]
broadcast_object_list(names)
output = names[0]
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments(output_dir=output, bf16=True), train_dataset=dataset()).train()
TrainingArguments(output_dir=f"runs/{date.today()}", run_name=f"at {datetime.now()}", bf16=True)
TrainingArguments(output_dir="runs/" + time.strftime("%Y%m%d"), bf16=True)
