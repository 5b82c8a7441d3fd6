# target: capability=8.0 processes=2
import torch
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_float("lr", 0.1, "learning rate")
flags.DEFINE_string("device", "cuda:0", "where it runs")  # expect: D201 error


def main(argv):
    model = torch.nn.Linear(4, 4).to(FLAGS.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=FLAGS.lr)
    model(torch.ones(4, 4, device=FLAGS.device)).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    app.run(main)
