//! Shared memory of pipes that are gone: nothing of it stays in a process that lives on, or in its children.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::sync::LazyLock;

use common::{Scratch, millstream, output, statistics};
use over_ring::Programs;

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| Programs::built(&[]));

/// What each program here begins with: how much of the memory of pipes it has, and what it wants of the pipes that it has had.
const HEAD: &str = r#"
import os, subprocess, sys

def memory():
    lines = [line for line in open('/proc/self/maps') if 'millstream-joined' in line]
    kib = [int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('RssShmem')]
    return len(lines), kib[0]
"#;

/// Runs a program under `run`, also with statistics, which say how many of the pipes that it made were attached.
fn attached(program: &str) -> usize {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    let options = ["--stats=json", "--stats-file", stats.to_str().unwrap()];
    let program = format!("{HEAD}{program}");
    for options in [&[][..], &options] {
        let words = [&["run", "--ring-after", "1"], options, &["--", "python3", "-c", &program]].concat();
        let seen = output(&mut millstream(words));
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    }
    let stats = statistics(&stats);
    stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["path"] == "ring").count()
}

#[test]
fn thousand_children_leave_no_memory_in_their_parent() {
    let attached = attached(
        r#"
def one():
    p = subprocess.Popen(['head', '-c', '400000', '/dev/zero'], stdout=subprocess.PIPE)
    assert len(p.stdout.read()) == 400000
    p.stdout.close()
    assert p.wait() == 0

one()
before = memory()
for _ in range(1000):
    one()
after = memory()
# The statistics are shared memory too, and grow.
has_statistics = after[1] > before[1] and 'millstream-ledger' in open('/proc/self/maps').read()
assert before[0] == after[0] == 0 and (before == after or has_statistics), (before, after)
"#,
    );
    // The memory of the counters has room for some of them.
    assert!(attached >= 100, "{attached}");
}

/// Both ways to leave a pipe: it is closed, and it is given back because of something that the kernel alone can carry.
#[test]
fn memory_is_gone_when_a_pipe_is_given_back_or_closed() {
    for leave in ["w.close()", "os.dup(w.fileno())", "os.fork() or os._exit(0)"] {
        let attached = attached(&format!(
            r#"
p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
w = p.stdin
had = (0, 0)
for _ in range(3000):
    w.write(b'secret' * 2000)
    had = max(had, memory())
assert had[0] == 1, had
{leave}
assert memory()[0] == 0, memory()
if not w.closed: w.close()
"#
        ));
        assert!(attached >= 1, "{leave}");
    }
}

/// A child that is forked while its parent offers memory, and looks after the secret has passed through it.
#[test]
fn child_does_not_have_what_its_parent_sends() {
    let attached = attached(
        r#"
go = os.pipe()
reader = 'import os\nwhile os.read(0, 65536): pass'
p = subprocess.Popen([sys.executable, '-c', reader], stdin=subprocess.PIPE)
w = p.stdin
while memory()[0] == 0:
    w.raw.write(b'x' * 4096)
child = os.fork()
if child == 0:
    os.close(w.fileno())
    os.read(go[0], 1)
    maps = [line.split()[0].split('-') for line in open('/proc/self/maps') if 'millstream-joined' in line]
    memory = open('/proc/self/mem', 'rb', 0)
    for start, end in maps:
        memory.seek(int(start, 16))
        assert b'secret' not in memory.read(int(end, 16) - int(start, 16))
    os._exit(1 if maps else 0)
for _ in range(3000):
    w.raw.write(b'secret' * 2000)
os.write(go[1], b'g')
assert os.waitpid(child, 0)[1] == 0
w.close()
p.wait()
"#,
    );
    assert!(attached <= 1);
}
