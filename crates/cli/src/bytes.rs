//! Numbers of bytes as people write them, and what each may be.

pub(crate) use millstream_command::bytes::{parse, show};

/// The size of a pipe.
pub(crate) fn parse_pipe_size(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if bytes <= 1 << 31 => Ok(bytes),
        _ => Err("the kernel's limit for a pipe is 2G".into()),
    }
}

/// What each pipe of a run takes up.
pub(crate) fn parse_buffer(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if bytes >= 64 << 10 => Ok(bytes),
        _ => Err("a pipe holds 64K anyway: ask for that or more".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_holds_at_most_2_gibibytes() {
        assert_eq!(parse_pipe_size("2G"), Ok(1 << 31));
        assert!(parse_pipe_size("3G").is_err() && parse_pipe_size("0").is_err());
    }

    #[test]
    fn buffer_holds_at_least_64_kibibytes() {
        assert_eq!(parse_buffer("64K"), Ok(65_536));
        assert!(parse_buffer("63K").is_err());
    }
}
