#!/usr/bin/python3
# asyncio: pipes in an event loop (epoll), edge cases of their transports, several children at once.
# random kills
import asyncio, os
async def child(n):
    p = await asyncio.create_subprocess_exec('sh', '-c', f'cat; echo {n} >&2; exit {n}', stdin=-1, stdout=-1, stderr=-1)
    out, err = await p.communicate(b'x' * 200000)
    return len(out), err.decode().strip(), p.returncode
async def main():
    print(await asyncio.gather(*(child(n) for n in range(5))))
    r, w = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(r, 'rb'))
    transport, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(w, 'wb'))
    transport.write(b'y' * 1000000)
    got = await reader.readexactly(1000000)
    transport.close()
    print(len(got), await reader.read())
asyncio.run(main())
