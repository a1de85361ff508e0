"""@millstream.transform: functions of Python as stages of a network."""

import array
import gzip
import io
import os
import pathlib
import signal
import subprocess
import sys
import time

import millstream
import pytest
from processes import children, interrupt_when  # noqa: F401

@millstream.transform
def swap(chunk):
    return chunk.swapcase()


@millstream.transform(process=True)
def swap_elsewhere(chunk):
    return chunk.swapcase()


@millstream.transform(flush=lambda: b"END")
def with_end(chunk):
    yield chunk
    yield b""


@millstream.transform(process=True, flush=lambda: iter([b"E", b"ND"]))
def with_end_elsewhere(chunk):
    return [chunk]


class Lines:
    """Numbers lines, which may be cut anywhere."""

    def __init__(self):
        self.rest = b""
        self.number = 0

    def __call__(self, chunk):
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            self.number += 1
            yield b"%d %s\n" % (self.number, line)

    def flush(self):
        return b"%d lines\n" % self.number


numbered = millstream.transform(Lines)
numbered_elsewhere = millstream.transform(process=True)(Lines)


class Complaint(Exception):
    pass


@millstream.transform
def broken(chunk):
    raise Complaint("no grain", len(chunk))


@millstream.transform(process=True)
def broken_elsewhere(chunk):
    raise Complaint("no grain", len(chunk))


PLACES = pytest.mark.parametrize("place", ["here", "elsewhere"])


@PLACES
def test_function_stands_between_lines(place):
    function = {"here": swap, "elsewhere": swap_elsewhere}[place]
    data = os.urandom(1 << 20).hex().encode()
    network = ["gunzip", function, "zstd -3"]
    packed = millstream.net(network, input=gzip.compress(data, 1))
    assert millstream.net("unzstd", input=packed) == data.swapcase()
    assert millstream.net([function], input=b"Grain") == b"gRAIN"
    assert millstream.net([function, "identity", function, function], input=b"Grain") == b"gRAIN"
    assert millstream.net([function]) == b""


@PLACES
def test_flush_comes_after_the_last_chunk(place):
    function = {"here": with_end, "elsewhere": with_end_elsewhere}[place]
    assert millstream.net([function, "lower"], input=b"Grain") == b"grainend"
    assert millstream.net([function]) == b"END"


@PLACES
def test_class_is_made_anew_for_each_run(place):
    function = {"here": numbered, "elsewhere": numbered_elsewhere}[place]
    for _ in range(2):
        assert millstream.net([function], input=[b"a\nb", b"c\nd"]) in (b"1 a\n2 bc\n2 lines\n", b"1 a\n2 bc\n3 d2 lines\n")


@PLACES
def test_file_is_written_whole_behind_a_function(place, tmp_path):
    function = {"here": swap, "elsewhere": swap_elsewhere}[place]
    (tmp_path / "in").write_bytes(b"Grain" * 100_000)
    millstream.net([function], input=tmp_path / "in", output=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"gRAIN" * 100_000
    millstream.net(["identity", function], input=tmp_path / "in", output=(kept := io.BytesIO()))
    assert kept.getvalue() == b"gRAIN" * 100_000


@PLACES
def test_exception_of_function_is_raised_to_the_caller(place, tmp_path):
    function = {"here": broken, "elsewhere": broken_elsewhere}[place]
    path = tmp_path / "out"
    path.write_bytes(b"old")
    for network in ([function], ["identity", function], [function, "identity"], ["identity", function, "identity"]):
        with pytest.raises(Complaint) as raised:
            millstream.net(network, input=b"grain", output=path)
        assert raised.value.args == ("no grain", 5)
        if place == "elsewhere":
            assert "in broken_elsewhere" in raised.value.__notes__[0]
    assert path.read_bytes() == b"old"
    with pytest.raises(Complaint):
        list(millstream.net([function, "identity"], input=b"grain", stream=True))


def test_end_is_not_flushed_behind_a_failure(tmp_path):
    flushed = []

    @millstream.transform(flush=lambda: flushed.append(1))
    def function(chunk):
        return chunk

    data = gzip.compress(os.urandom(1 << 20))[:-20]
    with pytest.raises(millstream.NetworkError, match="gunzip"):
        millstream.net(["gunzip", function], input=data, output=tmp_path / "out")
    assert not flushed and not (tmp_path / "out").exists()


def test_failure_behind_a_function_is_the_reason():
    for function in (swap, swap_elsewhere):
        with pytest.raises(millstream.NetworkError, match="gunzip: at byte"):
            millstream.net(["identity", function, "gunzip", swap], input=os.urandom(1 << 20))


def test_function_ends_when_no_more_is_wanted():
    def forever():
        while True:
            yield b"Grain\n" * 1000

    for function in (swap, swap_elsewhere):
        assert millstream.net(["identity", function, "head -n 1"], input=forever()) == b"gRAIN\n"


@pytest.mark.parametrize("value", [None, "text", 7, ["text"], [None], {"a": 1}])
def test_result_that_is_no_bytes_is_type_error(value):
    with pytest.raises(TypeError, match="transform .*<lambda>' returned (None|str|int)"):
        millstream.net([lambda chunk: value], input=b"grain")


def test_result_may_be_any_buffer():
    for value in (bytearray(b"ab"), memoryview(b"ab"), array.array("B", b"ab"), iter([b"a", bytearray(b"b")]), []):
        assert millstream.net([lambda chunk: value], input=b"grain") == (b"" if value == [] else b"ab")
    with pytest.raises((TypeError, BufferError)):
        millstream.net([lambda chunk: memoryview(b"abcd")[::2]], input=b"grain")


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt, SystemExit, BrokenPipeError, EOFError])
def test_exception_that_means_something_else_is_raised(error):
    def function(chunk):
        raise error

    with pytest.raises(RuntimeError if error is StopIteration else error):
        list(millstream.net([function], input=b"grain", stream=True))


