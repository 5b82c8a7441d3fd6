import torch
model = torch.nn.Linear(1, 1).cuda()
opt = torch.optim.AdamW(model.parameters())
def evaluate(net):
    net.eval()
    net.to(torch.bfloat16)  # expect: P111 error
    with torch.no_grad():
        net(torch.zeros(1, 1))
    net.train()
for epoch in range(10):
    for x in get_loader():
        loss = model(x).sum()
        loss.backward()
        opt.step()
    evaluate(model)
