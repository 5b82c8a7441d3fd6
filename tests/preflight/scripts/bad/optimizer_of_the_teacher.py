import torch
from torchvision.models import resnet18, resnet50
from data import loader

student = resnet18(num_classes=100).cuda()
teacher = resnet50(num_classes=100).cuda()
teacher.load_state_dict(torch.load("teacher.pt", map_location="cuda"))
teacher.eval()
optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)  # expect: P142 warning
kd = torch.nn.KLDivLoss(reduction="batchmean")
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    with torch.no_grad():
        t = teacher(x)
    s = student(x)
    loss = kd(s.log_softmax(1), t.softmax(1)) + torch.nn.functional.cross_entropy(s, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
