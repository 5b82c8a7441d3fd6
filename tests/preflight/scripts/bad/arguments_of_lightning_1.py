import pytorch_lightning as pl
from argparse import ArgumentParser
from model import SegModel

parser = ArgumentParser()
parser.add_argument("--num_gpus", type=int, default=4)
parser.add_argument("--epochs", type=int, default=100)
args = parser.parse_args()
model = SegModel()
logger = pl.loggers.TensorBoardLogger("logs")
trainer = pl.Trainer(gpus=args.num_gpus, accelerator="ddp", max_epochs=args.epochs, logger=logger, precision=16)  # expect: V305 warning
trainer.fit(model)
