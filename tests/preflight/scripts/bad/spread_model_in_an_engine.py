# target: capability=8.0 processes=4
import deepspeed
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("x", device_map="auto")  # expect: D204 error
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
other = AutoModelForCausalLM.from_pretrained("x", device_map="auto")  # expect: D204 error
sharded = FSDP(module=other)
for batch in range(10):
    engine.backward(engine(batch).loss)
    engine.step()
