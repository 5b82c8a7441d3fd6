# target: capability=8.0 processes=2
import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, FullStateDictConfig, StateDictType
from transformers import AutoModelForCausalLM


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    base = AutoModelForCausalLM.from_pretrained("gpt2")
    model = FSDP(base, device_id=local_rank)
    opt = torch.optim.Adam(model.parameters())
    for i in range(10):
        loss = model(torch.randint(0, 10, (8, 4)).to(local_rank)).logits.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    cfg = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, cfg):
        state = model.state_dict()
    model.module.save_pretrained("out", state_dict=state)  # expect: R405 warning
    dist.destroy_process_group()


main()
