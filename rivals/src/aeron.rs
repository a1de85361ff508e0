//! [Aeron](https://aeron.io): its IPC transport, C client and C media driver.
//!
//! - **API**: an exclusive publication (the one for a single writer) and a subscription on `aeron:ipc`. A write is an
//!   `offer`; a read is a controlled poll that stops when the buffer is full. Each fragment's payload is copied out where it
//!   lies, so nothing is reassembled first.
//! - **Driver**: every Aeron stream needs a media driver, which gives its writer room. It is a process of its own, forked
//!   when the first stream of a sample is made, on the CPUs of its placement, in the one-threaded mode (`SHARED`) because
//!   there are so few. It ends with the streams, and the kernel ends it if this process dies.
//! - **Waiting**: an `offer` without room and a poll without fragments give way (`sched_yield`) and try again, on two CPUs
//!   too: there two ends that spin leave the driver no CPU, and a stream gets 0.1 GB/s. Aeron's default, which spins
//!   shortly, gives way and then sleeps, was as fast in bandwidth and slower in round trips on one CPU.
//! - **Memory**: terms of 1 MiB, all three of which are used before the clock starts, mapped and touched when a client opens
//!   them (`pre_touch_mapped_memory`). With the default of 64 MiB every byte goes to memory that nobody has touched before,
//!   and through no cache: about 2 GB/s.
//! - **Cannot**: send a message longer than an eighth of a term; a longer write becomes several. A reader is not told that
//!   its writer was killed before the driver gives it up, seconds later, and here polls on even then; whoever started the
//!   process must end it.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use millstream_bench::engine::placement::Placement;
use millstream_bench::transport::{Ends, Transport};
use millstream_sys::cpu;
use rusteron_media_driver::bindings::{
    aeron_controlled_fragment_handler_action_t as Action, aeron_threading_mode_t as ThreadingMode, aeron_version_major,
    aeron_version_minor, aeron_version_patch,
};
use rusteron_media_driver::{self as c, AeronOfferError};

use crate::site::{self, Site};
use crate::stream::{self, Messages, Rest, Stream};

/// How long a client waits for the driver, which may have to wait for a CPU.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of each of the three parts of a stream's memory; an end has to wait when half a term is on its way.
const TERM: &str = "1m";

/// Fragments that one poll takes at most, as in Aeron's samples.
const FRAGMENT_LIMIT: usize = 10;

/// Before each payload.
const HEADER_BYTES: usize = 32;

/// A fragment with its header: the driver's default, and its largest.
const MTU_MIN: usize = 1408;
const MTU_MAX: usize = 65_504;

/// The transport.
pub struct Aeron;

impl Transport for Aeron {
    fn name(&self) -> &'static str {
        "aeron"
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        stream::connect(&Aeron, placement)
    }

    fn sleeps(&self) -> bool {
        false
    }
}

impl Messages for Aeron {
    type Sender = Sender;
    type Receiver = Receiver;

    /// Streams that are made while another one is there share its driver.
    fn prepare(&self, placement: Placement) -> Result<Arc<Site>, String> {
        static DRIVER: Mutex<Weak<Site>> = Mutex::new(Weak::new());
        let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = driver.upgrade() {
            return Ok(site);
        }
        // Two at once would be in each other's way.
        site::settle_helpers();
        let cpus = placement.cpus()?;
        let mut site = Site::new()?;
        site.add_helper(|directory| drive(directory, &cpus))?;
        let site = Arc::new(site);
        *driver = Arc::downgrade(&site);
        Ok(site)
    }

    fn receiver(&self, stream: &Stream, message_bytes: usize) -> Result<Receiver, String> {
        let client = client(stream)?;
        let subscription = client
            .async_add_subscription(&channel(message_bytes), stream.number, c::Handlers::NONE, c::Handlers::NONE)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(|error| format!("no subscription: {error}"))?;
        Ok(Receiver { subscription, _client: client })
    }

