"""Gradients that travel in fewer bytes, in jobs of one worker and of two."""

from __future__ import annotations

import unittest

import torch_codec_cases
from harness import Workers


class TorchCodecTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_codec_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_what_a_push_leaves_out_counts_with_the_rate_of_its_own_step(self) -> None:
        for codec in torch_codec_cases.CODECS:
            for num_workers in (1, 2):
                with self.subTest(codec, num_workers=num_workers):
                    self.workers.run("follows_the_formula", f"--push_codec={codec}",
                                     "--field=codec.min_bytes=0", f"--seed={torch_codec_cases.SEED}",
                                     num_workers=num_workers, codec=codec)


if __name__ == "__main__":
    unittest.main()
