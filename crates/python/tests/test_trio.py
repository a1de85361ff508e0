"""Pipes in trio."""

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
