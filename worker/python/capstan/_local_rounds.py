"""When a worker with local steps pushes what: without torch and without a job."""

from __future__ import annotations

import dataclasses
import time
from typing import Callable, Optional

from capstan._arguments import expect_whole, float_of
from capstan._errors import InvalidArgument

_USUAL_STEPS = 50


@dataclasses.dataclass(frozen=True)
class Rhythm:
    """The settings of rounds, which are the same in all workers.

    sync_every: local steps of a round; 0: a round ends by time.
    round_seconds: time of a round; 0: it ends by its number of steps.
    fragments: parts of the model, each pushed at its own moment of the round.
    delay: so many local steps after its push a fragment takes the new values.
    """

    sync_every: int
    round_seconds: float
    fragments: int
    delay: int

    @classmethod
    def of(cls, sync_every: Optional[int], round_seconds: Optional[float], fragments: int,
           fragment_sync_delay: int) -> Rhythm:
        """Raises InvalidArgument: settings that do not fit each other."""
        if sync_every is not None and round_seconds is not None:
            raise InvalidArgument("expected sync_every or round_seconds, got both: a round ends by "
                                  "its local steps or by its time")
        expect_whole("fragments", fragments, 1 << 16)
        expect_whole("fragment_sync_delay", fragment_sync_delay, 2**31)
        if fragments < 1:
            raise InvalidArgument("fragments: expected 1 or more, got 0")
        if round_seconds is not None:
            seconds = float_of("round_seconds", round_seconds)
            if not 0 < seconds < float("inf"):
                raise InvalidArgument("round_seconds: expected a time above 0, got "
                                      f"{round_seconds!r}")
            return cls(0, seconds, fragments, fragment_sync_delay)
        steps = _USUAL_STEPS if sync_every is None else sync_every
        expect_whole("sync_every", steps, 2**31)
        if steps < 1 or steps % fragments != 0:
            raise InvalidArgument(f"sync_every: expected a number of local steps that {fragments} "
                                  f"fragments divide, got {steps}")
        if fragment_sync_delay >= steps // fragments:
            raise InvalidArgument(
                f"fragment_sync_delay: expected less than {steps // fragments} local steps "
                f"(sync_every / fragments), so that a fragment has its values before the next one "
                f"is pushed, got {fragment_sync_delay}")
        return cls(steps, 0.0, fragments, fragment_sync_delay)


class Rounds:
    """The worker's place in its round.

    clock: seconds, as time.monotonic.
    """

    def __init__(self, rhythm: Rhythm, clock: Callable[[], float] = time.monotonic) -> None:
        self._rhythm = rhythm
        self._clock = clock
        self.total = 0  # local steps since the program began
        self.begin()

    def begin(self) -> None:
        """A round begins."""
        self.local_step = 0  # local steps done in this round
        self.pushed = 0  # fragments of this round, in their order
        self._began = self._clock()

    def note_step(self) -> int:
        """A local step is done. Returns how many further fragments are to be pushed now."""
        self.total += 1
        self.local_step += 1
        before, self.pushed = self.pushed, max(self.pushed, self._due())
        return self.pushed - before

    def _due(self) -> int:
        """The number of fragments whose moment has come: fragment p's at (p + 1) / fragments of the
        round."""
        fragments = self._rhythm.fragments
        if self._rhythm.sync_every > 0:
            return self.local_step * fragments // self._rhythm.sync_every
        elapsed = self._clock() - self._began
        # The moment is that of the step which ends next to it.
        half_step = elapsed / self.local_step / 2
        return min(fragments, int((elapsed + half_step) * fragments / self._rhythm.round_seconds))

    def push_rest(self) -> None:
        """The round ends early: its other fragments are pushed now."""
        self.pushed = self._rhythm.fragments

    @property
    def is_over(self) -> bool:
        """All fragments of this round are pushed."""
        return self.pushed == self._rhythm.fragments