def test_wrong_transforms_are_refused():
    with pytest.raises(TypeError, match="function or a class, not int"):
        millstream.transform(7)
    with pytest.raises(TypeError, match="method flush"):
        millstream.transform(flush=lambda: b"")(Lines)


def test_transform_is_called_as_its_function():
    assert swap(b"Grain") == b"gRAIN" and swap.__name__ == "swap"
    assert millstream.net([bytes.upper], input=b"x") == b"X"


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_process_is_started_by_each_method(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import millstream, multiprocessing, os\n"
        "@millstream.transform(process=True)\n"
        "def identify(chunk): return b'%d' % os.getpid()\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method('{method}')\n"
        "    print(int(millstream.net(['identity', identify], input=b'grain')) != os.getpid())\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("True\n", "")


@millstream.transform(process=True)
def dies(chunk):
    os.kill(os.getpid(), signal.SIGKILL)


@millstream.transform(process=True)
def leaves(chunk):
    sys.exit(3)


class Odd(Exception):
    """What pickle makes something else of."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


@millstream.transform(process=True)
def odd(chunk):
    raise Odd("no", "grain")


def test_process_that_dies_is_an_error(tmp_path):
    for function, status in ((dies, -9), (leaves, 3)):
        with pytest.raises(millstream.NetworkError, match=f"'{function.__name__}': its process ended with status {status}"):
            millstream.net(["identity", function], input=b"grain", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_exception_that_cannot_travel_is_told():
    with pytest.raises(RuntimeError, match="Odd: no grain"):
        millstream.net([odd], input=b"grain")


@millstream.transform(process=True)
def sleeps(chunk):
    signal.pause()


def test_process_that_hangs_ends_with_the_network(children):
    chunks = millstream.net(["identity", sleeps, "identity"], input=b"grain", stream=True)
    assert len(children()) == 3
    chunks.close()
    assert not children()
    thread = interrupt_when(children)
    with pytest.raises(KeyboardInterrupt):
        millstream.net([sleeps], input=b"grain")
    thread.join()


def test_program_that_keeps_a_stream_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import millstream\n"
        "@millstream.transform(process=True)\n"
        "def same(chunk): return chunk\n"
        "if __name__ == '__main__':\n"
        "    chunks = millstream.net(['identity', same, lambda chunk: chunk], input=iter(lambda: bytes(1000), b''), stream=True)\n"
        "    print(len(next(chunks)) > 0)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_stages_of_a_killed_program_end(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import millstream, multiprocessing, os\n"
        "@millstream.transform(process=True)\n"
        "def same(chunk): return chunk\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method('{method}')\n"
        "    chunks = millstream.net(['identity', same, same, 'identity'], input=iter(lambda: bytes(1000), b''), stream=True)\n"
        "    next(chunks)\n"
        "    print('ready', flush=True)\n"
        "    input()\n"
    )
    mark = f"MILLSTREAM_TEST_MARK={tmp_path}"
    program = subprocess.Popen(
        ["env", mark, sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout.readline() == "ready\n"
        # The program, two functions and two networks at least, and what the method needs.
        assert len(marked_with(mark)) >= 5
        program.kill()
    while marked_with(mark):
        time.sleep(0.01)


def marked_with(mark):
    """The processes that have it in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:  # it has ended
            pass
    return found
