//! Raw DEFLATE (RFC 1951) that stops between blocks, and goes on from there at another time.
//!
//! This is what zlib's `Z_BLOCK`, `inflatePrime` and `inflateSetDictionary` are for; `flate2` does not have them. The calls are
//! those of `libz-rs-sys`, the same decompressor under its C names, and this is the only file that makes them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libz_rs_sys::{
    Z_BLOCK, Z_BUF_ERROR, Z_OK, Z_STREAM_END, inflate, inflateEnd, inflateGetDictionary, inflateInit2_, inflatePrime,
    inflateSetDictionary, z_stream, zlibVersion,
};

/// Bytes before a block that it may refer to.
pub(super) const WINDOW: usize = 32 << 10;

/// `inflateInit2` with a negative number of bits: without a header.
const RAW: c_int = -15;

/// A decompressor of one DEFLATE stream.
pub(super) struct Inflate {
    /// The library keeps a pointer to it in its own state: it must not move.
    stream: Box<z_stream>,
}

/// What one call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inflated {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    pub(super) at: At,
}

/// Where the decompressor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Within,
    /// Behind a block that is not the last. So many bits of the byte before belong to what follows.
    BlockEnd {
        bits: u8,
    },
    StreamEnd,
}

// SAFETY: the library's state belongs to the stream alone, and has no ties to a thread.
unsafe impl Send for Inflate {}

impl Inflate {
    pub(super) fn new() -> Result<Inflate, &'static str> {
        let mut stream = Box::new(z_stream::default());
        // SAFETY: a stream as the library makes it by default, at the place where it will stay; version and size are its own.
        let code = unsafe { inflateInit2_(&mut *stream, RAW, zlibVersion(), size_of::<z_stream>() as c_int) };
        if code == Z_OK { Ok(Inflate { stream }) } else { Err("no memory to decompress") }
    }

    /// One that goes on behind a block: the last `bits` of the byte before belong to what follows, and `window` was written
    /// before.
    pub(super) fn resumed(byte: u8, bits: u8, window: &[u8]) -> Result<Inflate, &'static str> {
        let mut inflate = Inflate::new()?;
        let stream = &mut *inflate.stream;
        let value = if bits == 0 { 0 } else { c_int::from(byte >> (8 - bits)) };
        // SAFETY: an initialised stream, at the place where it was initialised; the window is read for its length.
        let codes = unsafe {
            [
                inflatePrime(stream, c_int::from(bits), value),
                inflateSetDictionary(stream, window.as_ptr(), window.len() as _),
            ]
        };
        if codes == [Z_OK, Z_OK] { Ok(inflate) } else { Err("the checkpoint does not fit the stream") }
    }

    /// Decompresses some of `input` to the start of `output`; stops behind each block.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Inflated, &'static str> {
        let stream = &mut *self.stream;
        let (input_bytes, output_bytes) = (input.len().min(1 << 30) as u32, output.len().min(1 << 30) as u32);
        (stream.next_in, stream.avail_in) = (input.as_ptr().cast_mut(), input_bytes);
        (stream.next_out, stream.avail_out) = (output.as_mut_ptr(), output_bytes);
        // SAFETY: an initialised stream. The library reads the input, never writes it, and writes at most the output, both of
        // which outlive the call. The pointers that it leaves in the stream are replaced before the next call.
        let code = unsafe { inflate(stream, Z_BLOCK) };
        let inflated = |at| Inflated {
            consumed: (input_bytes - stream.avail_in) as usize,
            produced: (output_bytes - stream.avail_out) as usize,
            at,
        };
        let state = stream.data_type;
        match code {
            Z_STREAM_END => Ok(inflated(At::StreamEnd)),
            Z_OK | Z_BUF_ERROR if state & 128 != 0 && state & 64 == 0 => {
                Ok(inflated(At::BlockEnd { bits: (state & 7) as u8 }))
            }
            Z_OK | Z_BUF_ERROR => Ok(inflated(At::Within)),
            _ => Err("bad data"),
        }
    }

    /// The last bytes that were written, at most [`WINDOW`].
    pub(super) fn window(&mut self) -> Vec<u8> {
        let mut window = vec![0; WINDOW];
        let mut len = 0;
        // SAFETY: an initialised stream, and room for the largest window.
        let code = unsafe { inflateGetDictionary(&*self.stream, window.as_mut_ptr(), &mut len) };
        window.truncate(if code == Z_OK { len as usize } else { 0 });
        window
    }
}

impl Drop for Inflate {
    fn drop(&mut self) {
        // SAFETY: an initialised stream, which is not used again.
        unsafe { inflateEnd(&mut *self.stream) };
    }
}
