//! Two processes that both keep both ends of a pipe, as a parent and the child that it has forked do: the pipe is attached, and goes back
//! to the kernel before one of them uses its other end.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::sync::LazyLock;

use common::{can_attach, output};
use over_ring::{Programs, over_ring_with, told};

const BYTES: u64 = 24 << 20;

static PROGRAMS: LazyLock<Programs> =
    LazyLock::new(|| Programs::built(&[("B", include_str!("both_ends/both.c"), &["-pthread"])]));

/// The writer, and what is done in the middle.
const USES: [&str; 14] = [
    "parent nothing",
    "child nothing",
    "parent writer-reads",
    "child writer-reads-in-handler",
    "parent writer-reads-in-thread",
    "child writer-reads-in-child",
    "parent writer-reads-copy",
    "child writer-asks",
    "parent writer-closes",
    "child writer-dies",
    "child reader-writes",
    "parent reader-writes-in-handler",
    "child reader-closes",
    "parent reader-dies",
];

#[test]
fn other_end_is_used_and_every_byte_is_in_its_place() {
    for what in USES.into_iter().chain(["child reader-polls"]) {
        if !can_attach() {
            let seen = output(&mut over_ring_with(&[], &format!("$B {what}")));
            assert_eq!((seen.code, &*seen.stderr), (Some(0), ""), "{what}");
            continue;
        }
        let is_attached = |pipe: &serde_json::Value| pipe["written"]["ring"]["bytes"].as_u64() > Some(BYTES / 4);
        let mut attempts = (0..4).map(|_| told(&format!("$B {what}")));
        assert!(attempts.any(|pipe| is_attached(&pipe)), "{what} was attached in none of 4 attempts");
    }
}

#[test]
fn death_of_one_leaves_the_other_every_byte() {
    for writer in ["parent", "child"] {
        for delay_us in (0..40).map(|time| 500 + 1500 * time) {
            let script = format!("$B {writer} killed {delay_us}");
            let seen = output(&mut over_ring_with(&["--ring-after", "256K"], &script));
            assert_eq!((seen.code, &*seen.stderr), (Some(0), ""), "{script}");
        }
    }
}

#[test]
fn python_keeps_both_ends_of_a_pipe_of_multiprocessing() {
    if !can_attach() {
        return;
    }
    let program = "import multiprocessing, sys\n\
        def send(end):\n for i in range(24): end.send_bytes(bytes([i]) * (1 << 20))\n\
        reader, writer = multiprocessing.Pipe(False)\n\
        child = multiprocessing.get_context(\"fork\").Process(target=send, args=(writer,))\n\
        child.start()\n\
        for i in range(24): assert reader.recv_bytes() == bytes([i]) * (1 << 20), i\n\
        child.join()";
    let is_attached = |pipe: &serde_json::Value| pipe["written"]["ring"]["bytes"].as_u64() > Some(BYTES / 4);
    let script = format!("exec python3 -c '{program}'");
    let mut attempts = (0..4).flat_map(|_| over_ring::told_of_all(&script));
    assert!(attempts.any(|pipe| is_attached(&pipe)), "attached in none of 4 attempts");
}
