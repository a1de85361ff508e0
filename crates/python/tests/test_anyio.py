"""Pipes in anyio, over both of its event loops."""

import anyio
import millstream
import pytest
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


def test_end_of_stream_is_that_of_anyio(run):
    async def main():
        sink, source = streams()
        await sink.send(b"grain")
        await sink.aclose()
        assert await source.receive() == b"grain"
        with pytest.raises(anyio.EndOfStream):
            await source.receive()
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
