"""Children with large pipes: what subprocess promises, asked of it and of ours."""

import fcntl
import os
import subprocess
import sys

import millstream
import pytest


@pytest.fixture(params=["standard", "millstream"])
def module(request):
    return subprocess if request.param == "standard" else millstream


def test_output_is_captured(module):
    ran = module.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"out\n", b"err\n")
    ran = module.run(["cat"], input="Zeile\n", capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "Zeile\n", "")
    ran = module.run(["true"])
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, None, None)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        module.run(["sh", "-c", "echo out; exit 2"], stdout=subprocess.PIPE, check=True)
    assert (failed.value.returncode, failed.value.output) == (2, b"out\n")


def test_much_goes_in_and_comes_out(module):
    data = os.urandom(8 << 20)
    ran = module.run(["cat"], input=data, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"") and ran.stdout == data
    ran = module.run(["sh", "-c", "cat >&2"], input=memoryview(data), capture_output=True)
    assert ran.stdout == b"" and ran.stderr == data
    ran = module.run(["tee", "/dev/stderr"], input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert len(ran.stdout) == 2 * len(data) and ran.stderr is None


def test_child_that_reads_nothing_ends_the_input(module):
    ran = module.run(["true"], input=bytes(8 << 20), capture_output=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    ran = module.run(["head", "-c", "5"], input=b"grain" * 1_000_000, stdout=subprocess.PIPE)
    assert (ran.returncode, ran.stdout) == (0, b"grain")
    ran = module.run(["cat"], input=b"", capture_output=True)
    assert (ran.returncode, ran.stdout) == (0, b"")


def test_wrong_arguments_are_errors(module):
    with pytest.raises(ValueError, match="stdin and input"):
        module.run(["cat"], input=b"", stdin=subprocess.DEVNULL)
    with pytest.raises(ValueError, match="capture_output"):
        module.run(["cat"], capture_output=True, stdout=subprocess.DEVNULL)
    with pytest.raises(FileNotFoundError):
        module.run(["/no/such/program"])
    with pytest.raises(TypeError):
        module.run(["cat"], input="text", capture_output=True)


def test_timeout_ends_the_child(module):
    with pytest.raises(subprocess.TimeoutExpired) as late:
        module.run([sys.executable, "-c", "import time; print('out', flush=True); time.sleep(600)"], capture_output=True, timeout=1)
    assert late.value.timeout == 1
    child = module.Popen(["sleep", "600"], stdout=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        child.communicate(timeout=0.01)
    child.kill()
    assert child.communicate() == (b"", None)


def test_pipes_are_as_large_as_they_may_be():
    limit = int(open("/proc/sys/fs/pipe-max-size").read())
    with millstream.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        for stream in (child.stdin, child.stdout):
            assert fcntl.fcntl(stream, fcntl.F_GETPIPE_SZ) == min(limit, 256 << 10)
        assert child.communicate(b"grain") == (b"grain", None)
    with millstream.Popen(["cat"], stdin=subprocess.PIPE, pipesize=8192) as child:
        assert fcntl.fcntl(child.stdin, fcntl.F_GETPIPE_SZ) == 8192


def test_output_of_any_size_arrives_whole():
    for size in (0, 1, 120 << 10, (1 << 20) - 1, (17 << 20) + 1, (65 << 20) + 1):
        ran = millstream.run(["head", "-c", str(size), "/dev/zero"], capture_output=True)
        assert ran.stdout == bytes(size) and ran.stderr == b"", size


@pytest.mark.parametrize("copies", [False, True], ids=["grown", "copied"])
def test_gathered_bytes_are_those_of_the_stream(copies):
    # Around the first object, and more than the second one has.
    for size in (0, 1, (120 << 10) - 1, 120 << 10, (120 << 10) + 1, 70_000_000):
        file = os.memfd_create("grain")
        sent = b"0123456789abcde" * (size // 15) + b"x" * (size % 15)
        os.write(file, sent)
        os.lseek(file, 0, os.SEEK_SET)
        gathered = millstream._native.Gathered(copies)
        counts = []
        while count := gathered.read(file):
            counts.append(count)
        os.close(file)
        got = gathered.finish()
        assert type(got) is bytes and got == sent and sum(counts) == size and hash(got) == hash(sent)
        assert gathered.finish() == b""


def test_gathering_from_no_descriptor_is_refused():
    gathered = millstream._native.Gathered()
    with pytest.raises(ValueError, match="not negative"):
        gathered.read(-1)
    reader, writer = os.pipe()
    os.write(writer, b"grain")
    gathered.read(reader)
    with pytest.raises(OSError, match="Bad file descriptor"):
        gathered.read(writer)
    assert gathered.finish() == b"grain"
    os.close(reader)
    os.close(writer)
