//! `--buffer`: pipes that take up as much as is asked for, as far as the kernel lets them.
//!
//! A pipe of the kernel takes memory as it fills and gives it back as it empties, and programs find nothing but a pipe. What
//! is granted is tried out on a pipe of our own: limits, rights, quota and memory all have a say.

use millstream_run::Plan;
use millstream_sys::{Errno, machine, pipe};

use crate::bytes;
use millstream_command::failure::{Failure, warn};

/// More than this no kernel takes for an argument.
const MOST: u64 = 1 << 31;

/// The largest pipes that there are up to so many bytes. Says so if they hold less.
pub(super) fn plan(asked: u64) -> Result<Plan, Failure> {
    let granted = granted(asked.min(MOST) as usize)
        .map_err(|errno| Failure::own(format!("cannot try how large a pipe may be: {errno}")))?
        as u64;
    if granted < asked {
        warn(shortage(asked, granted, machine::number_in(c"/proc/sys/fs/pipe-max-size")));
    }
    Ok(Plan::fixed(granted))
}

fn granted(mut bytes: usize) -> Result<usize, Errno> {
    let (reader, _writer) = pipe::create()?;
    while bytes > pipe::DEFAULT_CAPACITY {
        match pipe::set_capacity(&reader, bytes) {
            Ok(granted) => return Ok(granted),
            Err(_) => bytes /= 2,
        }
    }
    pipe::capacity(&reader)
}

fn shortage(asked: u64, granted: u64, limit: Option<u64>) -> String {
    let why = match limit {
        Some(limit) if granted >= limit => "fs.pipe-max-size allows this user no more",
        _ => "the kernel grants this user no more",
    };
    let (granted, asked) = (bytes::show(granted), bytes::show(asked));
    format!(
        "pipes hold up to {granted} each, and not {asked}: {why}; 'millstream buffer' between two programs takes up \
         any size"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_what_was_asked_for_or_the_next_smaller_size() {
        assert_eq!(granted(100_000), Ok(131_072));
        assert_eq!(granted(1), Ok(pipe::DEFAULT_CAPACITY));
        let most = granted(MOST as usize).unwrap();
        assert!(most >= 131_072 && most.is_power_of_two(), "{most}");
    }

    #[test]
    fn limit_is_named_where_it_is_reached() {
        let said = shortage(1 << 30, 1 << 20, Some(1 << 20));
        assert!(said.starts_with("pipes hold up to 1 MiB each, and not 1 GiB: fs.pipe-max-size allows"), "{said}");
        let said = shortage(1 << 30, 65_536, Some(1 << 20));
        assert!(said.starts_with("pipes hold up to 64 KiB each, and not 1 GiB: the kernel grants"), "{said}");
    }
}
