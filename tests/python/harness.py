"""Jobs for tests: a coordinator and servers, and worker processes that run cases."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Sequence

import capstan

PROGRAMS = pathlib.Path(capstan.__file__).parent / "bin"
TESTS = pathlib.Path(__file__).parent
TIMEOUT_SECONDS = 120


class Servers:
    """The coordinator and the servers of a job. Its workers are this test's."""

    def __init__(self, *flags: str, num_workers: int = 2, num_servers: int = 1) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        self._processes: list[subprocess.Popen[bytes]] = []
        port_file = self.folder / "port"
        self.coordinator = self._start(
            "capstan_coordinator", "--model=program", "--listen=127.0.0.1:0",
            f"--port_file={port_file}", f"--summary_json={self.folder / 'summary.json'}",
            f"--num_workers={num_workers}", f"--num_servers={num_servers}", *flags)
        self.address = self._address(port_file)
        for _ in range(num_servers):
            self._start("capstan_server", f"--coordinator={self.address}", "--listen=127.0.0.1:0")

    def _start(self, program: str, *flags: str) -> subprocess.Popen[bytes]:
        name = f"{program}-{len(self._processes)}.log"
        with open(self.folder / name, "wb") as log:
            process = subprocess.Popen([PROGRAMS / program, *flags], stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def _address(self, port_file: pathlib.Path) -> str:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not (port_file.exists() and port_file.read_text().endswith("\n")):
            if self.coordinator.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"no coordinator: {self.logs()}")
            time.sleep(0.01)
        return port_file.read_text().strip()

    def logs(self) -> str:
        """The last lines of each process."""
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1000:]}"
                         for log in sorted(self.folder.glob("*.log")))

    def wait_for_log(self, text: str) -> None:
        """Until the coordinator has logged this."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while text not in self.logs():
            if time.monotonic() > end:
                raise AssertionError(f"expected '{text}': {self.logs()}")
            time.sleep(0.01)

    def summary(self) -> dict[str, object]:
        """The job's summary, after its end."""
        self.coordinator.wait(TIMEOUT_SECONDS)
        return dict(json.loads((self.folder / "summary.json").read_text()))

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *unused: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._folder.cleanup()


class Workers:
    """Processes that live for many jobs, one for each rank; importing torch takes long."""

    def __init__(self, cases: str, num_workers: int = 2) -> None:
        self._processes = [
            subprocess.Popen([sys.executable, TESTS / "run_cases.py", cases], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True) for _ in range(num_workers)]

    def run(self, case: str, *flags: str, num_workers: int = 2, num_servers: int = 1,
            ranks: Sequence[int] = (), **arguments: object) -> dict[str, object]:
        """Runs the case in every worker of a new job. Fails unless it passes in all. Returns the
        job's summary. A job that a case leaves unfinished fails.

        ranks: of each worker the number of its ranks, which are processes of their own.
        """
        processes = self._processes[:sum(ranks) or num_workers]
        places = [(worker, rank) for worker, count in enumerate(ranks) for rank in range(count)]
        with Servers(*flags, num_workers=len(ranks) or num_workers,
                     num_servers=num_servers) as servers:
            for number, process in enumerate(processes):
                order: dict[str, object] = {"case": case, "coordinator": servers.address,
                                            "rank": number, "arguments": arguments}
                if ranks:
                    worker, order["rank"] = places[number]
                    order.update(worker=worker, ranks=ranks[worker],
                                 meeting=f"file://{servers.folder}/ranks-{worker}")
                process.stdin.write(json.dumps(order) + "\n")
                process.stdin.flush()
            # A worker that dies ends its output.
            results = [process.stdout.readline().strip() for process in processes]
            if any(result != '"passed"' for result in results):
                said = "\n".join(json.loads(result) if result else "the worker has died"
                                 for result in results)
                raise AssertionError(f"{case}:\n{said}\n{servers.logs()}")
            return servers.summary()

    def close(self) -> None:
        for process in self._processes:
            process.stdin.close()
            process.stdout.close()
            process.wait(TIMEOUT_SECONDS)
