"""A full memory cgroup: an error where the kernel refuses memory, its SIGKILL where it kills, and never SIGBUS. Needs root."""

import errno
import os
import pathlib
import signal
import subprocess
import sys

import millstream
import pytest

ROOTS = {1: pathlib.Path("/sys/fs/cgroup/memory"), 2: pathlib.Path("/sys/fs/cgroup")}
LIMITS = {1: "memory.limit_in_bytes", 2: "memory.max"}


def version():
    """Of the memory cgroups that are here."""
    for number, root in ROOTS.items():
        if (root / "cgroup.procs").exists() and (number == 1 or "memory" in (root / "cgroup.subtree_control").read_text()):
            return number
    raise AssertionError("no memory cgroups: mount them at /sys/fs/cgroup (version 1 in 'memory' there, or version 2)")


@pytest.fixture
def folder():
    made = ROOTS[version()] / f"millstream-test-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


def test_refused_memory_is_an_error_after_which_the_pipe_goes_on(folder):
    if version() == 2:
        print("cgroups of version 2 refuse no memory: they kill, which the next test has")
        return
    script = pathlib.Path(__file__).with_name("full_memory.py")
    ran = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(word) for way in ("write", "reserve", "send_bytes", "arena") for word in (way, errno.ENOMEM)]


def test_process_that_the_kernel_kills_for_memory_ends_the_stream_of_its_peer(folder):
    reader, writer = millstream.pipe()
    child = os.fork()
    if child == 0:
        try:
            reader.close()
            (folder / "cgroup.procs").write_text(str(os.getpid()))
            (folder / LIMITS[version()]).write_text(str(16 << 20))
            pipes = []
            for number in range(1000):
                pipes.append(millstream.pipe())
                writer.write(number.to_bytes(8, "little"))
                pipes[-1][1].write(bytes(400_000))
        finally:
            os._exit(7)
    writer.close()
    received = reader.read()
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    numbers = [int.from_bytes(received[at : at + 8], "little") for at in range(0, len(received), 8)]
    assert 0 < len(numbers) < 1000 and numbers == list(range(len(numbers)))
    reader.close()
