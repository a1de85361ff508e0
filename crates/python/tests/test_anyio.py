"""Pipes in anyio, over both of its event loops."""

import os

import anyio
import millstream
import pytest
from anyio.lowlevel import checkpoint
from millstream import anyio_streams


@pytest.fixture(params=["asyncio", "trio"])
def run(request):
    def run_main(main):
        async def limited():
            with anyio.fail_after(60):
                await main()

        anyio.run(limited, backend=request.param)

    return run_main


def streams(**options):
    reader, writer = millstream.pipe(**options)
    return anyio_streams.SendStream(writer), anyio_streams.ReceiveStream(reader)


async def all_of(source):
    return b"".join([piece async for piece in source])


def test_more_than_the_pipe_holds_waits(run):
    async def main():
        sink, source = streams(capacity=4096)
        data = os.urandom(1 << 20)

        async def send():
            async with sink:
                await sink.send(data)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            assert await all_of(source) == data
        with pytest.raises(anyio.EndOfStream):
            await source.receive()
        await source.aclose()
        assert source._end.closed and sink._end.closed and sink.bytes_sent == len(data)

    run(main)


def test_cancelled_receive_loses_no_byte(run):
    async def main():
        sink, source = streams()
        received = []

        async def receive(scope):
            with scope:
                received.append(await source.receive(8))

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

    run(main)


def test_cancelled_send_tells_what_it_has_sent(run):
    async def main():
        sink, source = streams(capacity=4096)
        data = os.urandom(100_000)
        with anyio.move_on_after(0.01) as scope:
            await sink.send(data)
        assert scope.cancelled_caught and 0 < sink.bytes_sent < len(data)

        async def send_rest():
            async with sink:
                await sink.send(data[sink.bytes_sent :])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_rest)
            assert await all_of(source) == data
        await source.aclose()

    run(main)


def test_close_ends_a_receive_and_a_send_that_wait(run):
    async def main():
        sink, source = streams(capacity=4096)
        ended = []

        async def wait(call, *arguments):
            try:
                await call(*arguments)
            except anyio.ClosedResourceError:
                ended.append(call)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, source.receive)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await source.receive()
            await source.aclose()
        other_sink, other_source = streams(capacity=4096)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, other_sink.send, bytes(10_000))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await other_sink.send(b"x")
            await other_sink.aclose()
        assert ended == [source.receive, other_sink.send]
        await sink.aclose()
        await other_source.aclose()

    run(main)


def test_wrong_use_is_an_error(run):
    async def main():
        sink, source = streams()
        with pytest.raises(ValueError, match="max_bytes is -1"):
            await source.receive(-1)
        with pytest.raises(TypeError):
            await sink.send("text")
        await source.aclose()
        with pytest.raises(anyio.BrokenResourceError, match="no reader"):
            await sink.send(b"x")
        with pytest.raises(anyio.ClosedResourceError):
            await source.receive()
        await sink.aclose()
        await sink.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await sink.send(b"")

    run(main)


def test_child_is_read_while_other_tasks_run(run):
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
            async with anyio_streams.ReceiveStream(reader) as source:
                assert await all_of(source) == bytes(2_500_000)
            tasks.cancel_scope.cancel()
        assert turns > 0 and os.waitpid(child, 0)[1] == 0

    run(main)
