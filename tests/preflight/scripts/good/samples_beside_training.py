# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from diffusers import DiffusionPipeline, UNet2DConditionModel

accelerator = Accelerator()
unet = UNet2DConditionModel.from_pretrained("x", subfolder="unet")
optimizer = torch.optim.AdamW(unet.parameters())
unet, optimizer = accelerator.prepare(unet, optimizer)
for epoch in range(3):
    accelerator.backward(unet(epoch).loss)
    optimizer.step()
    if accelerator.is_main_process:
        pipeline = DiffusionPipeline.from_pretrained("x", unet=accelerator.unwrap_model(unet))
        with torch.autocast("cuda"):
            images = [pipeline("a cat").images[0] for _ in range(4)]
