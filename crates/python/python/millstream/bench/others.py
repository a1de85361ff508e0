"""Other people's libraries, where they are installed."""

from __future__ import annotations

import ctypes
import importlib
import os
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

from .arrays import Closed, MakeWay

# The module that is imported, and the package that has it.
_PACKAGES = {"faster_fifo": "faster-fifo", "zmq": "pyzmq", "iceoryx2": "iceoryx2"}


class Others:
    """What is installed: ways for arrays, queues, and the packages that are missing."""

    def __init__(self, numpy: Any) -> None:
        self.ways: dict[str, MakeWay] = {}
        self.queues: dict[str, Callable[[], Any]] = {}
        self.missing: list[str] = []
        makers = {"faster_fifo": self._add_faster_fifo, "zmq": self._add_zmq, "iceoryx2": self._add_iceoryx2}
        for name, package in _PACKAGES.items():
            try:
                module = importlib.import_module(name)
            except ImportError:
                module = None
            # A folder of that name, in which the program was started, is a module without a file.
            if module is None or module.__file__ is None:
                self.missing.append(package)
            else:
                makers[name](module, numpy)

    def _add_faster_fifo(self, module: Any, numpy: Any) -> None:
        self.queues["faster-fifo"] = lambda: module.Queue(max_size_bytes=4 << 20)
        self.ways["faster-fifo"] = lambda size: _FasterFifo(module, size)

    def _add_zmq(self, module: Any, numpy: Any) -> None:
        self.ways["pyzmq ipc"] = lambda size: _Zmq(module, numpy)

    def _add_iceoryx2(self, module: Any, numpy: Any) -> None:
        self.ways["iceoryx2"] = lambda size: _Iceoryx2(module, numpy, size)


class _FasterFifo(Closed):
    """A queue in memory that must be as large as its largest messages; objects are pickled."""

    def __init__(self, module: Any, size: int) -> None:
        self._queue = module.Queue(max_size_bytes=2 * size + (1 << 20))

    def sender(self) -> Callable[[Any], None]:
        return lambda array: self._queue.put(array, timeout=60.0)

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        return lambda use: use(self._queue.get(timeout=60.0))

    def close(self) -> None:
        self._queue.close()


class _Zmq(Closed):
    """PUSH and PULL over a UNIX socket, with messages that neither end copies for Python."""

    def __init__(self, module: Any, numpy: Any) -> None:
        self._module, self._numpy = module, numpy
        self._folder = tempfile.TemporaryDirectory(prefix="millstream-bench-")
        self._address = f"ipc://{self._folder.name}/socket"
        self._open: list[Any] = []

    def _socket(self, kind: Any) -> Any:
        context = self._module.Context()
        socket = context.socket(kind)
        # No more than two arrays of any size wait in memory.
        socket.sndhwm = socket.rcvhwm = 2
        self._open += [socket, context]
        return socket

    def sender(self) -> Callable[[Any], None]:
        socket = self._socket(self._module.PUSH)
        socket.bind(self._address)
        return lambda array: socket.send(array, copy=False)

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        socket = self._socket(self._module.PULL)
        socket.connect(self._address)

        def receive(use: Callable[[Any], None]) -> None:
            use(self._numpy.frombuffer(socket.recv(copy=False).buffer))

        return receive

    def close(self) -> None:
        for socket, context in zip(self._open[::2], self._open[1::2]):
            socket.close(linger=0)
            context.term()
        self._folder.cleanup()


class _Iceoryx2:
    """Publish and subscribe in shared memory, into which the publisher copies. The subscriber asks again and again, as examples do.

    A publisher without room asks again too.
    """

    def __init__(self, module: Any, numpy: Any, size: int) -> None:
        self._module, self._numpy, self._size = module, numpy, size
        self._name = f"millstream-bench-{uuid.uuid4()}"
        self._kept: list[Any] = []
        module.set_log_level(module.LogLevel.Error)

    def _service(self) -> Any:
        module = self._module
        node = module.NodeBuilder.new().create(module.ServiceType.Ipc)
        builder = node.service_builder(module.ServiceName.new(self._name))
        builder = builder.publish_subscribe(module.Slice[ctypes.c_uint8]).enable_safe_overflow(False)
        service = builder.subscriber_max_buffer_size(2).open_or_create()
        self._kept += [node, service]
        return service

    def sender(self) -> Callable[[Any], None]:
        builder = self._service().publisher_builder().initial_max_slice_len(self._size)
        publisher = builder.backpressure_strategy(self._module.BackpressureStrategy.RetryUntilDelivered).create()
        self._kept.append(publisher)

        def send(array: Any) -> None:
            sample = publisher.loan_slice_uninit(self._size)
            ctypes.memmove(sample.payload().as_ptr(), array.ctypes.data, self._size)
            sample.assume_init().send()

        return send

    def receiver(self) -> Callable[[Callable[[Any], None]], None]:
        subscriber = self._service().subscriber_builder().buffer_size(2).create()
        self._kept.append(subscriber)

        def receive(use: Callable[[Any], None]) -> None:
            while (sample := subscriber.receive()) is None:
                os.sched_yield()
            memory = (ctypes.c_uint8 * self._size).from_address(sample.payload().as_ptr())
            use(self._numpy.frombuffer(memory))
            sample.delete()

        return receive

    def close_receiver(self) -> None:
        self.close()

    def close(self) -> None:
        while self._kept:
            self._kept.pop()
