# target: launch=fp16
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel, AutoencoderKL
def main():
    accelerator = Accelerator(mixed_precision="fp16")
    unet = UNet2DConditionModel.from_pretrained("x", subfolder="unet")
    vae = AutoencoderKL.from_pretrained("x", subfolder="vae")
    vae.requires_grad_(False)
    weight_dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        weight_dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        weight_dtype = torch.bfloat16
    vae.to(accelerator.device, dtype=weight_dtype)
    unet.to(accelerator.device, dtype=weight_dtype)  # expect: P101 error
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
    unet, optimizer = accelerator.prepare(unet, optimizer)
    for batch in get_loader():
        with accelerator.accumulate(unet):
            loss = unet(batch).sum()
            accelerator.backward(loss)
            optimizer.step()
main()
