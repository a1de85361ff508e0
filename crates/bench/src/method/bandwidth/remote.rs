//! Bandwidth between two machines: a server pushes what a client asks for, and the client measures.
//!
//! ```text
//! client                                            server
//!   │ ── "millstream bw 1\n", transfer, workload ──▶ │ one connection for each launch
//!   │ ◀───────────────────────── "millstream bw 1\n" │
//!   │ ── how many bytes ───────────────────────────▶ │ for each pass of `passes`
//!   │ ◀══════════════════════════════════════ bytes  │ the clock runs from the question to the last byte
//!   │ ◀───────────────────────────────── the end     │
//! ```
//!
//! Numbers are eight bytes, the least significant first. There is no shared memory between machines, so the question is
//! timed with the answer: half a round trip in what lasts 8 ms at least.
//!
//! The server tells nothing about its machine and reads nothing of it, but it sends to every client: use it in a network
//! that you trust.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use millstream_sys::{clock, cpu};

use super::ends::{Sink, Source};
use super::workload::Workload;
use super::{Amount, Method, TRANSFER_MAX, Task, passes};
use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::{Comparison, Job, Launch};
use crate::method::baton::Baton;
use crate::method::bw_tcp::BwTcp;
use crate::transport::{WriteEnd, tcp};

const GREETING: [u8; 16] = *b"millstream bw 1\n";

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long the other may say nothing.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);

/// No pass asks for more, so a client that does is not ours.
const PASS_BYTES_MAX: u64 = 2 << 30;

/// Pushes bytes to clients, one client after the other: two at a time would measure each other.
pub struct Server(TcpListener);

