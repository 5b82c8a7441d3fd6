# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from images import load_images

accelerator = Accelerator()
noise = DDPMScheduler()
model = UNet2DModel(sample_size=64)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, images = accelerator.prepare(model, optimizer, load_images())

for epoch in range(50):
    for batch in images:
        accelerator.backward(model(batch["noisy"], batch["t"]).sample.pow(2).mean())
        optimizer.step()
        optimizer.zero_grad()
    inside = accelerator.unwrap_model(model)
    if accelerator.is_main_process:
        DDPMPipeline(unet=inside, scheduler=noise).save_pretrained("ddpm")
