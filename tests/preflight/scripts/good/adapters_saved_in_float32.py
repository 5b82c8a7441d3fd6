# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
from peft import LoraConfig


def save(accelerator, model):
    if accelerator.is_main_process:
        accelerator.unwrap_model(model).to(torch.float32).save_pretrained("o")


accelerator = Accelerator(mixed_precision="bf16")
unet = UNet2DConditionModel.from_pretrained("base", subfolder="unet", torch_dtype=torch.bfloat16)
unet.requires_grad_(False)
unet.add_adapter(LoraConfig(r=8, init_lora_weights="gaussian"))
optimizer = torch.optim.AdamW([p for p in unet.parameters() if p.requires_grad], lr=1e-4)
unet, optimizer = accelerator.prepare(unet, optimizer)
step = 0
for batch in range(1000):
    accelerator.backward(unet(batch).sample.mean())
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if step % 100 == 0:
        save(accelerator, unet)
