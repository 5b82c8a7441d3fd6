# target: capability=8.0 processes=4
"""Adapters that the class of a pipeline writes."""

import torch
from accelerate import Accelerator
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

accelerator = Accelerator()
unet = UNet2DConditionModel.from_pretrained("x")
unet.add_adapter(LoraConfig(r=4))
optimizer = torch.optim.AdamW(unet.parameters())
unet, optimizer = accelerator.prepare(unet, optimizer)
for step in range(300):
    accelerator.backward(unet(step).sum())
    optimizer.step()
    if step % 100 == 0:
        layers = get_peft_model_state_dict(unet)
        StableDiffusionPipeline.save_lora_weights("out", layers)  # expect: R405 warning
        StableDiffusionPipeline.save_lora_weights("out", layers, is_main_process=accelerator.is_main_process)
        if accelerator.is_main_process:
            StableDiffusionPipeline.save_lora_weights("out", layers)
