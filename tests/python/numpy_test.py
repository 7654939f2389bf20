"""The package with NumPy, in jobs of two workers."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy

from harness import PROGRAMS, Workers
from numpy_cases import KEYS, rows_of_get


class NumpyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("numpy_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_regression_equals_the_formulas(self) -> None:
        summary = self.workers.run("regression", "--steps=5")
        self.assertEqual(summary["outcome"], "finished")
        self.assertEqual(summary["test_accuracy"], 0.75)

    def test_a_worker_may_finish_after_the_job(self) -> None:
        self.workers.run("finishes_late", "--steps=3")

    def test_gradients_come_from_tensors_of_any_library(self) -> None:
        self.workers.run("tensors_of_other_libraries")

    def test_tables_of_a_layer_go_together(self) -> None:
        self.workers.run("tables_of_a_layer")

    def test_servers_draw_values(self) -> None:
        self.workers.run("values_that_the_servers_draw")

    def test_the_optimizers_state_goes_in_and_comes_out(self) -> None:
        self.workers.run("optimizer_state", num_servers=2)
        self.workers.run("optimizer_state_in_ssp", "--consistency=ssp", "--staleness=1")

    def test_sparse_tables_equal_the_formulas(self) -> None:
        self.assertEqual(self.workers.run("sparse_tables", "--steps=5")["outcome"], "finished")

    def test_rows_of_jobs_and_checkpoints_are_read_and_restored(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            checkpoints = f"{folder}/checkpoints"
            flags = [f"--checkpoint_dir={checkpoints}", "--checkpoint_steps=2", "--keep=5",
                     "--steps=4"]
            self.workers.run("rows_are_read_by_others", *flags, num_servers=2, folder=folder)
            final = numpy.load(f"{folder}/final.npy")
            got = rows_of_get(f"--checkpoint={checkpoints}")
            self.assertEqual(got, list(zip(KEYS.tolist(), final.tolist())))
            self.assertEqual(self.exported(checkpoints, f"{folder}/model"), dict(got))
            os.remove(f"{folder}/final.npy")
            self.workers.run("rows_are_read_by_others", *flags,
                             f"--restore={checkpoints}/checkpoint-000001", folder=folder)
            self.assertTrue((numpy.load(f"{folder}/final.npy") == final).all(), "other bits")

    def exported(self, checkpoints: str, model: str) -> dict[int, list[float]]:
        """The rows in the safetensors file of capstan export, by key."""
        subprocess.run([PROGRAMS / "capstan", "export", f"--checkpoint={checkpoints}",
                        f"--output={model}"], check=True, capture_output=True)
        contents = pathlib.Path(model).read_bytes()
        begin = 8 + int.from_bytes(contents[:8], "little")
        header = json.loads(contents[8:begin])

        def tensor(name: str, dtype: type) -> numpy.ndarray:
            first, last = header[name]["data_offsets"]
            flat = numpy.frombuffer(contents[begin + first:begin + last], dtype)
            return flat.reshape(header[name]["shape"])

        self.assertEqual(tensor("items.state", numpy.float32).shape, (len(KEYS), 3))
        keys = tensor("items.keys", numpy.int64).tolist()
        return dict(zip(keys, tensor("items.values", numpy.float32).tolist()))

    def test_other_rows_are_refused(self) -> None:
        self.workers.run("refuses_other_rows")

    def test_a_nan_is_reported_with_its_table_and_what_helps(self) -> None:
        self.workers.run("names_the_table_of_a_nan")

    def test_other_shapes_are_refused(self) -> None:
        self.workers.run("refuses_other_shapes")

    def test_workers_that_reduce_other_shapes_are_named(self) -> None:
        for shapes, names in [(([2, 3], [3, 2]), ("2x3 float32", "3x2 float32")),
                              (([6], [1, 6]), ("6 float32", "1x6 float32")),
                              (([], [1]), ("a scalar of float32", "1 float32"))]:
            with self.subTest(names):
                texts = [f"worker {rank} calls the mean of {name} as operation 0 of step 1"
                         for rank, name in enumerate(names)]
                summary = self.workers.run("other_shapes_are_reduced", shapes=shapes, texts=texts)
                for text in texts:
                    self.assertIn(text, summary["reason"])

    def test_views_outlive_the_job(self) -> None:
        self.workers.run("views_outlive_the_job")

    def test_values_are_read_only(self) -> None:
        self.workers.run("values_are_read_only")

    def test_a_job_that_is_closed_early_fails_everywhere(self) -> None:
        self.assertEqual(self.workers.run("ends_without_finish")["outcome"], "failed")


if __name__ == "__main__":
    unittest.main()
