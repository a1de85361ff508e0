//! Streams of messages of one size that tell which message each is.
//!
//! ```text
//! message 0            message 1            message 2
//! [stamp 0|body.....]  [stamp 1|body.....]  [stamp 2|body.....]
//! ```
//!
//! The stamp is the first eight bytes (all, where a message is shorter), another in each message; the body is the same
//! in all. So a message costs the writer eight bytes of work whatever its size, and a reader that compares
//! finds a byte that was lost, doubled or changed.

use std::io::Read;

use crate::page_aligned::PageAligned;
use crate::pattern;
use crate::random::Random;
use crate::transport::WriteEnd;

const STAMP_BYTES: usize = 8;

fn stamp(message: u64) -> [u8; STAMP_BYTES] {
    Random(message).word().to_le_bytes()
}

/// Messages in order, made in place.
pub(super) struct Messages {
    bytes: PageAligned,
}

impl Messages {
    /// Of `size` bytes each.
    fn new(size: usize) -> Messages {
        let mut bytes = PageAligned::new(size);
        // From a position that no stamp comes from.
        pattern::fill(1 << 63, &mut bytes);
        Messages { bytes }
    }

    fn make(&mut self, message: u64) -> &[u8] {
        let stamped = self.bytes.len().min(STAMP_BYTES);
        self.bytes[..stamped].copy_from_slice(&stamp(message)[..stamped]);
        &self.bytes
    }
}

/// The writer's side.
pub(super) struct Sender {
    end: Box<dyn WriteEnd>,
    messages: Messages,
    sent: u64,
}

impl Sender {
    /// Sends messages of `size` bytes.
    pub(super) fn new(end: Box<dyn WriteEnd>, size: usize) -> Sender {
        Sender { end, messages: Messages::new(size), sent: 0 }
    }

    /// Writes the next message.
    pub(super) fn send(&mut self) -> Result<(), String> {
        let message = self.messages.make(self.sent);
        self.end.write_all(message).map_err(|error| format!("cannot write message {}: {error}", self.sent))?;
        self.sent += 1;
        Ok(())
    }

    /// How many bytes were written.
    pub(super) fn bytes(&self) -> u64 {
        self.sent * self.messages.bytes.len() as u64
    }

    /// Ends the stream.
    pub(super) fn finish(self) {
        self.end.finish();
    }
}

/// The reader's side.
pub(super) struct Receiver {
    end: Box<dyn Read>,
    buffer: PageAligned,
    /// The message that the next byte belongs to, as it should be.
    expected: Messages,
    /// Its number, and how many bytes of it came.
    message: u64,
    offset: usize,
}

impl Receiver {
    /// Expects messages of `size` bytes and reads `transfer` at once.
    pub(super) fn new(end: Box<dyn Read>, size: usize, transfer: usize) -> Receiver {
        let expected = Messages::new(size);
        Receiver { end, buffer: PageAligned::new(transfer), expected, message: 0, offset: 0 }
    }

    /// How many bytes came.
    pub(super) fn bytes(&self) -> u64 {
        self.message * self.size() as u64 + self.offset as u64
    }

    /// Reads once and compares every byte that came; returns how many, 0 at the end.
    pub(super) fn some_compared(&mut self) -> Result<usize, String> {
        let count = self.read(0)?;
        self.compare(count)?;
        Ok(count)
    }

    /// Reads the next message, whose size is the transfer size, and compares its stamp; its body is left in the buffer
    /// for [`compare_body`](Self::compare_body).
    pub(super) fn message(&mut self) -> Result<(), String> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.read(filled)? {
                0 => return Err(format!("the stream ended after {} bytes", self.bytes() + filled as u64)),
                count => filled += count,
            }
        }
        let stamped = self.size().min(STAMP_BYTES);
        if self.buffer[..stamped] != stamp(self.message)[..stamped] {
            return Err(self.wrong(0, stamped));
        }
        self.message += 1;
        Ok(())
    }

    /// Compares the rest of the message that came last.
    pub(super) fn compare_body(&self) -> Result<(), String> {
        let stamped = self.size().min(STAMP_BYTES);
        match self.buffer[stamped..] == self.expected.bytes[stamped..] {
            true => Ok(()),
            false => Err(format!("a byte of message {} is wrong", self.message.saturating_sub(1))),
        }
    }

    /// Expects that nothing more comes.
    pub(super) fn expect_the_end(&mut self) -> Result<(), String> {
        match self.read(0)? {
            0 => Ok(()),
            more => Err(format!("{more} bytes came after the last")),
        }
    }

    fn size(&self) -> usize {
        self.expected.bytes.len()
    }

    fn read(&mut self, from: usize) -> Result<usize, String> {
        self.end
            .read(&mut self.buffer[from..])
            .map_err(|error| format!("cannot read at byte {}: {error}", self.bytes()))
    }

    /// The first `count` bytes of the buffer against what comes next.
    fn compare(&mut self, count: usize) -> Result<(), String> {
        let mut from = 0;
        while from < count {
            if self.offset == 0 {
                self.expected.make(self.message);
            }
            let part = (count - from).min(self.size() - self.offset);
            if self.buffer[from..from + part] != self.expected.bytes[self.offset..self.offset + part] {
                return Err(self.wrong(from, part));
            }
            from += part;
            self.offset += part;
            if self.offset == self.size() {
                (self.message, self.offset) = (self.message + 1, 0);
            }
        }
        Ok(())
    }

    /// Which of `part` bytes at `from` in the buffer is the first that is not as expected.
    fn wrong(&mut self, from: usize, part: usize) -> String {
        let expected = &self.expected.make(self.message)[self.offset..self.offset + part];
        let seen = &self.buffer[from..from + part];
        let index = expected.iter().zip(seen).take_while(|(expected, seen)| expected == seen).count();
        format!("byte {} of the stream is wrong", self.bytes() + index as u64)
    }
}

