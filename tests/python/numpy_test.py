"""The package with NumPy, in jobs of two workers."""

from __future__ import annotations

import unittest

from harness import Workers


class NumpyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("numpy_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_regression_equals_the_formulas(self) -> None:
        summary = self.workers.run("regression", "--steps=5")
        self.assertEqual(summary["outcome"], "finished")
        self.assertEqual(summary["test_accuracy"], 0.75)

    def test_gradients_come_from_tensors_of_any_library(self) -> None:
        self.workers.run("tensors_of_other_libraries")

    def test_tables_of_a_layer_go_together(self) -> None:
        self.workers.run("tables_of_a_layer")

    def test_servers_draw_values(self) -> None:
        self.workers.run("values_that_the_servers_draw")

    def test_sparse_tables_equal_the_formulas(self) -> None:
        self.assertEqual(self.workers.run("sparse_tables", "--steps=5")["outcome"], "finished")

    def test_other_rows_are_refused(self) -> None:
        self.workers.run("refuses_other_rows")

    def test_other_shapes_are_refused(self) -> None:
        self.workers.run("refuses_other_shapes")

    def test_views_outlive_the_job(self) -> None:
        self.workers.run("views_outlive_the_job")

    def test_values_are_read_only(self) -> None:
        self.workers.run("values_are_read_only")

    def test_a_job_that_is_closed_early_fails_everywhere(self) -> None:
        self.assertEqual(self.workers.run("ends_without_finish")["outcome"], "failed")


if __name__ == "__main__":
    unittest.main()
