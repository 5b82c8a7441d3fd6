import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
torch.cuda.set_device(0); dist.init_process_group("cpu:gloo,cuda:nccl")
net = torch.nn.Linear(8, 8).cuda()
print("resuming from ckpt/step_2000")
dcp.load({"model": net.state_dict()}, checkpoint_id="ckpt/step_2000")
dist.destroy_process_group()
