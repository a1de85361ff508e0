//! The command-line program: arguments in, library calls, exit status out.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod buffer;
mod bytes;
mod ctl;
mod explain;
mod fifo;
mod gc;
mod manual;
mod mount;
mod mounts;
mod net;
mod ps;
mod run;
mod statistics;
mod terminal;
mod top;
mod watch;

use std::process::ExitCode;

use millstream_command::failure;

use args::Action;

fn main() -> ExitCode {
    failure::report_bugs(terminal::screen::leave);
    let outcome = args::parse().and_then(|action| match action {
        Action::Run(options) => run::run(options),
        Action::Bench => bench::bench(),
        Action::Ctl(options) => ctl::ctl(&options),
        Action::Ps(options) => ps::ps(&options),
        Action::Gc(options) => gc::gc(&options),
        Action::Fifo(options) => fifo::run(options),
        Action::Net(options) => net::net(*options),
        Action::Top(options) => top::top(&options),
        Action::Explain(options) => explain::explain(&options),
        Action::Buffer(options) => buffer::buffer(*options),
        Action::Mount(options) => mount::mount(&options),
        Action::Mounts(options) => mounts::mounts(&options),
        Action::Link(options) => mounts::link(&options),
        Action::Push(options) => mounts::push(options),
        Action::Pop(options) => mounts::pop(options),
        Action::Man(options) => manual::man(&options, args::table()),
        Action::Completions(options) => manual::completions(&options, args::table()),
        Action::Print(text) => failure::print(&text),
    });
    outcome.unwrap_or_else(|failure| failure.report())
}
