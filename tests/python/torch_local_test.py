"""ct.LocalSteps: workers that train alone for many steps, and then exchange once."""

from __future__ import annotations

import pathlib
import re
import tempfile
import unittest

import torch
import torch_local_cases
from capstan import InvalidArgument
from capstan._local_rounds import Rhythm, Rounds
from capstan._torch_fragments import split
from capstan._torch_plan import Planned
from harness import Workers


class RoundsTest(unittest.TestCase):
    """Pushes after each local step."""

    def pushes(self, rhythm: Rhythm, times: list[float]) -> list[int]:
        now = iter([0.0, *times])
        rounds = Rounds(rhythm, clock=lambda: next(now))
        return [rounds.note_step() for _ in times]

    def test_by_steps(self) -> None:
        self.assertEqual(self.pushes(Rhythm.of(4, None, 1, 0), [1.0]), [0])
        for fragments, expected in ((1, [0, 0, 0, 1]), (2, [0, 1, 0, 1]), (4, [1, 1, 1, 1])):
            rounds = Rounds(Rhythm.of(4, None, fragments, 0))
            self.assertEqual([rounds.note_step() for _ in range(4)], expected)
            self.assertTrue(rounds.is_over)

    def test_by_time_at_the_step_that_ends_next_to_the_moment(self) -> None:
        by_time = Rhythm.of(None, 10.0, 1, 0)
        self.assertEqual(self.pushes(by_time, [4.0, 8.0]), [0, 1], "a third one would end at 12")
        self.assertEqual(self.pushes(by_time, [3.0, 6.0, 9.0]), [0, 0, 1])
        self.assertEqual(self.pushes(by_time, [25.0]), [1])
        self.assertEqual(self.pushes(Rhythm.of(None, 10.0, 4, 0), [1.0, 2.0, 7.0, 9.5]), [0, 1, 2, 1])

    def test_a_round_may_end_early(self) -> None:
        rounds = Rounds(Rhythm.of(6, None, 3, 0))
        self.assertEqual([rounds.note_step() for _ in range(3)], [0, 1, 0])
        rounds.push_rest()
        self.assertTrue(rounds.is_over)
        rounds.begin()
        self.assertEqual((rounds.local_step, rounds.pushed, rounds.total), (0, 0, 3))

    def test_defaults(self) -> None:
        self.assertEqual(Rhythm.of(None, None, 1, 0), Rhythm(50, 0.0, 1, 0))
        with self.assertRaisesRegex(InvalidArgument, "got both"):
            Rhythm.of(50, 1.0, 1, 0)


class SplitTest(unittest.TestCase):
    def test_neighbours_with_about_as_many_elements(self) -> None:
        def bounds(sizes: list[int], fragments: int) -> list[tuple[int, int]]:
            planned = [Planned("", torch.zeros(size), 0) for size in sizes]
            return [(one.start, one.stop) for one in split(planned, fragments)]

        self.assertEqual(bounds([1, 1, 1, 1], 1), [(0, 4)])
        self.assertEqual(bounds([1, 1, 1, 1], 2), [(0, 2), (2, 4)])
        self.assertEqual(bounds([1, 1, 1, 1], 4), [(0, 1), (1, 2), (2, 3), (3, 4)])
        self.assertEqual(bounds([100, 1, 1], 3), [(0, 1), (1, 2), (2, 3)])
        self.assertEqual(bounds([1, 1, 100], 3), [(0, 1), (1, 2), (2, 3)])
        self.assertEqual(bounds([4, 1, 1, 1, 1], 2), [(0, 1), (1, 5)])


class TorchLocalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.workers = Workers("torch_local_cases")
        cls.addClassCleanup(cls.workers.close)

    def test_equals_workers_in_one_process(self) -> None:
        for name in torch_local_cases.INNER:
            with self.subTest(name):
                summary = self.workers.run("equals_reference", name=name)
                self.assertEqual(summary["steps"], torch_local_cases.ROUNDS)
        for settings in ({"fragments": 3}, {"fragment_sync_delay": 4},
                         {"fragments": 2, "fragment_sync_delay": 2},
                         {"fragment_sync_delay": 2, "fragment_update_alpha": 0.25},
                         {"fragment_update_alpha": 0.5}):
            with self.subTest(settings):
                self.workers.run("equals_reference", "--slice_bytes=4096", num_servers=2, **settings)

    def test_several_inner_optimizers_and_a_rest(self) -> None:
        self.workers.run("has_several_inner")

    def test_rounds_by_time(self) -> None:
        self.workers.run("rounds_by_time")
        self.workers.run("fills_fragments_by_time")

    def test_in_each_mode_and_with_codecs(self) -> None:
        for flags, settings in (
                (["--push_codec=int8", "--pull_codec=int8"], {}),
                (["--push_codec=int8", "--replicas=2"], {"fragments": 2, "fragment_sync_delay": 1}),
                (["--consistency=ssp", "--staleness=1"], {"momentum": 0.5}),
                (["--consistency=async"], {"momentum": 0.0, "fragments": 2})):
            with self.subTest(flags):
                self.workers.run("trains", *flags, num_servers=2, **settings)

    def test_other_types_and_buffers(self) -> None:
        self.workers.run("keeps_other_types")

    @unittest.skipUnless(hasattr(torch, "compile") and hasattr(torch, "amp")
                         and hasattr(torch.amp, "GradScaler"), "this torch compiles nothing")
    def test_compiled_and_scaled(self) -> None:
        self.workers.run("compiles")

    def test_what_it_cannot_do_is_refused(self) -> None:
        self.workers.run("refuses")

    def test_what_the_job_refuses(self) -> None:
        self.workers.run("needs", "--consistency=async", text="momentum")

    def test_a_restored_job_has_the_bits_of_an_undisturbed_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept, path = pathlib.Path(folder) / "kept", str(pathlib.Path(folder) / "state")
            flags = [f"--checkpoint_steps={torch_local_cases.CUTS}", "--keep=10",
                     f"--steps={torch_local_cases.KEPT_ROUNDS}"]
            self.workers.run("keeps", f"--checkpoint_dir={kept}", *flags, path=path,
                             restored_from=0)
            cuts = {int(re.search(r"^step: (\d+)", one.read_text(), re.M)[1]): one.parent
                    for one in kept.glob("checkpoint-*/manifest")}
            inner = sorted(step for step in cuts if step < torch_local_cases.KEPT_ROUNDS)
            self.assertTrue(inner, cuts)
            for step in inner:
                self.workers.run("keeps", f"--checkpoint_dir={kept}-{step}", *flags,
                                 f"--restore={cuts[step]}", path=path, restored_from=step)

    def test_a_program_trains_alone(self) -> None:
        torch_local_cases.trains_alone()


if __name__ == "__main__":
    unittest.main()
