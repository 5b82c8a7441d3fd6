import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from text import vocab, IMDB, Model

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

def collate_batch(batch):
    labels, texts = [], []
    for label, text in batch:
        labels.append(label)
        texts.append(torch.tensor(vocab(text)))
    labels = torch.tensor(labels)
    texts = pad_sequence(texts, batch_first=True)
    return labels, texts

loader = DataLoader(IMDB("train"), batch_size=64, shuffle=True, collate_fn=collate_batch, num_workers=4)
model = Model(len(vocab)).to(device)
opt = torch.optim.SGD(model.parameters(), lr=5)
for labels, texts in loader:
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(texts.to(device)), labels.to(device))
    loss.backward()
    opt.step()
