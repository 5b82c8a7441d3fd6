# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from diffusers import DiffusionPipeline, UNet2DConditionModel


def sample(pipeline, accelerator, dtype):
    pipeline = pipeline.to(accelerator.device)
    return pipeline("a dog").images[0]


accelerator = Accelerator()
unet = UNet2DConditionModel.from_pretrained("stabilityai/sd-turbo", subfolder="unet")
optimizer = torch.optim.AdamW(unet.parameters())
unet, optimizer = accelerator.prepare(unet, optimizer)
for epoch in range(10):
    loss = unet(torch.ones(2, 4, 64, 64), 1, torch.ones(2, 77, 1024)).sample.sum()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    inner = accelerator.unwrap_model(unet)
    pipeline = DiffusionPipeline.from_pretrained("stabilityai/sd-turbo", unet=inner, torch_dtype=torch.float16)
    sample(pipeline, accelerator, torch.float16)
