"""The state of the servers' optimizers comes out and goes in, in torch's form."""

from __future__ import annotations

import pathlib
import tempfile
import unittest

import torch_cases
import torch_state_cases
from harness import Workers


class TorchStateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_state_cases")
        cls.addClassCleanup(cls.workers.close)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(pathlib.Path(folder.name) / "state")

    def test_a_job_goes_on_from_a_file_with_the_same_bits(self) -> None:
        for number, optimizer in enumerate(torch_cases.OPTIMIZERS):
            with self.subTest(optimizer):
                path = f"{self.path}-{number}"
                self.workers.run("saves", "--slice_bytes=2KiB", num_servers=2, optimizer=optimizer,
                                 path=path)
                # With another number of servers and another way of cutting.
                self.workers.run("goes_on", optimizer=optimizer, path=path,
                                 loads_after=number % 2 == 0)

    def test_one_process_and_a_job_go_on_from_a_model_with_the_state(self) -> None:
        for number, optimizer in enumerate(torch_cases.OPTIMIZERS):
            with self.subTest(optimizer):
                path = f"{self.path}-{number}"
                model = f"{path}.safetensors"
                self.workers.run("saves", "--slice_bytes=2KiB", f"--output={model}",
                                 "--output_optimizer_state", num_servers=2, optimizer=optimizer,
                                 path=path)
                torch_state_cases.one_process_goes_on_from_a_file(optimizer, path, model)
                self.workers.run("begins_with_a_file", f"--initial={model}",
                                 "--initial_optimizer_state", optimizer=optimizer, path=path)

    def test_a_checkpoint_keeps_the_count_of_a_loaded_state(self) -> None:
        self.workers.run("saves", optimizer="adam", path=self.path)
        flags = [f"--checkpoint_dir={self.path}-kept", "--checkpoint_steps=1"]
        self.workers.run("goes_on_in_two_lives", "--steps=2", *flags, num_servers=2,
                         optimizer="adam", path=self.path)
        self.workers.run("goes_on_in_two_lives", "--steps=3", *flags, "--restore=latest",
                         optimizer="adam", path=self.path)

    def test_one_process_and_a_job_take_turns(self) -> None:
        for optimizer in ("adam", "adamw", "momentum", "damped, up"):
            with self.subTest(optimizer):
                self.workers.run("comes_from_one_process", optimizer=optimizer)

    def test_in_ssp_it_is_loaded_before_the_start(self) -> None:
        self.workers.run("is_loaded_before_the_start", "--consistency=ssp", "--staleness=2")


if __name__ == "__main__":
    unittest.main()
