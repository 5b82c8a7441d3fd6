import torch, argparse
from accelerate import Accelerator
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextModel
def parse_args(input_args=None):
    parser = argparse.ArgumentParser(description="x")
    parser.add_argument("--pretrained", type=str, default=None, required=True)
    parser.add_argument("--max_grad_norm", default=1.0, type=float)
    args = parser.parse_args(input_args) if input_args is not None else parser.parse_args()
    return args
def main(args):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=1)
    text_encoder = CLIPTextModel.from_pretrained(args.pretrained, subfolder="text_encoder")
    vae = AutoencoderKL.from_pretrained(args.pretrained, subfolder="vae")
    unet = UNet2DConditionModel.from_pretrained(args.pretrained, subfolder="unet", torch_dtype=torch.float16)  # expect: P101 error
    vae.requires_grad_(False); text_encoder.requires_grad_(False)
    unet.train()
    optimizer_cls = torch.optim.AdamW
    optimizer = optimizer_cls(unet.parameters(), lr=1e-5)
    unet, optimizer = accelerator.prepare(unet, optimizer)
    vae.to(accelerator.device, dtype=torch.float16)
    for epoch in range(2):
        for batch in loader():
            with accelerator.accumulate(unet):
                latents = vae.encode(batch).latent_dist.sample()
                loss = torch.nn.functional.mse_loss(unet(latents).sample, latents)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    torch.nn.utils.clip_grad_norm_(unet.parameters(), args.max_grad_norm)  # expect: P116 warning
                optimizer.step()
if __name__ == "__main__":
    main(parse_args())
