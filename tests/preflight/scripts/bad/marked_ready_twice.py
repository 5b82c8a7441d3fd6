import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, TrainingArguments


class Layer(torch.nn.Module):
    again = False

    def forward(self, x):
        return checkpoint(torch.relu, x, use_reentrant=True) if self.again else x  # expect: R408 warning


class Block(torch.nn.Module):
    def forward(self, x):
        return checkpoint(torch.relu, x, use_reentrant=True)  # expect: R408 warning


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Linear(4, 4)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(3))
        for layer in self.layers:
            layer.again = True
        blocks = []
        for _ in range(3):
            blocks.append(Block())
        self.blocks = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(*blocks))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.blocks(x)
        return checkpoint(self.block, x, use_reentrant=True)  # expect: R408 warning


torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
net = DDP(Net(), find_unused_parameters=True)
net(torch.zeros(4, 4)).sum().backward()
loaded = AutoModel.from_pretrained("m")
loaded.gradient_checkpointing_enable({"use_reentrant": True})
loaded = DDP(loaded, find_unused_parameters=True)  # expect: R408 error
arguments = TrainingArguments(
    "out",
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": True},
    ddp_find_unused_parameters=True,  # expect: R408 error
)
