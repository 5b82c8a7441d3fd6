import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision import datasets, transforms, models
from torch.utils.data import DataLoader
from ignite.engine import Events, create_supervised_trainer, create_supervised_evaluator
from ignite.metrics import Accuracy, Loss

device = "cuda"
model = models.resnet18(num_classes=10).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
train = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=128, shuffle=True)
trainer = create_supervised_trainer(model, opt, F.cross_entropy, device=device, amp_mode="amp")  # expect: P114 warning
evaluator = create_supervised_evaluator(model, metrics={"acc": Accuracy()}, device=device)
@trainer.on(Events.ITERATION_COMPLETED(every=100))
def log(engine):
    print(engine.state.output)
trainer.run(train, max_epochs=5)
