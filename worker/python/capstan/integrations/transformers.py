"""The Trainer of Hugging Face Transformers: this class takes the place of its own.

    from capstan.integrations.transformers import Trainer

`capstan run --worker_command="python train.py"` then takes the place of `torchrun`.
"""

from __future__ import annotations

from typing import Any

import transformers

from capstan._errors import InvalidArgument
from capstan.integrations import end_job
from capstan.integrations.accelerate import Accelerator


class Trainer(transformers.Trainer):
    """As transformers.Trainer. The job's servers average gradients over its workers, under BSP, in place
    of DistributedDataParallel. The end of `train` is the job's, so it is called once."""

    def create_accelerator_and_postprocess(self) -> None:
        if self.args.auto_find_batch_size:
            raise InvalidArgument("auto_find_batch_size: expected False, as a job begins once")
        super().create_accelerator_and_postprocess()
        self.accelerator.__class__ = Accelerator

    def train(self, *args: Any, **options: Any) -> Any:
        output = super().train(*args, **options)
        end_job()
        return output
