//! How it was measured, in plain words.

use super::blocks::paragraph;
use super::markup::{Element, element};

const GENERAL: [&str; 5] = [
    "Every launch starts new processes, pins each to its CPU and asks at its end where it really ran. A cell whose bytes, \
     checksum, processes or CPUs are not what was asked for shows no number.",
    "Launches that are compared run one after the other, in an order shuffled anew each round, so that a disturbance \
     meets all of them. The baseline runs twice in every round: how far it lies from itself is the noise.",
    "The figure of a cell is the median of its samples. Its 95 % interval comes from drawing whole launches again at random \
     (2000 times), as samples of one launch are not independent; that of a ratio draws the two sides together.",
    "A difference is called better or worse only if its interval lies outside the noise and more than 3 % away from \
     none. Otherwise it is the same, or it cannot be told.",
    "Time is read from CLOCK_MONOTONIC_RAW. Samples that lie far out are marked and kept. MB and GB are 10^6 and 10^9 bytes; \
     sizes such as 64k are of 1024 bytes.",
];

/// A few sentences for everything, then one for each method.
pub(super) fn section(methods: &[&str]) -> Option<Element> {
    let told = methods.iter().filter_map(|method| Some((*method, of(method)?)));
    let list = element("dl").class("methods").children(
        told.map(|(method, text)| element("div").child(element("dt").text(method)).child(element("dd").text(text))),
    );
    let section = element("div").class("prose").children(GENERAL.map(paragraph));
    Some(if list.len() == 0 { section } else { section.child(list) })
}

fn of(method: &str) -> Option<&'static str> {
    Some(match method {
        "grep" => {
            "Whole pipelines of unmodified programs over a text, from the start of the first to the exit of the last, over \
             the kernel's pipe and under millstream run. The pattern does not occur."
        }
        "bw_pipe" => {
            "One process writes a page-aligned buffer again and again, another reads it in pieces of the same size. Bytes \
             that tell their position are compared before and after the part that is timed."
        }
        "bw_unix" => "Like bw_pipe, over a pair of connected Unix stream sockets.",
        "bw_tcp" => "A server pushes blocks to a client over TCP, with the largest socket buffers that are allowed.",
        "bw_file_rd" => "A file that is in the page cache is read again and its words are summed.",
        "bw_mmap_rd" => "A file that is in the page cache is mapped and its words are summed.",
        "lat_mem_rd" => {
            "A chain of pointers through a piece of memory is walked, each load waiting for the one before. While the piece \
             fits a cache, a load costs what that cache takes; the steps are the caches."
        }
        "lat_pipe" => {
            "One byte goes to another process over one stream and comes back over a second one. Running: both ends are \
             awake. Asleep: the one that answers is seen to sleep first."
        }
        "lat_unix" => "One byte there and back over a pair of connected Unix sockets.",
        "lat_fifo" => "One byte there and back over two named pipes.",
        "pipeflex" => {
            "Processes that compute between reads and writes, for times drawn at random around a mean, pass tokens for a \
             fixed time; what counts is how many arrive."
        }
        "fifo_grid" => {
            "A producer sends messages of one size to a consumer through a named pipe, for every combination of size and \
             number of messages; what counts is the time from first to last."
        }
        "memcpy" => "One process copies a buffer: what no transfer between processes can beat.",
        "cache_to_cache" => "Two CPUs take turns at writing one cache line: what no message between them can beat.",
        "increment" => {
            "One is added to every byte of a file by a number of stages, each a process of its own behind a pipe, or all in \
             one network."
        }
        "file" => {
            "One program reads or writes a file through a mount that transforms it, against the bare file system and against \
             pipelines of processes that do the same."
        }
        _ => return None,
    })
}
