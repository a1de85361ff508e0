"""What a test of networks looks at: the processes of this program."""

import gc
import os
import pathlib
import signal
import threading
import time

import pytest


@pytest.fixture(autouse=True)
def children():
    """The processes that a test has started and not waited for. After it there is none, and no thread or descriptor more."""
    before, threads, descriptors = of_this_process(), threading.active_count(), len(os.listdir("/proc/self/fd"))
    yield lambda: of_this_process() - before
    gc.collect()
    assert of_this_process() <= before
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def of_this_process():
    found = set()
    for task in os.listdir("/proc/self/task"):
        try:
            found.update(pathlib.Path(f"/proc/self/task/{task}/children").read_text().split())
        except OSError:  # a thread that was ending
            pass
    return found


def interrupt_when(is_time):
    """Ctrl-C, from a thread, as soon as a function says so."""

    def interrupt():
        while not is_time():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread
