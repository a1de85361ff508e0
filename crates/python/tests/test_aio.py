"""Pipes in asyncio."""

import asyncio
import os

import millstream
import pytest


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_lines_arrive_in_order():
    async def main():
        reader, writer = millstream.pipe()
        lines, sink = await millstream.open_reader(reader), await millstream.open_writer(writer)

        async def produce():
            for number in range(20_000):
                sink.write(b"line %d\n" % number)
                await sink.drain()
            sink.close()
            await sink.wait_closed()

        task = asyncio.create_task(produce())
        assert [line async for line in lines] == [b"line %d\n" % number for number in range(20_000)]
        await task
        assert await lines.read() == b"" and lines.at_eof()
        assert reader.closed and writer.closed

    run(main())


def test_more_than_the_pipe_holds_waits():
    async def main():
        reader, writer = millstream.pipe(capacity=4096)
        lines, sink = await millstream.open_reader(reader), await millstream.open_writer(writer)
        data = os.urandom(3 << 20)
        sink.write(data)
        assert sink.transport.get_write_buffer_size() > len(data) - (64 << 10)
        drained = asyncio.create_task(sink.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        sink.close()
        assert await lines.readexactly(len(data)) == data
        assert await lines.read() == b""
        await drained
        await sink.wait_closed()

    run(main())


def test_reader_that_is_not_read_takes_no_more_than_its_limit():
    async def main():
        reader, writer = millstream.pipe()
        lines, sink = await millstream.open_reader(reader, limit=1000), await millstream.open_writer(writer)
        sink.write(bytes(4 << 20))
        for _ in range(100):
            await asyncio.sleep(0)
        assert sink.transport.get_write_buffer_size() > 3 << 20
        assert len(await lines.readexactly(4 << 20)) == 4 << 20
        sink.close()
        assert await lines.read() == b""

    run(main())


def test_cancelled_read_loses_no_byte():
    async def main():
        reader, writer = millstream.pipe()
        lines = await millstream.open_reader(reader)
        received = b""
        for number in range(300):
            waiting = asyncio.create_task(lines.readexactly(8))
            await asyncio.sleep(0)
            writer.write(number.to_bytes(8, "little")[:5])
            await asyncio.sleep(0.0005)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            writer.write(number.to_bytes(8, "little")[5:])
            received += await lines.readexactly(8)
        assert received == b"".join(number.to_bytes(8, "little") for number in range(300))
        writer.close()
        assert await lines.read() == b""

    run(main())


def test_gone_reader_is_a_connection_error():
    async def main():
        reader, writer = millstream.pipe()
        sink = await millstream.open_writer(writer)
        reader.close()
        with pytest.raises(ConnectionError):
            for _ in range(3):
                sink.write(b"x")
                await sink.drain()
                await asyncio.sleep(0)
        assert sink.is_closing() and writer.closed

    run(main())


def test_child_is_read_while_others_run():
    async def main():
        reader, writer = millstream.pipe()
        child = os.fork()
        if child == 0:
            reader.close()
            for _ in range(100):
                writer.write(bytes(50_000))
            os._exit(0)
        writer.close()
        lines = await millstream.open_reader(reader)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        assert await lines.read() == bytes(5_000_000)
        ticking.cancel()
        assert ticks > 0
        assert os.waitpid(child, 0)[1] == 0

    run(main())
