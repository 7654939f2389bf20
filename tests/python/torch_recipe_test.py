"""Usual programs in jobs of two workers, beside plain torch: averages, MoCo, adapters."""

from __future__ import annotations

import unittest

from harness import Workers


class TorchRecipeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_recipe_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_an_average_of_the_weights_follows_them(self) -> None:
        self.workers.run("averages_weights")

    def test_an_encoder_of_keys_follows_the_other_one_in_moco(self) -> None:
        self.workers.run("contrasts_with_momentum")

    def test_adapters_of_a_frozen_model_are_trained(self) -> None:
        self.workers.run("adapts_a_frozen_model")


if __name__ == "__main__":
    unittest.main()
