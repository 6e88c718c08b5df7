"""PyTorch Lightning: a small module trained for ROUNDS epochs."""
import logging
import time
import warnings

import lightning
import torch

from rounds import PAUSE, ROUNDS, bits

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.CRITICAL)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(),
                                          torch.nn.Linear(16, 1))

    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)

    def on_train_epoch_end(self):
        print(self.current_epoch, bits(*self.parameters()), flush=True)
        time.sleep(PAUSE)


lightning.seed_everything(1, verbose=False)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
trainer = lightning.Trainer(max_epochs=ROUNDS, accelerator="cpu", logger=False,
                            enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=16, shuffle=True))