#[cfg(test)]
pub(super) mod faulty {
    use super::*;
    use std::io::{self, Write};

    /// What is planted at one byte of a write.
    pub(in crate::method) type Fault = fn(&[u8], usize) -> Vec<u8>;

    /// A writer that does something to one byte.
    pub(in crate::method) struct Faulty {
        pub(in crate::method) inner: Box<dyn WriteEnd>,
        pub(in crate::method) at: u64,
        pub(in crate::method) fault: Fault,
        pub(in crate::method) position: u64,
    }

    impl Write for Faulty {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let range = self.position..self.position + bytes.len() as u64;
            match range.contains(&self.at) {
                true => self.inner.write_all(&(self.fault)(bytes, (self.at - self.position) as usize))?,
                false => self.inner.write_all(bytes)?,
            }
            self.position = range.end;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl WriteEnd for Faulty {
        fn finish(self: Box<Self>) {
            self.inner.finish();
        }
    }

    pub(in crate::method) fn changed(bytes: &[u8], index: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[index] ^= 1;
        bytes
    }

    pub(in crate::method) fn doubled(bytes: &[u8], index: usize) -> Vec<u8> {
        [&bytes[..=index], &bytes[index..]].concat()
    }

    pub(in crate::method) fn lost(bytes: &[u8], index: usize) -> Vec<u8> {
        [&bytes[..index], &bytes[index + 1..]].concat()
    }

    pub(in crate::method) fn killed(_: &[u8], _: usize) -> Vec<u8> {
        millstream_sys::signals::raise_unblocked(9);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::faulty::{Fault, Faulty, changed, doubled, lost};
    use super::*;
    use crate::engine::placement::Placement;
    use crate::transport::{Ends, Transport, kernel_pipe};

    /// Two ends of a pipe in this process, which must not be written more than it holds.
    fn stream(size: usize, transfer: usize, at: u64, fault: Fault) -> (Sender, Receiver) {
        let Ends { writer, reader } = kernel_pipe::DEFAULT.connect(Placement::OneCpu).unwrap();
        let writer = Faulty { inner: writer, at, fault, position: 0 };
        (Sender::new(Box::new(writer), size), Receiver::new(reader, size, transfer))
    }

    fn drain(receiver: &mut Receiver) -> Result<(), String> {
        while receiver.some_compared()? > 0 {}
        Ok(())
    }

    #[test]
    fn reads_of_any_size_compare_messages_of_any_size() {
        for (size, transfer) in [(512, 4096), (512, 1), (3, 7), (1, 64), (1000, 999), (8, 8), (9, 100)] {
            let (mut sender, mut receiver) = stream(size, transfer, u64::MAX, changed);
            (0..20).for_each(|_| sender.send().unwrap());
            let sent = sender.bytes();
            sender.finish();
            drain(&mut receiver).unwrap();
            assert_eq!((sent, receiver.bytes()), (20 * size as u64, sent));
        }
    }

    #[test]
    fn a_byte_that_is_changed_lost_or_doubled_is_found_where_all_are_compared() {
        for at in [0, 7, 8, 511, 512, 5000] {
            for fault in [changed, lost, doubled] {
                let (mut sender, mut receiver) = stream(512, 1000, at, fault);
                (0..20).for_each(|_| sender.send().unwrap());
                sender.finish();
                let why = drain(&mut receiver).unwrap_err();
                assert!(why.starts_with("byte ") && why.ends_with(" of the stream is wrong"), "{at}: {why}");
            }
            let (mut sender, mut receiver) = stream(512, 1000, at, changed);
            (0..20).for_each(|_| sender.send().unwrap());
            assert_eq!(drain(&mut receiver), Err(format!("byte {at} of the stream is wrong")));
        }
    }

    #[test]
    fn a_message_that_is_shifted_is_found_by_its_stamp() {
        for fault in [lost, doubled] {
            let (mut sender, mut receiver) = stream(64, 64, 700, fault);
            (0..20).for_each(|_| sender.send().unwrap());
            sender.finish();
            let why = (0..20).try_for_each(|_| receiver.message()).unwrap_err();
            assert!(why.ends_with(" of the stream is wrong"), "{why}");
        }
    }

    #[test]
    fn a_body_that_is_changed_is_found_where_it_is_compared() {
        let (mut sender, mut receiver) = stream(64, 64, 64 + 30, changed);
        (0..2).for_each(|_| sender.send().unwrap());
        receiver.message().unwrap();
        receiver.compare_body().unwrap();
        receiver.message().unwrap();
        assert_eq!(receiver.compare_body(), Err("a byte of message 1 is wrong".into()));
    }

    #[test]
    fn an_end_within_a_message_is_an_error_and_one_after_the_last_is_not() {
        let (mut sender, mut receiver) = stream(64, 64, 64 + 63, lost);
        (0..2).for_each(|_| sender.send().unwrap());
        sender.finish();
        receiver.message().unwrap();
        assert_eq!(receiver.message(), Err("the stream ended after 127 bytes".into()));
        let (sender, mut receiver) = stream(64, 64, u64::MAX, lost);
        sender.finish();
        assert_eq!(receiver.expect_the_end(), Ok(()));
        let (mut sender, mut receiver) = stream(64, 64, u64::MAX, lost);
        sender.send().unwrap();
        assert_eq!(receiver.expect_the_end(), Err("64 bytes came after the last".into()));
    }
}
