"""What the installed package brings with it."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import millstream


def test_package_is_the_installed_one():
    assert millstream.__file__.startswith(sysconfig.get_path("platlib"))
    assert millstream.__version__ == importlib.metadata.version("millstream")


def test_program_comes_with_the_package():
    program = os.path.join(sysconfig.get_path("scripts"), "millstream")
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert millstream.__version__ in shown
    script = "seq 1000000 | sort -rn | head -n 1"
    assert subprocess.run([program, "run", "-c", script], capture_output=True, check=True).stdout == b"1000000\n"


def test_snippets_of_the_page_print_what_they_say(tmp_path):
    page = pathlib.Path(__file__).parents[3].joinpath("docs/python.md").read_text(encoding="utf-8")
    snippets = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    printed = []
    for number, snippet in enumerate(snippets):
        script = tmp_path / f"snippet{number}.py"
        script.write_text(snippet, encoding="utf-8")
        ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        printed.append(ran.stdout)
    assert printed == [
        "",
        "42\n",
        "one\ntwo\n",
        "b'news' b'news'\n",
        "b'grain'\n",
        "10000.0\n",
        "True 2000000.0\n",
        "[0.5, 1.5]\n",
        "True 100000\n",
        "b'TWO\\n'\n",
        "b'TENVA'\n",
        "b'grain\\n'\n",
        "b'grain'\n",
        "b'grain'\n",
    ]


def test_benchmark_shows_each_kind_of_row():
    command = [sys.executable, "-m", "millstream.bench", "--quick", "--pairs", "1"]
    ran = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, check=True)
    measured = json.loads(ran.stdout)
    names = {row["row"] for row in measured}
    for size in ("64 B", "4 KiB", "64 KiB", "1 MiB"):
        assert {f"send_bytes {size}, Pipe()", f"send_bytes {size}, Pipe(False)"} <= names
    for kind in ("64 B there and back", "Queue 10:1", "numpy 1 MiB", "Pool.map", "run(capture_output)", "communicate(input)"):
        assert any(name.startswith(kind) for name in names), kind
    assert all(row["millstream_seconds"] > 0 and row["rival_seconds"] > 0 for row in measured)
    # A library that is not installed is said to be left out, and is in no row.
    for module, package in (("faster_fifo", "faster-fifo"), ("zmq", "pyzmq"), ("iceoryx2", "iceoryx2")):
        found = importlib.util.find_spec(module)
        is_here = found is not None and found.origin is not None
        assert is_here != (f"{package} is not installed" in ran.stderr)
        assert is_here == any(row["rival"].startswith(package) for row in measured)
    assert not [name for name in os.listdir("/dev/shm") if "millstream" in name]


def test_benchmark_refuses_wrong_arguments_and_shows_a_table():
    command = [sys.executable, "-m", "millstream.bench", "--quick"]
    for arguments, complaint in (
        (["--pairs", "0"], "--pairs: at least 1 is needed, not 0"),
        (["--rows", "nonsense"], "no row has 'nonsense' in its name"),
    ):
        refused = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert refused.returncode == 2 and complaint in refused.stderr
    shown = subprocess.run([*command, "--pairs", "1", "--rows", "waiting"], capture_output=True, text=True, check=True)
    head, *rows = shown.stdout.splitlines()
    assert "CPU s/GB" in head and all("100 connections waiting" in row and "%" in row for row in rows)
