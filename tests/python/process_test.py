"""What signals, exceptions and forks do to a worker's process and to its job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

from harness import PROGRAMS, TIMEOUT_SECONDS, Servers

import capstan

# Programs inherit it. A shell has its background jobs ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Trains for `steps` steps, each a moment long, and says when the first one is done.
TRAINS = """
import sys, time
import capstan
job = capstan.connect(sys.argv[1], rank=int(sys.argv[2]))
table = job.table("t", (4,), optimizer=capstan.SGD(lr=1.0))
job.start()
for step in range({steps}):
    table.gradient[...] = 1
    table.push_pull()
    job.end_step()
    if step == 0:
        print("training", flush=True)
    {then}
    time.sleep(0.01)
if job.finish():
    job.report(test_accuracy=0.5)
print("finished")
"""


class Program:
    """A Python program in a process of its own."""

    def __init__(self, text: str, *arguments: str) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", text, *arguments],
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(self, line: str) -> None:
        """Until it has printed this line."""
        for printed in self._process.stdout:
            if printed.strip() == line:
                return
        raise AssertionError(f"expected '{line}': {self._process.stderr.read()}")

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """The exit code, and all output that is left."""
        output, errors = self._process.communicate(timeout=TIMEOUT_SECONDS)
        return self._process.returncode, output + errors


def _trains(servers: Servers, rank: int, steps: int, then: str = "pass") -> Program:
    return Program(TRAINS.format(steps=steps, then=then), servers.address, str(rank))


class ProcessTest(unittest.TestCase):
    def test_ctrl_c_ends_a_wait(self) -> None:
        with Servers() as servers:  # the other worker never comes
            program = Program(
                "import sys, capstan\n"
                "job = capstan.connect(sys.argv[1], rank=0)\n"
                "job.table('t', (1,))\n"
                "try:\n"
                "    print('waiting', flush=True)\n"
                "    job.start()\n"
                "except KeyboardInterrupt: print('interrupted')\n", servers.address)
            program.wait_for("waiting")
            program.signal(signal.SIGINT)
            self.assertEqual(program.end()[1].strip(), "interrupted")

    def test_ctrl_c_ends_a_report_that_the_coordinator_does_not_take(self) -> None:
        with Servers() as servers:  # the other worker never comes
            program = Program(
                "import sys, capstan\n"
                "job = capstan.connect(sys.argv[1], rank=0)\n"
                "job.table('t', (1,))\n"
                "print('waiting', flush=True)\n"
                "job.start()\n", servers.address)
            program.wait_for("waiting")
            servers.wait_for_log("worker 0 has registered")
            servers.coordinator.kill()
            servers.coordinator.wait()
            began = time.monotonic()
            program.signal(signal.SIGINT)
            time.sleep(1.0)
            program.signal(signal.SIGINT)
            code, output = program.end()
            self.assertIn("KeyboardInterrupt", output)
            self.assertNotEqual(code, 0)
            self.assertLess(time.monotonic() - began, 15, "the deadline of its report is 30 s")

    def test_histories_and_traces_are_whole(self) -> None:
        with Servers("--consistency=ssp", "--staleness=1") as servers:
            records = TRAINS.format(steps=5, then="pass").replace(
                "rank=int(sys.argv[2])",
                "rank=int(sys.argv[2]), record_history=sys.argv[3], trace=sys.argv[4]")
            history = servers.folder / "history"
            history.mkdir()
            traces = [servers.folder / f"trace-{rank}" for rank in range(2)]
            programs = [Program(records, servers.address, str(rank), str(history), str(trace))
                        for rank, trace in enumerate(traces)]
            for program in programs:
                code, output = program.end()
                self.assertEqual(code, 0, output)
            checked = subprocess.run([PROGRAMS / "capstan", "check", history], text=True,
                                     capture_output=True)
            self.assertIn("the consistency contract was kept", checked.stdout, checked.stderr)
            self.assertRegex(checked.stdout, r"ssp\(1\): 1[0-9] exchanges .* by 2 worker processes")
            for rank, trace in enumerate(traces):
                self.assertIn(f'"worker {rank}"', trace.read_text())

    def test_sigterm_leaves_the_job_and_the_others_go_on(self) -> None:
        with Servers() as servers:
            stays, leaves = _trains(servers, 0, 200), _trains(servers, 1, 200)
            leaves.wait_for("training")
            leaves.signal(signal.SIGTERM)
            self.assertEqual(leaves.end()[0], 143)
            code, output = stays.end()
            self.assertEqual((code, output.strip().splitlines()[-1]), (0, "finished"), output)
            self.assertEqual(servers.summary()["outcome"], "finished")

    def test_an_exception_ends_the_job_with_its_text(self) -> None:
        with Servers() as servers:
            raises = _trains(servers, 0, 200, "raise ValueError('no more data')")
            waits = _trains(servers, 1, 200)
            self.assertIn("no more data", raises.end()[1])
            code, output = waits.end()
            self.assertEqual(code, 1)
            self.assertIn("capstan._errors.JobFailed", output)
            self.assertIn("ValueError: no more data", output)
            self.assertIn("no more data", str(servers.summary()))

    def test_the_text_of_an_exception_names_the_programs_line(self) -> None:
        with Servers(num_workers=1) as servers:
            raises = _trains(servers, 0, 200, "table.push_pull(); table.push_pull()")
            self.assertIn("has been pushed in step", raises.end()[1])
            self.assertRegex(str(servers.summary()), r"has been pushed in step .* \(<string>:\d+\)")

    def test_a_with_statement_ends_the_job_with_an_exceptions_text(self) -> None:
        with Servers(num_workers=1) as servers:
            with self.assertRaises(KeyError):
                with capstan.connect(servers.address, rank=0) as job:
                    job.table("t", (1,))
                    job.start()
                    raise KeyError("lost key")
            self.assertIn("lost key", str(servers.summary()))

    def test_a_with_statement_raises_the_programs_exception(self) -> None:
        with Servers(num_workers=1) as servers:
            with self.assertRaises(KeyError):
                with capstan.connect(servers.address, rank=0) as job:
                    job.close()
                    raise KeyError("no key")

    def test_a_programs_own_handler_of_sigterm_stays(self) -> None:
        def own(*unused: object) -> None:
            pass

        before = signal.signal(signal.SIGTERM, own)
        try:
            with Servers(num_workers=1) as servers, capstan.connect(servers.address):
                self.assertIs(signal.getsignal(signal.SIGTERM), own)
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_a_child_has_no_part_in_the_job(self) -> None:
        with Servers(num_workers=1) as servers:
            program = _trains(
                servers, 0, 3,
                "import os, signal\n"
                "    child = os.fork()\n"
                "    if child == 0:\n"
                "        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
                "        try: job.end_step()\n"
                "        except capstan.Forked: pass\n"
                "        else: sys.exit(8)\n"
                "        try: capstan.connect(sys.argv[1])\n"
                "        except capstan.Forked: sys.exit(7)\n"
                "        sys.exit(9)\n"
                "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n")
            code, output = program.end()
            self.assertEqual(code, 0, output)
            self.assertIn("finished", output.splitlines())  # newer Pythons warn of the fork, too
            self.assertEqual(servers.summary()["outcome"], "finished")

    def test_a_job_can_end_where_no_thread_starts(self) -> None:
        """As where Python 3.12 calls what is registered for a program's end."""
        with Servers(num_workers=1) as servers, capstan.connect(servers.address) as job:
            job.table("t", (2,))
            job.start()
            with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError):
                job.fail("the end")
            self.assertIn("the end", str(servers.summary()))

    def test_a_program_may_end_while_its_thread_uses_the_job(self) -> None:
        with Servers(num_workers=1) as servers:
            program = Program(
                "import sys, threading, time\n"
                "import capstan\n"
                "job = capstan.connect(sys.argv[1])\n"
                "table = job.table('t', (2,))\n"
                "job.start()\n"
                "def run():\n"
                "    while True:\n"
                "        table.push_pull()\n"
                "        job.end_step()\n"
                "threading.Thread(target=run, daemon=True).start()\n"
                "time.sleep(0.3)\n", servers.address)
            code, output = program.end()
            self.assertEqual(code, 0, output)
            self.assertEqual(servers.summary()["outcome"], "failed")

    def test_a_table_alone_keeps_its_job(self) -> None:
        with Servers(num_workers=1) as servers:
            program = Program(
                "import gc, sys, capstan\n"
                "def begin():\n"
                "    job = capstan.connect(sys.argv[1], rank=0)\n"
                "    table = job.table('t', (1,))\n"
                "    job.start()\n"
                "    return table\n"
                "table = begin()\n"
                "gc.collect()\n"
                "table.push_pull([1.0])\n"
                "print('pushed')\n", servers.address)
            self.assertEqual(program.end(), (0, "pushed\n"))
            # Python has closed it at its end, not the library when the name was gone.
            servers.wait_for_log("closed the job before its end; expected finish()")

    def test_a_coordinator_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(capstan.JobFailed, "127.0.0.1:1"):
            capstan.connect("127.0.0.1:1", rpc_deadline_seconds=0.2)

    def test_a_number_of_steps_beside_the_jobs_is_refused(self) -> None:
        with Servers("--steps=5", num_workers=1) as servers:
            with self.assertRaisesRegex(capstan.JobFailed, "has 5 steps .* wants 6"):
                capstan.connect(servers.address, rank=0, steps=6)

    def test_a_malformed_address_is_refused_at_once(self) -> None:
        for address in ("localhost", "127.0.0.1:", ":4000", "127.0.0.1:65536", "host:x", "::1:4000",
                        "http://host:4000", "two words:4000"):
            with self.subTest(address):
                text = f'coordinator: expected host:port.*got "{re.escape(address)}"'
                with self.assertRaisesRegex(capstan.InvalidArgument, text):
                    capstan.connect(address)
                with mock.patch.dict(os.environ, CAPSTAN_COORDINATOR=address):
                    with self.assertRaisesRegex(capstan.InvalidArgument, "CAPSTAN_COORDINATOR: ex"):
                        capstan.connect()
        for address in ("[::1]:1", "localhost:1"):
            with self.assertRaisesRegex(capstan.JobFailed, re.escape(address)):
                capstan.connect(address, rpc_deadline_seconds=0.2)
        with self.assertRaisesRegex(capstan.InvalidArgument, "got nothing"):
            capstan.connect()

    def test_the_module_is_the_program(self) -> None:
        said = subprocess.run([sys.executable, "-m", "capstan", "--version"], check=True,
                              capture_output=True, text=True).stdout
        self.assertRegex(said, r"^capstan \d+\.\d+\.\d+\n$")
        self.assertEqual(said, f"capstan {capstan.__version__}\n")
        self.assertFalse(hasattr(capstan, "__versions__"))

    def test_the_package_works_without_numpy(self) -> None:
        with Servers(num_workers=1) as servers:
            program = Program(
                "import sys; sys.modules['numpy'] = None\n"
                "import capstan\n"
                "with capstan.connect(sys.argv[1]) as job:\n"
                "    table = job.table('t', (2,))\n"
                "    job.start()\n"
                "    table.gradient_buffer()[:] = [1, 2]\n"
                "    table.push_pull()\n"
                "    job.end_step()\n"
                "    job.finish()\n"
                "    print(len(table.values_buffer()))\n", servers.address)
            self.assertEqual(program.end(), (0, "2\n"))

    def test_errors_have_kinds(self) -> None:
        self.assertTrue(issubclass(capstan.InvalidArgument, ValueError))
        self.assertTrue(issubclass(capstan.OutOfMemory, MemoryError))
        for kind in (capstan.InvalidArgument, capstan.WrongOrder, capstan.JobFailed, capstan.Forked,
                     capstan.OutOfMemory):
            self.assertTrue(issubclass(kind, capstan.Error))
        self.assertFalse(issubclass(capstan.LeftJob, Exception))


if __name__ == "__main__":
    unittest.main()
