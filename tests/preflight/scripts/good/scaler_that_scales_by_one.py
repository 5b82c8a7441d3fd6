import fire
import torch


class Job:
    def run(self):
        model = torch.nn.Linear(4, 4).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.cuda.amp.GradScaler(1)
        for batch in range(3):
            scaler.scale(model(batch).sum()).backward()
            optimizer.step()  # it only finds out whether something overflows


if __name__ == "__main__":
    fire.Fire(Job)