    fn sender(&self, stream: &Stream, message_bytes: usize) -> Result<Sender, String> {
        let client = client(stream)?;
        let cannot = |error| format!("no publication: {error}");
        let publication = client
            .async_add_exclusive_publication(&channel(message_bytes), stream.number)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(cannot)?;
        let message_bytes_max = publication.get_constants().map_err(cannot)?.max_message_length();
        Ok(Sender { publication, message_bytes_max, _client: client })
    }
}

/// Where the driver of a site has its files.
fn directory(site: &Path) -> CString {
    CString::new(site.join("aeron").as_os_str().as_bytes()).unwrap_or_default()
}

/// The media driver, until its process is ended.
fn drive(site: &Path, cpus: &[usize]) {
    let run = || -> Result<(), c::AeronCError> {
        let context = c::AeronDriverContext::new()?;
        context.set_dir(&directory(site))?;
        context.set_threading_mode(ThreadingMode::AERON_THREADING_MODE_SHARED)?;
        let driver = c::AeronDriver::new(&context)?;
        driver.start(true)?;
        loop {
            driver.main_idle_strategy(driver.main_do_work()?);
        }
    };
    let _ = cpu::restrict_to(cpus);
    if let Err(error) = run() {
        eprintln!("millstream-rivals: the Aeron media driver has failed: {error}");
    }
}

/// A client of the site's driver.
fn client(stream: &Stream) -> Result<c::Aeron, String> {
    let start = || -> Result<c::Aeron, c::AeronCError> {
        let context = c::AeronContext::new()?;
        context.set_dir(&directory(stream.site.directory()))?;
        context.set_pre_touch_mapped_memory(true)?;
        let client = c::Aeron::new(&context)?;
        client.start()?;
        Ok(client)
    };
    start().map_err(|error| format!("no Aeron client: {error}"))
}

/// The release that was compiled in.
pub fn version() -> String {
    // SAFETY: takes nothing.
    let parts = unsafe { [aeron_version_major(), aeron_version_minor(), aeron_version_patch()] };
    parts.map(|part| part.to_string()).join(".")
}

/// The channel for such messages.
fn channel(message_bytes: usize) -> CString {
    let mtu = (message_bytes + HEADER_BYTES).next_multiple_of(HEADER_BYTES).clamp(MTU_MIN, MTU_MAX);
    CString::new(format!("aeron:ipc?term-length={TERM}|mtu={mtu}")).unwrap_or_default()
}

/// The publication.
pub struct Sender {
    publication: c::AeronExclusivePublication,
    message_bytes_max: usize,
    _client: c::Aeron,
}

impl stream::Sender for Sender {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(self.message_bytes_max)];
        loop {
            match self.publication.offer(bytes) {
                Ok(_) => return Ok(bytes.len()),
                // The driver has moved the stream to the next term.
                Err(AeronOfferError::AdminAction) => {}
                Err(AeronOfferError::BackPressured | AeronOfferError::NotConnected) => cpu::give_way(),
                Err(error) => return Err(io::Error::other(format!("cannot offer: {error}"))),
            }
        }
    }
}

/// The subscription.
pub struct Receiver {
    subscription: c::AeronSubscription,
    _client: c::Aeron,
}

impl stream::Receiver for Receiver {
    /// More than one fragment, if more are there and fit.
    fn receive(&mut self, into: &mut [u8], rest: &mut Rest) -> io::Result<usize> {
        let mut count = 0;
        let mut take = |payload: &[u8], _| {
            // What does not fit behind others is read by itself, and so is the end.
            if count > 0 && (payload.is_empty() || payload.len() > into.len() - count) {
                return Action::AERON_ACTION_ABORT;
            }
            count += rest.split(payload, &mut into[count..]);
            let is_enough = payload.is_empty() || count == into.len();
            if is_enough { Action::AERON_ACTION_BREAK } else { Action::AERON_ACTION_CONTINUE }
        };
        loop {
            let fragments = self.subscription.controlled_poll_fn(&mut take, FRAGMENT_LIMIT);
            match fragments.map_err(|error| io::Error::other(format!("cannot poll: {error}")))? {
                0 => cpu::give_way(),
                _ => return Ok(count),
            }
        }
    }
}
