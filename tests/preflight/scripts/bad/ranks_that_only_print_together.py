import torch
import torch.distributed as dist
import typer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self):
        dist.init_process_group("nccl", device_id=torch.device("cuda"))
        self.model = torch.nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def weights(self):
        model: DDP = self.model
        return model.module.state_dict() if isinstance(model, DDP) else model.state_dict()

    def run(self):
        data = TensorDataset(torch.zeros(64, 4))
        sampler = DistributedSampler(data)
        for epoch in range(3):
            sampler.set_epoch(epoch)
            for batch in DataLoader(data, batch_size=8, sampler=sampler):
                loss = self.model(batch).gather(1, batch).sum()
                loss.backward()
                self.optimizer.step()  # expect: R406 warning
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
            norms = [weight.grad.norm() for weight in self.model.parameters()]
            update_ratio = sum(norms) / len(norms)
            dist.all_reduce(update_ratio)
            dist.broadcast_object_list([self.weights(), epoch])
            typer.echo(loss)


Trainer().run()
