# target: capability=8.0 processes=4
import lightning as L
from controls import Socket
from poses import PoseData, PoseModel


class Controls(L.Callback):
    def __init__(self):
        self.socket = Socket()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.is_global_zero:
            if self.socket.says_stop():
                trainer.should_stop = True
        trainer.should_stop = trainer.strategy.reduce_boolean_decision(trainer.should_stop, all=False)


trainer = L.Trainer(devices=4, accelerator="gpu", strategy="ddp", callbacks=[Controls()])
trainer.fit(PoseModel(), datamodule=PoseData())
