"""What the streams of trio and of anyio have in common, over each event loop."""

import os
from operator import methodcaller

import anyio
import millstream
import pytest
from anyio.lowlevel import checkpoint
from millstream import anyio_streams, trio_streams


class Kind:
    """Streams, their names for sending and receiving, and the loop that they run in."""

    def __init__(self, module, send, receive, backend):
        self.module = module
        self._send, self._receive, self._backend = send, receive, backend

    def streams(self, **options):
        reader, writer = millstream.pipe(**options)
        return self.module.SendStream(writer), self.module.ReceiveStream(reader)

    def send(self, sink, data):
        return methodcaller(self._send, data)(sink)

    def receive(self, source, most):
        return methodcaller(self._receive, most)(source)

    def run(self, main):
        async def limited():
            with anyio.fail_after(60):
                await main()

        anyio.run(limited, backend=self._backend)


KINDS = {
    "anyio over asyncio": Kind(anyio_streams, "send", "receive", "asyncio"),
    "anyio over trio": Kind(anyio_streams, "send", "receive", "trio"),
    "trio": Kind(trio_streams, "send_all", "receive_some", "trio"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


async def all_of(source):
    return b"".join([piece async for piece in source])


def test_more_than_the_pipe_holds_waits(kind):
    async def main():
        sink, source = kind.streams(capacity=4096)
        data = os.urandom(1 << 20)

        async def send():
            async with sink:
                await kind.send(sink, data)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            assert await all_of(source) == data
        await source.aclose()
        assert source._end.closed and sink._end.closed and sink.bytes_sent == len(data)

    kind.run(main)


def test_cancelled_receive_loses_no_byte(kind):
    async def main():
        sink, source = kind.streams()
        received = []

        async def receive(scope):
            with scope:
                received.append(await kind.receive(source, 8))

        for number in range(300):
            async with anyio.create_task_group() as tasks:
                scope = anyio.CancelScope()
                tasks.start_soon(receive, scope)
                for _ in range(number % 4):
                    await checkpoint()
                sink._end.write(number.to_bytes(8, "little"))
                for _ in range(number % 3):
                    await checkpoint()
                scope.cancel()
        await sink.aclose()
        received.append(await all_of(source))
        await source.aclose()
        assert b"".join(received) == b"".join(number.to_bytes(8, "little") for number in range(300))

    kind.run(main)


def test_cancelled_send_tells_what_it_has_sent(kind):
    async def main():
        sink, source = kind.streams(capacity=4096)
        data = os.urandom(100_000)
        with anyio.move_on_after(0.01) as scope:
            await kind.send(sink, data)
        assert scope.cancelled_caught and 0 < sink.bytes_sent < len(data)

        async def send_rest():
            async with sink:
                await kind.send(sink, data[sink.bytes_sent :])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_rest)
            assert await all_of(source) == data
        await source.aclose()

    kind.run(main)


def test_child_is_read_while_other_tasks_run(kind):
    async def main():
        reader, writer = millstream.pipe()
        child = os.fork()
        if child == 0:
            reader.close()
            for _ in range(50):
                writer.write(bytes(50_000))
            os._exit(0)
        writer.close()
        turns = 0

        async def count_turns():
            nonlocal turns
            while True:
                turns += 1
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count_turns)
            async with kind.module.ReceiveStream(reader) as source:
                assert await all_of(source) == bytes(2_500_000)
            tasks.cancel_scope.cancel()
        assert turns > 0 and os.waitpid(child, 0)[1] == 0

    kind.run(main)
