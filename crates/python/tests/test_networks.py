"""millstream.net: networks over files, bytes and iterators."""

import gzip
import io
import os
import pathlib
import signal
import threading
import time

import millstream
import pytest
from processes import children, interrupt_when  # noqa: F401


def pieces(count, size=100_000):
    for number in range(count):
        yield bytes([number % 251]) * size


def test_line_returns_its_output():
    assert millstream.net("grep -v b | upper", input=b"a\nb\nc\n") == b"A\nC\n"
    assert millstream.net("identity") == b""
    assert millstream.net(["upper", "hex"], input=memoryview(b"grain")) == b"475241494e"


def test_input_comes_from_files_and_iterators(tmp_path):
    data = b"".join(pieces(10))
    path = tmp_path / "data"
    path.write_bytes(data)
    for given in (path, str(path), data, bytearray(data), pieces(10), list(pieces(10)), io.BytesIO(data)):
        assert millstream.net("identity", input=given) == data
    with open(path, "rb") as file:
        file.read(100_000)
        assert millstream.net("identity", input=file) == data[100_000:]
    reader, writer = millstream.pipe()
    writer.write(b"grain")
    writer.close()
    with reader:
        assert millstream.net("upper", input=reader) == b"GRAIN"
    assert millstream.net("identity", input=[b"", b"a", b"", b"b"]) == b"ab"


def test_output_goes_to_path_or_file_object(tmp_path):
    for path in (tmp_path / "plain", str(tmp_path / "it's $HOME; \\ | \n'")):
        assert millstream.net("upper", input=b"grain", output=path) is None
        assert pathlib.Path(path).read_bytes() == b"GRAIN"
    kept = io.BytesIO()
    assert millstream.net("upper", input=pieces(10), output=kept) is None
    assert kept.tell() == 1_000_000
    with open(tmp_path / "raw", "wb", buffering=0) as file:
        millstream.net("upper", input=b"grain", output=file)
    assert (tmp_path / "raw").read_bytes() == b"GRAIN"


def test_path_that_begins_with_dash_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    millstream.net("upper", input=b"grain", output="-")
    assert pathlib.Path("-").read_bytes() == b"GRAIN"
    assert millstream.net("identity", input="-") == b"GRAIN"


def test_network_of_toml_runs(tmp_path):
    network = tmp_path / "upper.toml"
    network.write_text('[nodes.a]\nread = "-"\n[nodes.b]\nfrom = "a"\ndo = "upper"\n[nodes.c]\nfrom = "b"\nwrite = "-"\n')
    assert millstream.net(network, input=b"grain") == b"GRAIN"
    millstream.net(network, input=b"grain", output=tmp_path / "out", threads=1)
    assert (tmp_path / "out").read_bytes() == b"GRAIN"


def test_stream_gives_chunks_while_input_is_made():
    made = 0

    def make():
        nonlocal made
        for piece in pieces(100):
            made += 1
            yield piece

    chunks = millstream.net("identity", input=make(), stream=True)
    first = next(chunks)
    assert made < 100
    assert first + b"".join(chunks) == b"".join(pieces(100))
    assert list(chunks) == []


@pytest.mark.parametrize("end", ["drop", "close", "leave"])
def test_stream_that_is_dropped_half_way_ends_its_processes(children, end):
    def forever():
        while True:
            yield bytes(100_000)

    chunks = millstream.net(["identity", lambda chunk: chunk, "identity"], input=forever(), stream=True)
    assert next(chunks) and len(children()) == 2
    if end == "drop":
        del chunks
    elif end == "close":
        chunks.close()
        assert list(chunks) == []
    else:
        with chunks:
            next(chunks)
    assert not children()


