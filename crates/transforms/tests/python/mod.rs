//! `python FILE`: the same bytes as the native transform, and what is wrong with a file, with its line.

use std::fs;

use super::{done, run};

/// A file with these lines, in a directory of its own.
fn file(name: &str, lines: &str) -> String {
    let directory = format!("{}/python-{}-{name}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    fs::create_dir_all(&directory).unwrap();
    let path = format!("{directory}/{name}.py");
    fs::write(&path, lines).unwrap();
    path
}

#[test]
fn a_function_in_python_is_a_transform() {
    let bytes: Vec<u8> = (0..400_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let add = file(
        "add",
        "import sys\nN = int(sys.argv[1])\nTABLE = bytes((c + N) % 256 for c in range(256))\n\
         def transform(chunks):\n    print('not part of the stream')\n    for chunk in chunks:\n        yield chunk.translate(TABLE)\n",
    );
    for (cut, size) in [("", 0), ("", bytes.len()), ("short 4097 | ", bytes.len())] {
        let (ours, native) = (format!("{cut}python {add} 7"), "increment 7");
        assert!(done(&ours, &bytes[..size]) == done(native, &bytes[..size]), "{ours}: {size} bytes");
    }
    // What it imports stands beside it, and it may write at the end, or end before the stream does.
    let sum = file("sum", "import beside\ndef transform(chunks):\n    yield beside.text(sum(map(len, chunks)))\n");
    fs::write(sum.replace("sum.py", "beside.py"), "def text(n): return bytearray(str(n).encode())\n").unwrap();
    assert_eq!(done(&format!("python {sum}"), &bytes), b"400000");
    let first = file("first", "def transform(chunks):\n    yield memoryview(next(chunks))[:3]\n");
    assert_eq!(done(&format!("python {first} | identity"), &bytes), &bytes[..3]);
    let list = file("list", "transform = lambda chunks: [b'a', b'', b'b']\n");
    assert_eq!(done(&format!("python {list}"), b""), b"ab");
    let endless = file("endless", "def transform(chunks):\n    while True:\n        yield bytes(100000)\n");
    assert_eq!(done(&format!("python {endless} | head -c 300000"), b"").len(), 300_000);
}

#[test]
fn error_in_python_names_its_line() {
    for (name, lines, error) in [
        (
            "raises",
            "def deep():\n    raise ValueError('no\\ngood')\ndef transform(chunks):\n    yield deep()\n",
            ", line 2: ValueError: no good",
        ),
        (
            "calls",
            "import json\ndef transform(chunks):\n    for chunk in chunks:\n        yield json.loads('{')\n",
            ", line 4: JSONDecodeError: ",
        ),
        ("early", "x = 1\ny = 1 / 0\n", ", line 2: ZeroDivisionError: division by zero"),
        ("empty", "class Own(Exception): pass\ndef transform(chunks):\n    raise Own\n", ", line 3: Own"),
        ("syntax", "def transform(chunks):\n    yield (\n", ", line 2: SyntaxError: "),
        ("nothing", "x = 1\n", ": NameError: it defines no transform(chunks)"),
        (
            "text",
            "def transform(chunks):\n    yield 'text'\n",
            ": TypeError: transform yields str, and has to yield bytes",
        ),
        (
            "leaves",
            "import sys\ndef transform(chunks):\n    sys.exit(3)\n    yield b''\n",
            "the command ended with status 3",
        ),
        (
            "killed",
            "import os\ndef transform(chunks):\n    os.kill(os.getpid(), 9)\n",
            "the command was killed by signal 9",
        ),
    ] {
        let path = file(name, lines);
        let place = if error.starts_with("the") { "" } else { &*path };
        let found = run(&format!("python {path}"), b"some bytes", &Default::default()).unwrap_err();
        assert!(found.starts_with(&format!("python {path}: at byte ")), "{found}");
        assert!(found.contains(&format!(" of its input: {place}{error}")), "{place}{error}\n{found}");
    }
    for (words, error) in
        [("", "FILE is missing"), ("nowhere.py", "'nowhere.py': cannot be read: No such"), ("/", "regular")]
    {
        let found = run(&format!("python {words}"), b"", &Default::default()).unwrap_err();
        assert!(found.contains(error) && found.contains("used as"), "{found}");
    }
}
