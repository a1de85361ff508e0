//! What carries bytes from one process to another: each rival behind one trait, in a file of its own.
//!
//! A new one is such a file and a line in [`ALL`]. Rivals with heavy dependencies live in packages of their own, which
//! give the plans of the methods any other `&'static dyn Transport`.

mod ends;
pub mod fifo;
pub mod kernel_pipe;
pub mod loan;
pub mod millstream;
pub mod posix_mq;
pub mod process_vm_readv;
pub mod spsc_bare;
pub mod tcp;
pub mod unix;
pub mod vmsplice;

pub(crate) use ends::Buffers;
pub use ends::{Ends, Fill, InPlaceEnds, Transport, WriteEnd};

/// All of them, in the order in which they are shown.
pub static ALL: [&dyn Transport; 13] = [
    &kernel_pipe::DEFAULT,
    &kernel_pipe::ONE_MEBIBYTE,
    &fifo::FIFO,
    &vmsplice::VMSPLICE,
    &unix::UNIX,
    &tcp::TCP,
    &posix_mq::POSIX_MQ,
    &process_vm_readv::PROCESS_VM_READV,
    &millstream::ADAPTIVE,
    &millstream::BLOCK,
    &loan::LOAN,
    &fifo::OURS,
    &spsc_bare::SPSC_BARE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Launch;
    use crate::engine::crew::{self, Post};
    use crate::engine::placement::Placement;
    use crate::pattern;
    use std::io::Read;
    use std::time::Duration;

    /// Prime, so that they divide nothing: below a page, above a message, above every pipe but the largest.
    const WRITES: [usize; 4] = [7, 4099, 10_007, 600_011];
    const READS: [usize; 3] = [65_537, 13, 8191];
    const TOTAL: u64 = 3_000_017;

    fn posts(placement: Placement) -> [Post; 2] {
        let cpus = placement.cpus().expect("this test needs two CPUs");
        [Post { name: "writer", cpu: cpus[0] }, Post { name: "reader", cpu: cpus[1] }]
    }

    fn write_pattern(mut writer: Box<dyn WriteEnd>) -> Result<(), String> {
        let mut turns: Vec<Buffers> = WRITES.iter().map(|&len| Buffers::of(&*writer, len)).collect();
        let mut position = 0;
        for size in (0..WRITES.len()).cycle() {
            let left = TOTAL - position;
            let bytes = turns[size].next();
            let count = bytes.len().min(left as usize);
            pattern::fill(position, &mut bytes[..count]);
            writer.write_all(&bytes[..count]).map_err(|error| error.to_string())?;
            position += count as u64;
            if position == TOTAL {
                break;
            }
        }
        writer.finish();
        Ok(())
    }

    fn read_pattern(mut reader: Box<dyn Read>) -> Result<u64, String> {
        let (mut position, mut buffer) = (0, vec![0; 65_537]);
        for size in READS.iter().cycle() {
            let count = reader.read(&mut buffer[..*size]).map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            if let Some(at) = pattern::first_difference(position, &buffer[..count]) {
                return Err(format!("byte {at} is wrong"));
            }
            position += count as u64;
        }
        match reader.read(&mut buffer) {
            Ok(0) => Ok(position),
            other => Err(format!("behind the end: {other:?}")),
        }
    }

    #[test]
    fn every_transport_carries_odd_sizes_between_two_processes_up_to_its_end() {
        for transport in ALL {
            for placement in Placement::ALL {
                let Ends { writer, reader } = transport.connect(placement).unwrap();
                let seen = crew::run(&posts(placement), move |index| match index {
                    0 => {
                        drop(reader);
                        write_pattern(writer).map(|()| None)
                    }
                    _ => {
                        drop(writer);
                        read_pattern(reader).map(|count| Some(Launch::of(count as f64)))
                    }
                });
                let name = transport.name();
                assert_eq!(seen.map(|launch| launch.samples), Ok(vec![TOTAL as f64]), "{name} {placement:?}");
            }
        }
    }

    #[test]
    fn a_dead_writer_is_found_out_over_every_transport() {
        for transport in ALL {
            let Ends { mut writer, reader } = transport.connect(Placement::TwoCpus).unwrap();
            let limit = Duration::from_secs(120);
            let seen = crew::run_within(limit, &posts(Placement::TwoCpus), move |index| match index {
                0 => {
                    drop(reader);
                    let mut turns = Buffers::of(&*writer, 1000);
                    writer.write_all(turns.next()).map_err(|error| error.to_string())?;
                    millstream_sys::signals::raise_unblocked(9);
                    Ok(None)
                }
                _ => {
                    drop(writer);
                    read_pattern(reader).map(|count| Some(Launch::of(count as f64)))
                }
            });
            let why = seen.unwrap_err();
            assert!(why.contains("the writer was killed by signal 9"), "{}: {why}", transport.name());
        }
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|transport| transport.name()).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
