import deepspeed
import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel


def log_validation(pipeline):
    with torch.autocast("cuda"):
        return pipeline("a cat").images[0]


unet = UNet2DConditionModel.from_pretrained("x")
engine, optimizer, _, _ = deepspeed.initialize(model=unet, config="ds.json")
for batch in range(10):
    loss = engine(batch)
    engine.backward(loss)
    engine.step()
    log_validation(StableDiffusionPipeline.from_pretrained("x"))
