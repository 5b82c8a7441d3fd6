# target: capability=8.0 processes=2
import torch
from accelerate import Accelerator
from diffusers import StableDiffusionPipeline, UNet2DConditionModel

accelerator = Accelerator()
unet = UNet2DConditionModel.from_pretrained("base", subfolder="unet")
optimizer = torch.optim.AdamW(unet.parameters())
unet, optimizer = accelerator.prepare(unet, optimizer)
for step in range(100):
    accelerator.backward(unet(torch.ones(4, 4)).sample.sum())
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0 and accelerator.is_main_process:
        painter = StableDiffusionPipeline.from_pretrained("base", unet=accelerator.unwrap_model(unet))
        with torch.autocast("cuda"):
            painter.to(accelerator.device)("a cat").images[0].save(f"{step}.png")
