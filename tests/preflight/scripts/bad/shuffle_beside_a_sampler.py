import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.distributed.init_process_group("nccl", device_id=torch.device("cuda"))
data = TensorDataset(torch.zeros(64, 4))
options = {"batch_size": 8, "num_workers": 2, "persistent_workers": True}
sampler = DistributedSampler(data)
loader = DataLoader(data, shuffle=True, sampler=sampler, **options)  # expect: R402 error
