//! `millstream bench bw_tcp`: within one machine, or between a server and a client.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::{self, Failure};

use super::bandwidth;
use super::measuring::measure;
use super::outputs::Outputs;
use crate::engine::Effort;
use crate::method::bandwidth::Method;
use crate::method::bandwidth::remote::{self, Server};
use crate::method::bw_tcp::BwTcp;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench bw_tcp
  millstream bench bw_tcp --transfer 64k --seed-faithful --json tcp.json

Between two hosts, of which the client measures:
  millstream bench bw_tcp --server --listen 0.0.0.0:7777
  millstream bench bw_tcp --connect bigbox:7777 --transfer 64k

The server sends to any client until it is interrupted: use it in a network that you trust.

Exit status: 0, 2 for wrong use, an address that cannot be used or a server that cannot be reached,
3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench bw_tcp`.
#[derive(Args)]
pub(super) struct Options {
    /// Serve clients on other hosts instead of measuring
    #[arg(long, conflicts_with_all = ["connect", "transfer", "variant", "seed_faithful", "transport", "placement",
        "rounds", "json"])]
    server: bool,

    /// Where the server listens; port 0 is any that is free, and the server says which
    #[arg(long, value_name = "ADDR:PORT", requires = "server", default_value = "0.0.0.0:0")]
    listen: String,

    /// Measure from a server on another host
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["transport", "placement"])]
    connect: Option<String>,

    #[command(flatten)]
    local: bandwidth::Options,
}

/// Measures, or serves.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    match options.connect {
        _ if options.server => serve(&options.listen),
        Some(server) => measure_from(server, options.local),
        None => bandwidth::run::<BwTcp>(options.local),
    }
}

fn serve(listen: &str) -> Result<ExitCode, Failure> {
    let server = Server::listen(listen).map_err(Failure::usage)?;
    let address = server.address().map_err(Failure::own)?;
    failure::print(&format!("listening on {address}\n"))?;
    server.serve(|complaint| failure::warn(complaint))
}

fn measure_from(server: String, options: bandwidth::Options) -> Result<ExitCode, Failure> {
    let bandwidth::Options { work, common, .. } = options;
    let outputs = Outputs::open(&common.output)?;
    let plan = remote::Plan {
        transfers: work.transfers(BwTcp::transfers(work.depth())),
        workloads: work.workloads(),
        amount: work.amount::<BwTcp>(),
        server,
    };
    let comparisons = remote::comparisons(&plan).map_err(Failure::usage)?;
    measure(comparisons, Effort::exactly(common.rounds as usize), outputs)
}
