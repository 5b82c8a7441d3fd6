# target: capability=8.0 processes=4
import sparse_layers
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = sparse_layers.Convolution(4, 4)

    def forward(self, encoder_output: torch.Tensor) -> torch.Tensor:
        return self.head(encoder_output)


torch.distributed.init_process_group("nccl")
torch.cuda.set_device(torch.distributed.get_rank() % torch.cuda.device_count())
decoder = Decoder().cuda()
optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
for batch in torch.zeros(8, 4):
    decoder(batch).sum().backward()
    optimizer.step()  # expect: R406 warning
