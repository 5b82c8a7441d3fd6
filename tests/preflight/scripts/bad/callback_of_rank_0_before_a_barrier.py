# target: capability=8.0 processes=4
import lightning as L
import matplotlib.pyplot as plt
from poses import PoseData, PoseModel


class Figures(L.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        if not trainer.is_global_zero:  # expect: R404 info
            return
        figure, _ = plt.subplots()
        trainer.logger.experiment.log({"figure": figure})
        trainer.strategy.barrier()  # expect: R404 error


trainer = L.Trainer(devices=4, accelerator="gpu", strategy="ddp", callbacks=[Figures()])
trainer.fit(PoseModel(), datamodule=PoseData())
