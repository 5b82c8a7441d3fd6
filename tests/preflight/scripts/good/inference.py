# target: processes=1
import torch
from transformers import AutoModelForCausalLM, pipeline

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16, device_map="auto").half().cuda()
with torch.autocast("cuda"):
    model.generate()
pipeline("text-generation", model=model, device=0)
