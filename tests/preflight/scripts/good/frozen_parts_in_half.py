# target: processes=2 launch=fp16
import copy

import torch
from accelerate import Accelerator
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextModel

accelerator = Accelerator()
weight_dtype = torch.float32
if accelerator.mixed_precision == "fp16":
    weight_dtype = torch.float16
elif accelerator.mixed_precision == "bf16":
    weight_dtype = torch.bfloat16
vae = AutoencoderKL.from_pretrained("m")
text = CLIPTextModel.from_pretrained("m", torch_dtype=torch.float16)
unet = UNet2DConditionModel.from_pretrained("m")
vae.requires_grad_(False)
text.requires_grad_(False)
vae.to(accelerator.device, dtype=weight_dtype)
text.to(accelerator.device, dtype=weight_dtype)
optimizer = torch.optim.AdamW(unet.parameters())
unet, optimizer = accelerator.prepare(unet, optimizer)
for batch in range(4):
    latents = vae.encode(batch.to(dtype=weight_dtype)).latent_dist.sample()
    accelerator.backward(unet(latents.half()).sum())
    optimizer.step()
    ema = copy.deepcopy(accelerator.unwrap_model(unet)).half()
    if accelerator.is_main_process:
        ema.save_pretrained("out")
