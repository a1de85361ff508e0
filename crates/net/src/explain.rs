//! Says how a network will run, and why.

use std::fmt::Write as _;

use crate::check::Checked;
use crate::plan::{Placement, Plan};
use crate::transform::{Kind, Size, State};

/// One line for each node, and one for the whole.
pub fn explain(checked: &Checked<'_>, plan: &Plan) -> String {
    let mut text = String::new();
    let lines: Vec<(String, String)> = (0..plan.placements.len())
        .map(|place| (checked.network.nodes[place].work.to_line(), why(checked, plan, place)))
        .collect();
    let width = lines.iter().map(|(work, _)| work.chars().count()).max().unwrap_or(0);
    for (work, why) in lines {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{work:width$}  {why}");
    }
    let Plan { threads, buffers, buffer_bytes, .. } = plan;
    let kept = match plan.kept_bytes.iter().sum::<usize>() {
        0 => String::new(),
        kept => format!(", and {kept} bytes that stages may keep"),
    };
    let _ = writeln!(
        text,
        "{threads} thread{}, {buffers} buffer{} of {buffer_bytes} bytes{kept}: {} bytes",
        plural(*threads),
        plural(*buffers),
        plan.memory()
    );
    text
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn why(checked: &Checked<'_>, plan: &Plan, place: usize) -> String {
    let splits = checked.network.fed_by(place).count();
    let split = if splits > 1 { format!("; copied {} times for {splits} readers", splits - 1) } else { String::new() };
    let what = match plan.placements[place] {
        Placement::Source => "one copy, from the file into the buffer".into(),
        Placement::Sink => "one copy, from the buffer to the file".into(),
        Placement::Fused => {
            format!(
                "no copy: works in the buffer of the stage before it{}{}",
                state(checked, place),
                threads(plan, place)
            )
        }
        Placement::External if checked.network.ends(place).are_named() => command(checked, place),
        Placement::External => format!(
            "two copies, into a pipe and out of another, with a thread that waits for what comes{}",
            size(checked, place)
        ),
        Placement::Inlet => format!("one copy, into a pipe of the command{}", spooled(checked, place)),
        Placement::Outlet => "one copy, out of a pipe of the command, with a thread that waits for what comes".into(),
        Placement::OwnThread => {
            format!("one copy, into a buffer of its own, in a thread of its own{}", size(checked, place))
        }
        Placement::Buffered => {
            "no copy: keeps the buffers of the stage before it, and hands them on in a thread of its own".into()
        }
        Placement::SameThread => format!(
            "one copy, into a buffer of its own, in the thread of the stage before it: {}{}",
            why_not_apart(checked, plan, place),
            size(checked, place)
        ),
    };
    what + &split
}

/// A command with named inputs or outputs.
fn command(checked: &Checked<'_>, place: usize) -> String {
    let ends = checked.network.ends(place);
    let input =
        if ends.has_input { "one copy, into its standard input" } else { "nothing goes into its standard input" };
    let output = match ends.has_output {
        true => "one copy, out of its standard output, with a thread that waits for what comes",
        false => "its standard output is told on stderr",
    };
    format!("{input}{}; {output}", spooled(checked, place))
}

fn spooled(checked: &Checked<'_>, place: usize) -> &'static str {
    match checked.is_spooled[place] {
        true => ", and two through a temporary file: the command may want another input first, and two ways lead to it",
        false => "",
    }
}

fn why_not_apart(checked: &Checked<'_>, plan: &Plan, place: usize) -> &'static str {
    let has_threads = checked.stages[place].as_ref().is_some_and(|(_, stage)| stage.has_threads);
    match checked.network.nodes[place].from.len() {
        2.. => "several streams meet here",
        _ if has_threads && plan.threads_allowed > 1 => "it has threads of its own",
        _ => "no thread is left",
    }
}

fn state(checked: &Checked<'_>, place: usize) -> &'static str {
    match checked.stages[place].as_ref().map(|(_, stage)| &stage.kind) {
        Some(Kind::InPlace(State::Stateless, _)) => "; needs nothing of the bytes before",
        Some(Kind::InPlace(State::Positional, _)) => "; needs to know where it is in the stream",
        _ => "; needs all bytes in order",
    }
}

/// On how many threads a worker group does a stage.
fn threads(plan: &Plan, place: usize) -> String {
    let Some(group) = plan.worker_groups.iter().find(|group| group.stages.contains(&place)) else {
        return String::new();
    };
    match group.why_one {
        Some(why) => format!("; on one thread: {why}"),
        None => format!("; on {} threads, each with pieces of the file", group.threads),
    }
}

fn size(checked: &Checked<'_>, place: usize) -> &'static str {
    match checked.stages[place].as_ref().map(|(_, stage)| stage.size) {
        Some(Size::Computed(_)) => "; the size of what comes out can be computed",
        Some(Size::Same) => "; as much comes out as goes in",
        _ => "; how much comes out is known at the end",
    }
}
