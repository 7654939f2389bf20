"""capstan.torch in jobs of two workers. Most cases compare with plain torch in one process."""

from __future__ import annotations

import pathlib
import tempfile
import unittest

import torch_cases
from harness import Workers


class TorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_two_workers_equal_one_process_on_the_joined_batch(self) -> None:
        for optimizer in torch_cases.OPTIMIZERS:
            with self.subTest(optimizer):
                summary = self.workers.run("equals_one_process", optimizer=optimizer)
                self.assertEqual(summary["outcome"], "finished")

    def test_gradients_accumulate(self) -> None:
        self.workers.run("accumulates")

    def test_gradients_leave_and_forward_waits_layer_by_layer(self) -> None:
        self.workers.run("sends_and_waits_by_layer")

    @unittest.skipIf(torch_cases.DEVICE.type == "cuda", "a GPU has its own memory")
    def test_the_librarys_memory_is_the_models(self) -> None:
        self.workers.run("shares_memory")

    def test_gradients_may_be_the_programs_own(self) -> None:
        self.workers.run("sends_gradients_of_the_program")

    def test_gradients_are_clipped(self) -> None:
        self.workers.run("clips")

    def test_a_nan_is_reported_with_its_parameter_and_what_helps_in_torch(self) -> None:
        self.workers.run("names_the_parameter_of_a_nan")

    def test_gradients_may_be_changed_until_they_leave(self) -> None:
        for kind in torch_cases.CHANGES:
            for name in ("layers.0.bias", "layers.2.weight"):  # a small parameter, and another
                with self.subTest(kind, name=name):
                    self.workers.run("refuses_changed_gradients", num_workers=1, kind=kind,
                                     name=name)
            self.workers.run("sends_changed_gradients", num_workers=1, kind=kind)

    def test_two_models_train_in_turn(self) -> None:
        self.workers.run("trains_two_models_in_turn")

    def test_parameters_may_be_shared_frozen_or_unused(self) -> None:
        self.workers.run("has_unused_parameters")

    def test_buffers_begin_with_those_of_rank_0(self) -> None:
        self.workers.run("takes_buffers_of_rank_0")

    def test_frozen_parameters_must_be_equal(self) -> None:
        self.workers.run("refuses_other_frozen_parameters")

    def test_parameters_can_be_read_between_steps(self) -> None:
        self.workers.run("reads_parameters")

    def test_activations_may_be_recomputed(self) -> None:
        self.workers.run("recomputes")

    def test_a_model_trains_alone_after_the_job(self) -> None:
        self.workers.run("trains_alone_afterwards", closes=False)
        self.workers.run("trains_alone_afterwards", closes=True, num_workers=1)

    def test_the_programs_default_dtype_and_device_do_not_matter(self) -> None:
        for dtype in ("float64", "bfloat16"):
            with self.subTest(dtype):
                self.workers.run("works_with_other_defaults", dtype=dtype)

    def test_a_worker_with_more_batches_hears_what_helps(self) -> None:
        self.workers.run("has_one_batch_more")

    def test_parameters_may_be_used_beside_their_module(self) -> None:
        self.workers.run("uses_parameters_elsewhere")

    def test_bfloat16_is_converted(self) -> None:
        self.workers.run("converts_bfloat16")

    @unittest.skipUnless(torch_cases.HAS_SCALER, "this torch scales on GPUs only")
    def test_a_step_with_inf_is_skipped_by_all(self) -> None:
        self.workers.run("scales")

    def test_what_plain_programs_do_is_refused(self) -> None:
        for case in ("refuses_what_plain_torch_does", "refuses_an_old_graph",
                     "refuses_changed_parameters", "refuses_moved_parameters",
                     "refuses_other_groups", "refuses_to_unfreeze", "refuses_replaced_layers",
                     "refuses_to_be_saved"):
            with self.subTest(case):
                self.workers.run(case, num_workers=1)

    def test_tables_take_tensors_of_the_device(self) -> None:
        self.workers.run("exchanges_tensors")

    def test_data_loaders_have_processes(self) -> None:
        self.workers.run("loads_data_in_processes")

    def test_a_job_goes_on_from_a_checkpoint(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            flags = [f"--checkpoint_dir={folder}", "--checkpoint_steps=1000"]
            steps = torch_cases.STEPS
            self.workers.run("goes_on", *flags, f"--steps={steps}", first=0)
            self.workers.run("goes_on", *flags, f"--steps={2 * steps}", "--restore=latest",
                             first=steps)

    def test_other_consistency_modes_train(self) -> None:
        for flags in (["--consistency=ssp", "--staleness=2"], ["--consistency=async"]):
            with self.subTest(flags[0]):
                self.workers.run("learns", *flags)

    def test_models_are_exchanged_as_safetensors(self) -> None:
        try:
            import safetensors.torch
        except ImportError:
            self.skipTest("there is no safetensors here")
        with tempfile.TemporaryDirectory() as folder:
            begin, end = (str(pathlib.Path(folder) / name) for name in ("begin", "end"))
            torch_cases.write_safetensors(begin)
            self.workers.run("begins_with_file", f"--initial={begin}", f"--output={end}")
            torch_cases.expect_safetensors(end)


if __name__ == "__main__":
    unittest.main()