impl Server {
    /// Listens at `address`: HOST:PORT, with port 0 for any that is free.
    ///
    /// # Errors
    /// A sentence: not an address of this machine, or the port is taken.
    pub fn listen(address: &str) -> Result<Server, String> {
        let cannot = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "; choose another port, or 0 for any that is free",
                io::ErrorKind::AddrNotAvailable => "; choose an address of this machine",
                _ => "",
            };
            format!("cannot listen on {address}: {error}{hint}")
        };
        first_of(&addresses(address)?, tcp::listen).map(Server).map_err(cannot)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// A sentence: the kernel does not tell.
    pub fn address(&self) -> Result<SocketAddr, String> {
        self.0.local_addr().map_err(|error| format!("cannot tell where it listens: {error}"))
    }

    /// Serves clients for ever; `complain` is told what goes wrong with one.
    pub fn serve(&self, mut complain: impl FnMut(&str)) -> ! {
        loop {
            match self.0.accept() {
                Ok((stream, client)) => {
                    if let Err(why) = serve_one(stream) {
                        complain(&format!("{client}: {why}"));
                    }
                }
                Err(error) => {
                    complain(&format!("cannot accept a connection: {error}"));
                    // Whatever is used up, files or memory, may be there again later.
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }
}

fn serve_one(mut stream: TcpStream) -> Result<(), String> {
    prepare(&stream).map_err(|error| format!("cannot prepare the connection: {error}"))?;
    let mut greeting = [0; GREETING.len()];
    stream.read_exact(&mut greeting).map_err(|error| format!("no greeting: {error}"))?;
    if greeting != GREETING {
        return Err("what connected is no client of this version of millstream".into());
    }
    let transfer = receive_number(&mut stream)?;
    let workload = receive_number(&mut stream)?;
    let transfer = usize::try_from(transfer).ok().filter(|transfer| (1..=TRANSFER_MAX).contains(transfer));
    let workload = usize::try_from(workload).ok().and_then(|index| Workload::ALL.get(index)).copied();
    let (Some(transfer), Some(workload)) = (transfer, workload) else {
        return Err("it asked for a transfer or a workload that there is not".into());
    };
    stream.write_all(&GREETING).map_err(|error| format!("cannot greet: {error}"))?;
    let copy = stream.try_clone().map_err(|error| format!("cannot use the connection: {error}"))?;
    let mut first = [0];
    // A client that only checked for a server closes the connection without a question.
    if matches!(stream.peek(&mut first), Ok(0)) {
        return Ok(());
    }
    let task = Task { transfer, workload, amount: Amount::AtLeast(BwTcp::SAMPLE_BYTES) };
    passes::write(Sink::Copying(Box::new(Pushing(copy))), Line(stream), task)
}

struct Pushing(TcpStream);

impl Write for Pushing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Pushing {
    fn finish(self: Box<Self>) {
        // The client has everything or is gone; in both cases an error has no recipient.
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

/// The way back, on which the client says how much it wants.
struct Line(TcpStream);

impl Baton for Line {
    fn await_go(&mut self) -> Result<u64, String> {
        match receive_number(&mut self.0)? {
            bytes if bytes <= PASS_BYTES_MAX => Ok(bytes),
            bytes => Err(format!("it asked for {bytes} bytes at once")),
        }
    }

    fn go(&mut self, bytes: u64) -> Result<u64, String> {
        let start = clock::raw_nanoseconds();
        send_number(&mut self.0, bytes)?;
        Ok(start)
    }
}

fn receive_number(stream: &mut TcpStream) -> Result<u64, String> {
    let mut number = [0; 8];
    stream.read_exact(&mut number).map_err(|error| format!("it does not ask: {error}"))?;
    Ok(u64::from_le_bytes(number))
}

fn send_number(stream: &mut TcpStream, number: u64) -> Result<(), String> {
    stream.write_all(&number.to_le_bytes()).map_err(|error| format!("cannot ask: {error}"))
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    tcp::prepare(stream)?;
    stream.set_read_timeout(Some(SILENCE_LIMIT))?;
    stream.set_write_timeout(Some(SILENCE_LIMIT))
}

fn addresses(name: &str) -> Result<Vec<SocketAddr>, String> {
    let found = name.to_socket_addrs().map_err(|error| format!("'{name}' is no HOST:PORT that is known: {error}"))?;
    Ok(found.collect())
}

/// The first of `addresses` with which `attempt` succeeds, or the last error.
fn first_of<T>(addresses: &[SocketAddr], attempt: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
    for &address in addresses {
        outcome = attempt(address);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// What to measure over the network.
pub struct Plan {
    /// Bytes for each write and read, each 1 to [`TRANSFER_MAX`].
    pub transfers: Vec<usize>,
    /// What server and client do besides.
    pub workloads: Vec<Workload>,
    /// What a sample moves.
    pub amount: Amount,
    /// The server's HOST:PORT.
    pub server: String,
}

/// A comparison with nothing for each transfer and workload.
///
/// # Errors
/// A sentence: no program answers there, or one that is not this server.
pub fn comparisons(plan: &Plan) -> Result<Vec<Comparison>, String> {
    connect(&plan.server, 1, Workload::Hot)?;
    let tasks = plan.transfers.iter().flat_map(|&transfer| {
        plan.workloads.iter().map(move |&workload| Task { transfer, workload, amount: plan.amount })
    });
    let alone = |task| Comparison { baseline: None, rehearsals: 0, jobs: vec![job(task, &plan.server)] };
    Ok(tasks.map(alone).collect())
}

fn job(task: Task, server: &str) -> Job {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let mut params: BTreeMap<_, _> = task.params();
    params.insert("host", host.into());
    let server = server.to_owned();
    let cell = Cell::new(BwTcp::NAME, "tcp", "free", params, MEGABYTES_PER_SECOND);
    Job::new(cell, move || launch(task, &server))
}

/// MB/s of one launch, or the check that it failed.
fn launch(task: Task, server: &str) -> Result<Launch, String> {
    pull(connect(server, task.transfer, task.workload)?, task)
}

fn pull(stream: TcpStream, task: Task) -> Result<Launch, String> {
    let allowed = cpu::allowed().map_err(|error| format!("cannot ask which CPUs are allowed: {error}"))?;
    let copy = stream.try_clone().map_err(|error| format!("cannot use the connection: {error}"))?;
    // Wherever the server runs, the client's place is known.
    let post = Post { name: "client", cpu: allowed[0] };
    crew::run(&[post], move |_| {
        passes::read(Source::copying(Box::new(stream), task.transfer), Line(copy), task).map(Some)
    })
}

/// A connection to a server that knows what is to be measured.
fn connect(server: &str, transfer: usize, workload: Workload) -> Result<TcpStream, String> {
    let stream = first_of(&addresses(server)?, |address| TcpStream::connect_timeout(&address, CONNECT_LIMIT));
    let mut stream = stream.map_err(|error| {
        format!("cannot connect to {server}: {error}; does 'millstream bench bw_tcp --server' run there?")
    })?;
    prepare(&stream).map_err(|error| format!("cannot prepare the connection: {error}"))?;
    let index = Workload::ALL.iter().position(|&known| known == workload).unwrap_or(0);
    let greeting = [&GREETING[..], &(transfer as u64).to_le_bytes(), &(index as u64).to_le_bytes()].concat();
    let mut answer = [0; GREETING.len()];
    let greeted = stream.write_all(&greeting).and_then(|()| stream.read_exact(&mut answer));
    match greeted {
        Ok(()) if answer == GREETING => Ok(stream),
        Ok(()) => Err(format!("what answers at {server} is no millstream of this version")),
        Err(error) => Err(format!("{server} does not answer as millstream does: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose thread goes with the test's process.
    fn server() -> String {
        let server = Server::listen("127.0.0.1:0").unwrap();
        let address = server.address().unwrap().to_string();
        std::thread::spawn(move || server.serve(|_| ()));
        address
    }

    #[test]
    fn a_client_measures_what_a_server_pushes() {
        let server = server();
        for workload in Workload::ALL {
            let task = Task { transfer: 10_007, workload, amount: Amount::Exactly(3_000_000) };
            assert!(launch(task, &server).unwrap().samples[0] > 0.0);
        }
    }

    #[test]
    fn server_goes_on_after_foreign_client() {
        let server = server();
        let mut foreign = TcpStream::connect(&server).unwrap();
        foreign.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(foreign.read(&mut [0; 100]).unwrap_or(0), 0, "it hangs up");
        assert!(connect(&server, TRANSFER_MAX + 1, Workload::Hot).unwrap_err().contains("does not answer as"));
        assert!(connect(&server, 1, Workload::Hot).is_ok());
    }

    #[test]
    fn client_gets_nothing_when_it_asks_for_too_much() {
        let mut greedy = connect(&server(), 1, Workload::Hot).unwrap();
        send_number(&mut greedy, u64::MAX).unwrap();
        assert_eq!(greedy.read(&mut [0; 100]).unwrap_or(0), 0);
    }

    #[test]
    fn a_server_that_dies_gives_no_rate() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let dying = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; 32];
            stream.read_exact(&mut greeting).unwrap();
            stream.write_all(&GREETING).unwrap();
        });
        let stream = connect(&address, 4096, Workload::Hot).unwrap();
        // Gone before the client is forked, which would have a copy of its socket.
        dying.join().unwrap();
        let task = Task { transfer: 4096, workload: Workload::Hot, amount: Amount::AtLeast(1) };
        let why = pull(stream, task).unwrap_err();
        let is_said = ["the stream ended after 0 bytes", "cannot read at byte 0", "cannot ask"];
        assert!(is_said.iter().any(|part| why.contains(part)), "{why}");
    }

    #[test]
    fn what_cannot_be_reached_is_one_sentence() {
        for (server, says) in [
            ("127.0.0.1", "no HOST:PORT"),
            ("no.such.host.invalid:1", "no HOST:PORT"),
            ("127.0.0.1:1", "does 'millstream bench bw_tcp --server' run there?"),
        ] {
            let why = connect(server, 1, Workload::Hot).unwrap_err();
            assert!(why.contains(says) && !why.contains('\n'), "{why}");
        }
        let taken = Server::listen("127.0.0.1:0").unwrap();
        let why = Server::listen(&taken.address().unwrap().to_string()).err().unwrap();
        assert!(why.contains("choose another port"), "{why}");
        assert!(Server::listen("192.0.2.1:0").err().unwrap().contains("an address of this machine"));
    }
}
