# target: capability=8.0 processes=4
import hydra
import torch


def place(cfg):
    if cfg.local_rank == -1:
        cfg.n_gpu = torch.cuda.device_count()
    else:
        torch.cuda.set_device(cfg.local_rank)
        torch.distributed.init_process_group(backend="nccl")
        cfg.n_gpu = 1


def wrapped(model, n_gpu, local_rank=-1):
    if n_gpu > 1:
        model = torch.nn.DataParallel(model)

    if local_rank != -1:
        model = torch.nn.parallel.DistributedDataParallel(
            model,
            device_ids=[local_rank],
        )
    return model


@hydra.main(config_path="conf", config_name="none")
def main(cfg):
    place(cfg)
    model = wrapped(torch.nn.Linear(2, 2).cuda(), cfg.n_gpu, cfg.local_rank)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.zeros(1, 2).cuda()).sum().backward()
    optimizer.step()


main()
