# target: processes=8
import os

from accelerate import PartialState
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

device_map = "auto"
if int(os.environ.get("WORLD_SIZE", 1)) != 1:
    device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}
model = AutoModelForCausalLM.from_pretrained("m", dtype="float32", device_map=device_map)
other = AutoModelForCausalLM.from_pretrained("m", device_map={"": PartialState().process_index})
trainer = SFTTrainer(model, args=SFTConfig("o", bf16=False), processing_class=object())
trainer.train()
merged = AutoModelForCausalLM.from_pretrained("m", device_map="auto", torch_dtype="float16")
merged.generate()
