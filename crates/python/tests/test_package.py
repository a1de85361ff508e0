"""What the installed package brings with it."""

import importlib.metadata
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
        "[0.5, 1.5]\n",
        "b'TWO\\n'\n",
        "b'TENVA'\n",
        "b'grain\\n'\n",
    ]


def test_benchmark_shows_a_row_for_each_size():
    command = [sys.executable, "-m", "millstream.bench", "--quick", "--pairs", "1", "--json", "-"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.count('"row": "send_bytes') % 4 == 0 and '"row": "numpy 1 MiB"' in shown
    refused = subprocess.run([*command, "--pairs", "0"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--pairs: at least 1 is needed" in refused.stderr
