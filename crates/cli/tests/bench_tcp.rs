//! `millstream bench bw_tcp` between a server and a client: on one host, and on two, which are network namespaces with
//! an Ethernet pair between them. No namespace, interface or process has a fixed name, and each is gone with its test.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use common::{Scratch, Seen, millstream, output, program, wait_for};
use serde_json::Value;

/// Killed with its test. What it started is killed by the kernel when it goes.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ended {
    fn start(command: &mut Command) -> Ended {
        Ended(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

/// A server and the port that it says it listens on.
fn server(mut command: Command) -> (Ended, String) {
    let mut server = Ended::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit_once(':').unwrap_or_else(|| panic!("{line:?}")).1.to_owned();
    (server, port)
}

fn serving(listen: &str) -> Command {
    let mut command = with_parent(program());
    command.args(["bench", "bw_tcp", "--server", "--listen", listen]);
    command
}

/// A command that is killed when the thread of the test ends, however it does.
fn with_parent(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

fn client(server: &str, more: &[&str]) -> Vec<String> {
    let usual = ["bench", "bw_tcp", "--connect", server, "--rounds", "5", "--transfer", "64k"];
    usual.iter().chain(more).map(ToString::to_string).collect()
}

/// The only cell of a valid document.
fn cell(json: &std::path::Path) -> Value {
    let document: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "{document}");
    assert_eq!((&cells[0]["valid"], &cells[0]["n"]), (&true.into(), &5.into()), "{document}");
    assert_eq!((&cells[0]["transport"], &cells[0]["placement"]), (&"tcp".into(), &"free".into()));
    cells[0].clone()
}

/// A network namespace without a name, which lasts as long as a process that sleeps in it.
struct Host(Ended);

impl Host {
    fn new() -> Host {
        let mut command = with_parent("unshare");
        let host = Host(Ended::start(command.args(["--net", "sleep", "1000"])));
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let its = format!("/proc/{}/ns/net", host.0.pid());
        wait_for("a network namespace of its own; this test needs root", || {
            fs::read_link(&its).is_ok_and(|namespace| namespace != own)
        });
        host
    }

    /// A command that runs there.
    fn command(&self, program: &str) -> Command {
        let mut command = with_parent("nsenter");
        command.args(["--net", "--target", &self.0.pid(), program]);
        command
    }

    fn ip(&self, arguments: &str) {
        let seen = output(self.command("ip").args(arguments.split(' ')));
        assert_eq!(seen.code, Some(0), "ip {arguments}: {seen:?}; this test needs root, iproute2 and veth");
    }
}

/// Two hosts with an Ethernet between them, and their addresses, from the block for documents (RFC 5737).
fn two_hosts() -> [Host; 2] {
    let [one, two] = [Host::new(), Host::new()];
    one.ip(&format!("link add name here type veth peer name there netns {}", two.0.pid()));
    one.ip("address add 192.0.2.1/30 dev here");
    two.ip("address add 192.0.2.2/30 dev there");
    one.ip("link set here up");
    two.ip("link set there up");
    [one, two]
}

#[test]
fn bandwidth_between_two_hosts() {
    let scratch = Scratch::new();
    let [one, two] = two_hosts();
    let mut command = one.command(program());
    command.args(["bench", "bw_tcp", "--server", "--listen", "192.0.2.1:0"]);
    let (_server, port) = server(command);
    let json = scratch.path("out.json");
    let arguments = client(&format!("192.0.2.1:{port}"), &["--seed-faithful", "--json", json.to_str().unwrap()]);
    let seen = output(two.command(program()).args(arguments));
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.stdout.starts_with("GB/s, from another host\n"), "{seen:?}");
    let cell = cell(&json);
    assert_eq!((&cell["params"]["host"], &cell["params"]["bytes"]), (&"192.0.2.1".into(), &3_000_000.into()));
}

#[test]
fn dead_server_makes_the_cell_invalid() {
    let [one, two] = two_hosts();
    let mut command = one.command(program());
    command.args(["bench", "bw_tcp", "--server", "--listen", "192.0.2.1:0"]);
    let (server, port) = server(command);
    let arguments = ["bench", "bw_tcp", "--rounds", "10000", "--transfer", "64k", "--connect"];
    let mut command = two.command(program());
    command.args(arguments).arg(format!("192.0.2.1:{port}")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    wait_for("a client", || fs::read_to_string(&children).is_ok_and(|list| !list.trim().is_empty()));
    drop(server);
    wait_for("the end", || running.try_wait().unwrap().is_some());
    let seen = Seen::from(running.wait_with_output().unwrap());
    assert_eq!(seen.code, Some(3), "{seen:?}");
    assert!(seen.stdout.contains("not valid: bw_tcp 64k over tcp at free: "), "{seen:?}");
}

#[test]
fn unreachable_host_fails_with_one_sentence() {
    let [_one, two] = two_hosts();
    // 203.0.113.1 (RFC 5737 too) has no route; no process listens on the first port.
    for address in ["203.0.113.1:7", "192.0.2.1:1"] {
        let seen = output(two.command(program()).args(client(address, &[])));
        assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.lines().count()), (Some(2), "", 1), "{seen:?}");
        assert!(seen.stderr.contains(&format!("cannot connect to {address}")), "{seen:?}");
    }
}

/// A new namespace has a loopback interface that is down.
#[test]
fn a_loopback_interface_that_is_down_is_named() {
    let host = Host::new();
    let arguments = ["bench", "bw_tcp", "--transfer", "64k", "--placement", "1cpu", "--rounds", "5"];
    let seen = output(host.command(program()).args(arguments));
    assert_eq!(seen.code, Some(3), "{seen:?}");
    let why = "not valid: bw_tcp 64k over tcp at 1cpu: cannot connect over the loopback interface";
    assert!(seen.stdout.contains(why) && seen.stdout.contains("is the interface up?"), "{seen:?}");
}

#[test]
fn server_serves_one_client_at_a_time_and_refuses_other_programs() {
    let scratch = Scratch::new();
    let (mut running, port) = server(serving("127.0.0.1:0"));
    let address = format!("127.0.0.1:{port}");
    for variant in ["hot", "fresh", "summed"] {
        let mut stranger = TcpStream::connect(&address).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(stranger.read(&mut [0; 10]).unwrap_or(0), 0);
        let json = scratch.path(variant);
        let seen = output(&mut millstream(client(&address, &["--variant", variant, "--json", json.to_str().unwrap()])));
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
        assert_eq!(cell(&json)["params"]["workload"], variant);
    }
    running.0.kill().unwrap();
    let mut complaints = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints.matches("no client of this version of millstream").count(), 3, "{complaints}");
    assert_eq!(complaints.lines().count(), 3, "{complaints}");
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let listening_on_taken = ["--server", "--listen", &taken];
    for (arguments, says) in [
        (&listening_on_taken[..], "choose another port, or 0"),
        (&["--server", "--listen", "203.0.113.1:0"], "choose an address of this machine"),
        (&["--server", "--listen", "nowhere"], "'nowhere' is no HOST:PORT"),
        (&["--server", "--connect", "x:1"], "cannot be used with"),
        (&["--listen", "127.0.0.1:0"], "--server"),
        (&["--connect", "no.such.host.invalid:7"], "no HOST:PORT that is known"),
        (&["--connect", "127.0.0.1:1"], "does 'millstream bench bw_tcp --server' run there?"),
        (&["--connect", "127.0.0.1:1", "--placement", "1cpu"], "cannot be used with"),
    ] {
        let seen = output(&mut millstream([&["bench", "bw_tcp"], arguments].concat()));
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(2), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
}
