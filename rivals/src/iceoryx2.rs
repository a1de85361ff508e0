//! [iceoryx2](https://github.com/eclipse-iceoryx/iceoryx2): publish and subscribe over loans of shared memory.
//!
//! - **API**: a publish-subscribe service of `[u8]` with one publisher and one subscriber. A write loans a sample, copies
//!   the bytes into it and sends it; a read copies out of the sample and gives it back. The service neither overflows nor
//!   keeps a history, and the publisher retries until a sample is delivered: nothing is lost.
//! - **Waiting**: the subscriber polls, as in the library's own benchmark; the library keeps data and wake-ups apart, and
//!   its events would add a system call to each message. A publisher without room waits as the library does: it gives
//!   way, and sleeps when that takes long.
//! - **Cannot**: notice the death of a peer while it polls; whoever started the process must end it.
#![allow(unsafe_code)]

use std::io;

use iceoryx2::node::{Node, NodeBuilder};
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{
    AllocationStrategy, BackpressureStrategy, Config, FileName, Path, SemanticString, SignalHandlingMode, ipc,
};
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;
use millstream_bench::engine::placement::Placement;
use millstream_bench::transport::{Ends, Transport};

use crate::stream::{self, Messages, Rest, Stream};

/// Samples in flight hold this much together: about what stays in a second-level cache. Two at least, so that both ends
/// can work at once.
const IN_FLIGHT_BYTES: usize = 512 << 10;
const IN_FLIGHT_MAX: usize = 1024;

/// The transport.
pub struct Iceoryx2;

impl Transport for Iceoryx2 {
    fn name(&self) -> &'static str {
        "iceoryx2"
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        stream::connect(&Iceoryx2, placement)
    }

    fn sleeps(&self) -> bool {
        false
    }
}

impl Messages for Iceoryx2 {
    type Sender = Sender;
    type Receiver = Receiver;

    fn receiver(&self, stream: &Stream, message_bytes: usize) -> Result<Receiver, String> {
        let (node, service) = service(stream, message_bytes)?;
        let subscriber = service.subscriber_builder().create().map_err(|error| format!("no subscriber: {error}"))?;
        Ok(Receiver { subscriber, idle: stream.idle, _node: node })
    }

    fn sender(&self, stream: &Stream, message_bytes: usize) -> Result<Sender, String> {
        let (node, service) = service(stream, message_bytes)?;
        let publisher = service
            .publisher_builder()
            .initial_max_slice_len(message_bytes)
            .allocation_strategy(AllocationStrategy::PowerOfTwo)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create();
        let publisher = publisher.map_err(|error| format!("no publisher: {error}"))?;
        Ok(Sender { publisher, idle: stream.idle, _node: node })
    }
}

/// The release that was compiled in.
pub fn version() -> String {
    env!("ICEORYX2_VERSION").into()
}

type Service = PortFactory<ipc::Service, [u8], ()>;

/// The one service at the stream's site.
fn service(stream: &Stream, message_bytes: usize) -> Result<(Node<ipc::Service>, Service), String> {
    let text = |error: &dyn std::fmt::Debug| format!("iceoryx2 does not accept a name: {error:?}");
    let mut config = Config::default();
    config.global.set_root_path(
        &Path::new(stream.site.directory().as_os_str().as_encoded_bytes()).map_err(|error| text(&error))?,
    );
    config.global.prefix = FileName::new(format!("{}_", stream.site.id()).as_bytes()).map_err(|error| text(&error))?;
    let node = NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()
        .map_err(|error| format!("no node: {error}"))?;
    let in_flight = (IN_FLIGHT_BYTES / message_bytes).clamp(2, IN_FLIGHT_MAX);
    let service = node
        .service_builder(&"stream".try_into().map_err(|error| text(&error))?)
        .publish_subscribe::<[u8]>()
        .max_publishers(1)
        .max_subscribers(1)
        .history_size(0)
        .subscriber_max_buffer_size(in_flight)
        .subscriber_max_borrowed_samples(1)
        .enable_safe_overflow(false)
        .open_or_create()
        .map_err(|error| format!("no service: {error}"))?;
    Ok((node, service))
}

/// The publisher.
pub struct Sender {
    publisher: Publisher<ipc::Service, [u8], ()>,
    idle: fn(),
    _node: Node<ipc::Service>,
}

impl stream::Sender for Sender {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let sample = self.publisher.loan_slice_uninit(bytes.len()).map_err(|error| failed("loan", &error))?;
            // Nobody has got it if the buffer was full and the subscriber, which connects when it first polls, was not
            // there yet: the publisher waits for connected ones only.
            match sample.write_from_slice(bytes).send().map_err(|error| failed("send", &error))? {
                0 => (self.idle)(),
                _ => return Ok(bytes.len()),
            }
        }
    }
}

/// The subscriber.
pub struct Receiver {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    idle: fn(),
    _node: Node<ipc::Service>,
}

impl stream::Receiver for Receiver {
    fn receive(&mut self, into: &mut [u8], rest: &mut Rest) -> io::Result<usize> {
        loop {
            match self.subscriber.receive().map_err(|error| failed("receive", &error))? {
                Some(sample) => return Ok(rest.split(sample.payload(), into)),
                None => (self.idle)(),
            }
        }
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("iceoryx2 cannot {what}: {error}"))
}
