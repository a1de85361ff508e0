"""Connections are tested beside those of multiprocessing: what both promise is asked of both."""

import gc
import multiprocessing
import os

import millstream
import pytest

# Before Python 3.14 the default. What is the same for each method is tested with each.
multiprocessing.set_start_method("fork")

START_METHODS = ["fork", "forkserver", "spawn"]


@pytest.fixture(params=["standard", "millstream"])
def pipe(request):
    """Pipe() of multiprocessing, and ours."""
    return multiprocessing.Pipe if request.param == "standard" else millstream.Pipe


@pytest.fixture(params=START_METHODS)
def context(request):
    """Our context of each start method."""
    return millstream.get_context(request.param)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test the process has no descriptor more than before, and no file was made for shared memory."""
    millstream.pipe()[0].close()  # what is opened once, at the first pipe
    before, shared = descriptors(), set(os.listdir("/dev/shm"))
    yield
    gc.collect()  # a Pool is a cycle
    # What a forkserver and the resource tracker keep is theirs.
    gone = descriptors() - before
    pipes = [target for target in gone if "millstream" in target]
    assert not pipes, pipes
    assert not [name for name in set(os.listdir("/dev/shm")) - shared if "millstream" in name]


def descriptors():
    """What this process has open, with numbers."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:  # the listing itself
            pass
    return found