def test_error_of_network_is_raised_with_its_message(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    for output in (None, path, io.BytesIO()):
        with pytest.raises(millstream.NetworkError, match="^gunzip: at byte 2 of its input: the gzip stream is corrupt") as failed:
            millstream.net("gunzip", input=b"no gzip", output=output)
        assert failed.value.status == 1 and "millstream: gunzip" in failed.value.stderr
    assert path.read_bytes() == b"old"
    with pytest.raises(millstream.NetworkError, match="there is no transform 'list'") as failed:
        millstream.net("list")
    assert failed.value.status == 2
    chunks = millstream.net("gunzip", input=gzip.compress(os.urandom(300_000))[:-9], stream=True)
    with pytest.raises(millstream.NetworkError, match="gunzip"):
        for _ in chunks:
            pass
    with pytest.raises(millstream.NetworkError, match="cannot read '/no/such/file'"):
        millstream.net("read /no/such/file")
    with pytest.raises(millstream.NetworkError, match="memory"):
        millstream.net("upper", memory="1")


def test_command_that_says_much_does_not_hang():
    line = "exec sh -c 'cat; head -c 300000 /dev/zero | tr \\\\0 x >&2; exit 3'"
    with pytest.raises(millstream.NetworkError, match="3") as failed:
        millstream.net(line, input=b"grain")
    assert len(failed.value.stderr) == 64 << 10


def test_killed_process_is_an_error(children):
    chunks = millstream.net("identity", input=pieces(1000), stream=True)
    next(chunks)
    (child,) = children()
    os.kill(int(child), signal.SIGKILL)
    with pytest.raises(millstream.NetworkError, match="killed by SIGKILL"):
        for _ in chunks:
            pass


def test_network_that_wants_no_more_ends_the_input():
    def forever():
        while True:
            yield b"grain\n" * 10_000

    assert millstream.net("head -n 2", input=forever()) == b"grain\ngrain\n"


@pytest.mark.parametrize("stream", [False, True])
def test_exception_of_input_is_raised(tmp_path, stream):
    def broken():
        yield b"grain"
        raise ZeroDivisionError("no more grain")

    with pytest.raises(ZeroDivisionError, match="no more grain"):
        list(millstream.net("identity", input=broken(), stream=stream))
    with pytest.raises(ZeroDivisionError):
        millstream.net("identity", input=broken(), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_exception_of_output_is_raised():
    class Full(io.RawIOBase):
        def write(self, data):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        millstream.net("identity", input=pieces(100), output=Full())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"network": b"upper"}, TypeError, "network is bytes"),
        ({"network": 7}, TypeError, "network is int"),
        ({"network": []}, ValueError, "no stages"),
        ({"network": ["upper", 7]}, TypeError, "stage is int"),
        ({"network": "upper", "input": 7}, TypeError, "input is int"),
        ({"network": "upper", "input": ["text"]}, TypeError, "bytes-like"),
        ({"network": "upper", "input": [7]}, TypeError, "bytes-like"),
        ({"network": "upper", "input": io.StringIO("text")}, TypeError, "binary mode"),
        ({"network": "upper", "input": "/no/such/file"}, FileNotFoundError, "/no/such/file"),
        ({"network": "upper", "output": 7}, TypeError, "output is int"),
        ({"network": "upper", "output": "x", "stream": True}, ValueError, "stream=True"),
        ({"network": "upper\0"}, ValueError, "null byte"),
        ({"network": "upper", "output": "/no/such/directory/file"}, millstream.NetworkError, "/no/such/directory"),
    ],
)
def test_wrong_arguments_of_network_are_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        millstream.net(**arguments)


def test_keyboard_interrupt_ends_the_network(children):
    for network in ("exec sleep 600", ["identity", lambda chunk: chunk, "exec sleep 600"]):
        thread = interrupt_when(children)
        with pytest.raises(KeyboardInterrupt):
            millstream.net(network, input=b"grain")
        thread.join()
        assert not children()


def test_keyboard_interrupt_ends_a_slow_input():
    is_slow = threading.Event()

    def slow():
        yield b"grain"
        is_slow.set()
        time.sleep(600)

    thread = interrupt_when(is_slow.is_set)
    with pytest.raises(KeyboardInterrupt):
        list(millstream.net("identity", input=slow(), stream=True))
    thread.join()


def test_forked_child_does_not_hold_the_input_open():
    def forks():
        yield b"grain"
        self_pipe = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(self_pipe[1])
            os.read(self_pipe[0], 1)
            os._exit(0)
        pids.append(child)
        ends.extend(self_pipe)

    pids, ends = [], []
    # It would wait for the child otherwise, and the child for it.
    assert millstream.net("identity", input=forks()) == b"grain"
    for end in ends:
        os.close(end)
    assert os.waitpid(pids[0], 0)[1] == 0


def test_networks_run_in_several_threads():
    results = {}

    def run(number):
        results[number] = millstream.net(["increment", lambda chunk: chunk], input=bytes([number]) * 300_000)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: bytes([number + 1]) * 300_000 for number in range(8)}
