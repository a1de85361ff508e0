"""CPython's own tests of multiprocessing, run with our pipes, queues and pools: `make check-cpython`.

Left out is what has nothing to do with them (managers, shared memory, loggers), and three tests of functions that send a
descriptor through a connection's socket: ours has none. A connection itself can be sent.
"""

import multiprocessing
import os
import unittest

import millstream
from test import _test_multiprocessing as theirs

METHOD = os.environ.get("MILLSTREAM_START_METHOD", "fork")
CONTEXT = millstream.get_context(METHOD)
NAMES = ("Pipe", "Queue", "JoinableQueue", "SimpleQueue", "Pool")
WANTED = (
    "Connection",
    "Queue",
    "Pool",
    "Picklable",
    "Wait",
    "Poll",
    "WithProcessesTestProcess",
    "Subclassing",
    "TestIgnoreEINTR",
    "Invalid",
    "OtherTest",
)
NEED_A_SOCKET = ("test_fd_transfer", "test_large_fd_transfer", "test_missing_fd_transfer")

for name in NAMES:
    setattr(multiprocessing, name, getattr(CONTEXT, name))
    if hasattr(theirs.ProcessesMixin, name):
        setattr(theirs.ProcessesMixin, name, staticmethod(getattr(CONTEXT, name)))

theirs.install_tests_in_module_dict(globals(), METHOD)
for name, value in list(globals().items()):
    if isinstance(value, type) and issubclass(value, unittest.TestCase):
        if "Manager" in name or "Threads" in name or not any(word in name for word in WANTED):
            del globals()[name]
        for test in NEED_A_SOCKET:
            if hasattr(value, test):
                setattr(value, test, None)
