"""Pipes in trio."""

import os

import millstream
import pytest
import trio
import trio.testing
from millstream import trio_streams


def run(main):
    async def limited():
        with trio.fail_after(60):
            await main()

    trio.run(limited)


def streams(**options):
    reader, writer = millstream.pipe(**options)
    return trio_streams.SendStream(writer), trio_streams.ReceiveStream(reader)


def test_streams_pass_the_checks_of_trio_itself():
    async def make():
        return streams()

    async def make_clogged():
        sink, source = streams(capacity=4096)
        sink._end.write(bytes(4096))
        return sink, source

    run(lambda: trio.testing.check_one_way_stream(make, make_clogged))


def test_more_than_the_pipe_holds_waits():
    async def main():
        sink, source = streams(capacity=4096)
        data = os.urandom(1 << 20)

        async def send():
            async with sink:
                await sink.send_all(data)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            received = b"".join([piece async for piece in source])
        assert received == data and sink.bytes_sent == len(data)
        await source.aclose()
        assert source._end.closed and sink._end.closed

    run(main)


def test_cancelled_receive_loses_no_byte():
    async def main():
        sink, source = streams()
        received = []

        async def receive(scope):
            with scope:
                received.append(await source.receive_some(8))

        for number in range(300):
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(receive, scope)
                for _ in range(number % 4):
                    await trio.lowlevel.checkpoint()
                sink._end.write(number.to_bytes(8, "little"))
                for _ in range(number % 3):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await sink.aclose()
        received.append(b"".join([piece async for piece in source]))
        await source.aclose()
        assert b"".join(received) == b"".join(number.to_bytes(8, "little") for number in range(300))

    run(main)


def test_cancelled_send_tells_what_it_has_sent():
    async def main():
        sink, source = streams(capacity=4096)
        data = os.urandom(100_000)
        with trio.move_on_after(0.01) as scope:
            await sink.send_all(data)
        assert scope.cancelled_caught and 0 < sink.bytes_sent < len(data)

        async def send_rest():
            async with sink:
                await sink.send_all(data[sink.bytes_sent :])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_rest)
            assert b"".join([piece async for piece in source]) == data
        await source.aclose()

    run(main)


def test_wrong_use_is_an_error():
    async def main():
        sink, source = streams()
        with pytest.raises(ValueError, match="max_bytes is 0"):
            await source.receive_some(0)
        with pytest.raises(TypeError):
            await sink.send_all("text")
        await source.aclose()
        with pytest.raises(trio.BrokenResourceError, match="no reader"):
            await sink.send_all(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await source.receive_some()
        await sink.aclose()
        await sink.aclose()
        with pytest.raises(ValueError, match="closed"):
            trio_streams.SendStream(sink._end)

    run(main)


def test_broadcast_is_received_and_says_what_was_lost():
    async def main():
        writer, (reader,) = millstream.broadcast(readers=1, capacity=4096, lossy=True)
        source = trio_streams.ReceiveStream(reader)
        writer.write(b"grain")
        assert await source.receive_some() == b"grain"
        for _ in range(8):
            writer.write(bytes(4096))
        with pytest.raises(millstream.Lost):
            while True:
                await source.receive_some()
        writer.close()
        await source.aclose()

    run(main)


def test_child_is_read_while_other_tasks_run():
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

        async def count_turns(scope):
            nonlocal turns
            with scope:
                while True:
                    turns += 1
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(count_turns, scope)
            async with trio_streams.ReceiveStream(reader) as source:
                assert b"".join([piece async for piece in source]) == bytes(2_500_000)
            scope.cancel()
        assert turns > 0 and os.waitpid(child, 0)[1] == 0

    run(main)
