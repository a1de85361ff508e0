//! What bounded a run, from what was seen of its programs and pipes. Pure: what is seen goes in, a sentence comes out.
//!
//! The evidence, strongest first:
//!
//! 1. A program that wants a CPU all the time waits for no other: it bounds the run. If it had to queue for that CPU, the CPUs
//!    do.
//! 2. Some program wants a CPU all the time, but not always the same one: with all CPUs busy or queues before them it is the CPUs.
//! 3. No program wants a CPU, and the pipes say where it is held up: behind a full pipe its readers, before an empty one its
//!    writers. If these wait for something that is neither a pipe nor a CPU, or are outside of the run, that is it.
//!
//! Everything else is unclear, and is said to be.

use super::doing::Did;

/// Of the looks: so many are "all the time".
const MOST: f64 = 0.7;
/// Of the time that a program wants a CPU: one that queues for so much of it is short of CPUs.
const QUEUED: f64 = 0.25;
/// Of all CPUs: so much is "all busy".
const ALL_BUSY: f64 = 0.85;
/// Of the looks at the run: a program that was there in fewer cannot have bounded it alone.
const PRESENT: f64 = 0.3;
/// Of its time: a program that had, or queued for, less CPU than that was not busy all the time. A look that finds a program between
/// two sleeps finds it running.
const HALF: f64 = 0.5;
/// Below this many looks nothing is said.
const LOOKS: u32 = 5;

/// One program, as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// Name and number.
    pub(crate) name: String,
    pub(crate) looks: u32,
    pub(crate) did: Did,
    /// CPUs that it had on average, and those that it queued for; `None` if that is not known.
    pub(crate) computed: Option<f64>,
    pub(crate) queued: Option<f64>,
}

/// One pipe, and the places of the programs at its ends.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    pub(crate) id: u32,
    pub(crate) looks: u32,
    pub(crate) full: u32,
    pub(crate) empty: u32,
    pub(crate) writers: Vec<usize>,
    pub(crate) readers: Vec<usize>,
}

/// All of a run.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    pub(crate) looks: u32,
    pub(crate) cpus: usize,
    pub(crate) stages: Vec<Stage>,
    pub(crate) pipes: Vec<Pipe>,
}

impl Stage {
    fn share(&self, part: u32) -> f64 {
        f64::from(part) / f64::from(self.looks.max(1))
    }

    /// Whether it wanted a CPU all the time: by the looks, unless its time says otherwise, or by its time.
    fn is_busy(&self) -> bool {
        let wants = self.share(self.did.want);
        let wanted = self.computed.zip(self.queued).map(|(computed, queued)| computed + queued);
        match wanted {
            // The time of all its threads, which may wait in turn.
            Some(wanted) => wanted >= ALL_BUSY && wants >= PRESENT || wanted >= HALF && wants >= MOST,
            None => wants >= MOST,
        }
    }

    /// Of what it wanted of the CPUs, the part that it queued for.
    fn queue(&self) -> Option<f64> {
        let (computed, queued) = (self.computed?, self.queued?);
        (computed + queued > 0.0).then(|| queued / (computed + queued))
    }
}

/// What bounded a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// These programs, by computing (places in [`Evidence::stages`]).
    Computing(Vec<usize>),
    Cpus,
    /// This program, by waiting for something that is no pipe; or it cannot be told for what.
    Waiting(usize),
    Polling(usize),
    /// What is at the other end of a pipe, and is not seen.
    Outside,
    Unclear,
}

/// What bounded a run, and the sentence that says so.
pub(crate) struct Verdict {
    pub(crate) bound: Bound,
    pub(crate) sentence: String,
}

impl Verdict {
    fn new(bound: Bound, sentence: impl Into<String>) -> Verdict {
        Verdict { bound, sentence: sentence.into() }
    }

    fn unclear(sentence: impl Into<String>) -> Verdict {
        Verdict::new(Bound::Unclear, sentence)
    }
}

/// The sentence.
pub(crate) fn of(evidence: &Evidence) -> String {
    judge(evidence).sentence
}

/// The same with what it says.
pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    if evidence.looks < LOOKS {
        let looks = evidence.looks;
        return Verdict::unclear(format!("looked at {looks} times: too short a run to tell what bounded it"));
    }
    let is_present =
        |stage: &&Stage| stage.looks >= LOOKS && f64::from(stage.looks) >= PRESENT * f64::from(evidence.looks);
    let stages: Vec<&Stage> = evidence.stages.iter().filter(is_present).collect();
    if stages.is_empty() {
        return Verdict::unclear("unclear: no program lived long enough to tell");
    }
    let is_busy = |(_, stage): &(usize, &Stage)| is_present(stage) && stage.is_busy();
    let (places, wanting): (Vec<usize>, Vec<&Stage>) = evidence.stages.iter().enumerate().filter(is_busy).unzip();
    match wanting.as_slice() {
        [] => of_the_cpus(evidence, &stages).or_else(|| of_waiting(evidence)).unwrap_or_else(nothing_decisive),
        wanting => of_wanting(wanting, places, evidence.cpus),
    }
}

fn nothing_decisive() -> Verdict {
    Verdict::unclear("unclear: no program wanted a CPU, and no pipe was full or empty, most of the time")
}

/// There are programs that waited for no other.
fn of_wanting(wanting: &[&Stage], places: Vec<usize>, cpus: usize) -> Verdict {
    let names = listed(wanting.iter().map(|stage| stage.name.as_str()));
    let queues: Option<Vec<f64>> = wanting.iter().map(|stage| stage.queue()).collect();
    let Some(most) = queues.map(|queues| queues.into_iter().fold(0.0, f64::max)) else {
        return match wanting.len() < cpus {
            true => Verdict::new(Bound::Computing(places), format!("{names} bounded it: always busy")),
            false => Verdict::unclear(format!(
                "unclear: {names} always wanted a CPU; whether they waited for one the kernel does not tell"
            )),
        };
    };
    if most >= QUEUED {
        let queued = format!("{names} always wanted one and queued for up to {:.0} % of that", most * 100.0);
        return Verdict::new(Bound::Cpus, format!("the CPUs bounded it: {queued}"));
    }
    let why = "always busy, and with a CPU; faster pipes or more CPUs do not help";
    Verdict::new(Bound::Computing(places), format!("{names} bounded it: {why}"))
}

/// No program wanted a CPU all the time, but together they may have.
fn of_the_cpus(evidence: &Evidence, stages: &[&Stage]) -> Option<Verdict> {
    let by_cpus = |why: String| Verdict::new(Bound::Cpus, format!("the CPUs bounded it: {why}"));
    let cpus = evidence.cpus as f64;
    let sum = |of: fn(&Stage) -> Option<f64>| stages.iter().map(|stage| of(stage)).sum::<Option<f64>>();
    let computed = sum(|stage| stage.computed)?;
    if computed >= ALL_BUSY * cpus {
        return Some(by_cpus(format!("its programs had {computed:.1} of {} all the time", evidence.cpus)));
    }
    // Others have the rest.
    let queued = sum(|stage| stage.queued)?;
    (queued >= QUEUED * (computed + queued) && computed + queued >= MOST * cpus).then(|| {
        by_cpus(format!("its programs had {computed:.1} of {} and waited for {queued:.1} more", evidence.cpus))
    })
}

/// The pipes say on which side it was held up.
fn of_waiting(evidence: &Evidence) -> Option<Verdict> {
    let (mut found, mut undecided) = (Vec::new(), Vec::new());
    for pipe in evidence.pipes.iter().filter(|pipe| pipe.looks >= LOOKS) {
        let share = |part: u32| f64::from(part) / f64::from(pipe.looks);
        let (side, how, where_from) = match () {
            () if share(pipe.full) >= MOST => (&pipe.readers, "full", "reader"),
            () if share(pipe.empty) >= MOST => (&pipe.writers, "empty", "writer"),
            () => continue,
        };
        if side.is_empty() {
            let place = format!("the {where_from} of pipe {}, which was {how}", pipe.id);
            let sentence = format!("something outside of the run, or not seen in it, bounded it: {place}");
            found.push(Verdict::new(Bound::Outside, sentence));
            continue;
        }
        undecided.push(format!(
            "pipe {} was {how} most of the time, and no {where_from} waited for one thing alone",
            pipe.id
        ));
        let slow = side.iter().filter_map(|&place| Some((place, evidence.stages.get(place)?)));
        found.extend(slow.filter_map(|(place, stage)| {
            let (bound, why) = held_up(stage, place)?;
            let how = format!("it waited {why}, while pipe {} was {how}", pipe.id);
            Some(Verdict::new(bound, format!("{} bounded it: {how}", stage.name)))
        }));
    }
    // A program between a full and an empty pipe is found twice, and says the same.
    let subject = |verdict: &Verdict| verdict.sentence.split(':').next().unwrap_or_default().to_owned();
    if found.is_empty() && undecided.is_empty() {
        return alone(evidence);
    }
    if !found.is_empty() && found.iter().all(|other| subject(other) == subject(&found[0])) {
        return found.into_iter().next();
    }
    let reasons: Vec<String> = found.into_iter().map(|verdict| verdict.sentence).collect();
    let reasons = if reasons.is_empty() { undecided } else { reasons };
    Some(Verdict::unclear(format!("unclear: {}", reasons.join("; "))))
}

/// What a program waited for that no pipe of the run tells.
fn held_up(stage: &Stage, place: usize) -> Option<(Bound, &'static str)> {
    let did = stage.did;
    match () {
        () if stage.looks < LOOKS => None,
        () if stage.share(did.other) >= MOST => {
            Some((Bound::Waiting(place), "for a time, a disk, a network or a lock"))
        }
        () if stage.share(did.several) >= MOST => {
            Some((Bound::Polling(place), "in poll or its like, which does not tell for what"))
        }
        () => None,
    }
}

/// A run without pipes that tell anything.
fn alone(evidence: &Evidence) -> Option<Verdict> {
    let is_long = |(_, stage): &(usize, &Stage)| f64::from(stage.looks) >= MOST * f64::from(evidence.looks);
    let mut waiting = evidence.stages.iter().enumerate().filter(is_long);
    let (stage, (bound, why)) = waiting.find_map(|(place, stage)| Some((stage, held_up(stage, place)?)))?;
    Some(Verdict::new(bound, format!("{} bounded it: it waited {why}", stage.name)))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 looks, of which it wanted a CPU in `want`, waited for input in `read`, for room in `write`.
    fn stage(name: &str, [want, read, write]: [u32; 3], computed: f64, queued: f64) -> Stage {
        let did = Did { want, read, write, other: 100 - want - read - write, ..Did::default() };
        Stage { name: name.into(), looks: 100, did, computed: Some(computed), queued: Some(queued) }
    }

    fn pipe(id: u32, full: u32, empty: u32, writer: usize, reader: usize) -> Pipe {
        Pipe { id, looks: 100, full, empty, writers: vec![writer], readers: vec![reader] }
    }

    fn verdict(cpus: usize, stages: &[Stage], pipes: &[Pipe]) -> String {
        of(&Evidence { looks: 100, cpus, stages: stages.to_vec(), pipes: pipes.to_vec() })
    }

    #[test]
    fn one_busy_stage_with_a_cpu_of_its_own_is_the_bound() {
        let stages = [
            stage("cat 1", [5, 0, 95], 0.05, 0.0),
            stage("gzip 2", [98, 2, 0], 0.95, 0.02),
            stage("wc 3", [3, 97, 0], 0.02, 0.0),
        ];
        let said = verdict(2, &stages, &[pipe(1, 95, 0, 0, 1), pipe(2, 0, 97, 1, 2)]);
        assert!(said.starts_with("gzip 2 bounded it: always busy"), "{said}");
    }

    #[test]
    fn cpu_time_tells_better_than_looks_which_stage_is_busy() {
        let stages = [
            stage("yes 1", [75, 0, 25], 0.08, 0.02),
            stage("gzip 2", [55, 45, 0], 0.98, 0.0),
            stage("cat 3", [0, 100, 0], 0.0, 0.0),
        ];
        let said = verdict(2, &stages, &[pipe(1, 25, 45, 0, 1), pipe(2, 0, 100, 1, 2)]);
        assert!(said.starts_with("gzip 2 bounded it: always busy"), "{said}");
    }

    #[test]
    fn three_busy_stages_on_two_cpus_are_bounded_by_the_cpus() {
        let stages = ["a 1", "b 2", "c 3"].map(|name| stage(name, [95, 3, 2], 0.65, 0.32));
        let said = verdict(2, &stages, &[]);
        assert!(said.starts_with("the CPUs bounded it: a 1, b 2, c 3 always wanted one"), "{said}");
        // The same when they also wait for each other, because they share.
        let stages = ["a 1", "b 2", "c 3"].map(|name| stage(name, [66, 17, 17], 0.6, 0.05));
        let said = verdict(2, &stages, &[]);
        assert!(said.starts_with("the CPUs bounded it: its programs had 1.8 of 2"), "{said}");
    }

    #[test]
    fn one_busy_stage_that_queues_behind_others_is_bounded_by_the_cpus() {
        let stages = [stage("gzip 2", [98, 2, 0], 0.5, 0.48), stage("wc 3", [3, 97, 0], 0.02, 0.0)];
        assert!(verdict(2, &stages, &[]).starts_with("the CPUs bounded it: gzip 2"));
        // Whose CPUs others have.
        let stages = [stage("a 1", [60, 40, 0], 0.4, 0.4), stage("b 2", [60, 0, 40], 0.4, 0.4)];
        let said = verdict(2, &stages, &[]);
        assert!(said.starts_with("the CPUs bounded it: its programs had 0.8 of 2 and waited for 0.8"), "{said}");
    }

    #[test]
    fn where_the_kernel_does_not_tell_about_queues_many_busy_stages_are_unclear() {
        let of = |count: usize| {
            let stages = vec![Stage { queued: None, ..stage("a", [98, 1, 1], 0.9, 0.0) }; count];
            verdict(2, &stages, &[])
        };
        assert!(of(1).starts_with("a bounded it"));
        assert!(of(2).starts_with("unclear: a, a always wanted a CPU"));
    }

    #[test]
    fn a_reader_that_sleeps_behind_a_full_pipe_is_the_bound() {
        let stages = [
            stage("yes 1", [2, 0, 98], 0.0, 0.0),
            stage("sleep 2", [0, 0, 0], 0.0, 0.0),
            stage("cat 3", [0, 100, 0], 0.0, 0.0),
        ];
        let said = verdict(2, &stages, &[pipe(1, 98, 0, 0, 1), pipe(2, 0, 100, 1, 2)]);
        assert!(said.starts_with("sleep 2 bounded it: it waited for a time, a disk"), "{said}");
    }

    #[test]
    fn a_writer_that_sleeps_before_an_empty_pipe_is_the_bound() {
        let stages = [stage("curl 1", [1, 0, 0], 0.0, 0.0), stage("tar 2", [1, 99, 0], 0.0, 0.0)];
        let said = verdict(2, &stages, &[pipe(1, 0, 99, 0, 1)]);
        assert!(said.starts_with("curl 1 bounded it") && said.ends_with("while pipe 1 was empty"), "{said}");
    }

    #[test]
    fn writer_of_no_program_of_the_run_is_outside() {
        let stages = [stage("cat 1", [1, 99, 0], 0.0, 0.0)];
        let inlet = Pipe { writers: vec![], ..pipe(1, 0, 99, 0, 0) };
        assert!(
            verdict(2, &stages, &[inlet])
                .contains("outside of the run, or not seen in it, bounded it: the writer of pipe 1, which was empty")
        );
    }

    #[test]
    fn two_that_are_slow_at_two_places_are_unclear() {
        let stages =
            [stage("a 1", [0, 0, 0], 0.0, 0.0), stage("b 2", [0, 100, 0], 0.0, 0.0), stage("c 3", [0, 0, 0], 0.0, 0.0)];
        let said = verdict(2, &stages, &[pipe(1, 0, 100, 0, 1), pipe(2, 0, 100, 2, 1)]);
        assert!(said.starts_with("unclear: a 1 bounded it") && said.contains("; c 3 bounded it"), "{said}");
    }

    #[test]
    fn a_full_pipe_whose_reader_does_this_and_that_is_unclear() {
        let stages = [stage("head 1", [5, 0, 95], 0.0, 0.0), stage("python3 2", [25, 25, 0], 0.2, 0.0)];
        let said = verdict(2, &stages, &[pipe(1, 95, 0, 0, 1)]);
        assert_eq!(said, "unclear: pipe 1 was full most of the time, and no reader waited for one thing alone");
    }

    #[test]
    fn program_in_poll_does_not_tell_what_it_waits_for() {
        let mut polling = stage("ssh 1", [0, 0, 0], 0.0, 0.0);
        polling.did = Did { several: 100, ..Did::default() };
        let said = verdict(2, &[polling, stage("cat 2", [0, 100, 0], 0.0, 0.0)], &[pipe(1, 0, 100, 0, 1)]);
        assert!(said.contains("ssh 1 bounded it: it waited in poll or its like"), "{said}");
    }

    #[test]
    fn run_that_was_too_short_is_not_judged() {
        assert!(
            of(&Evidence { looks: 4, cpus: 2, stages: vec![], pipes: vec![] })
                .starts_with("looked at 4 times: too short")
        );
        let short = Stage { looks: 3, ..stage("true 1", [100, 0, 0], 1.0, 0.0) };
        assert_eq!(verdict(2, &[short], &[]), "unclear: no program lived long enough to tell");
        let taking_turns = [stage("a 1", [50, 50, 0], 0.5, 0.0), stage("b 2", [50, 0, 50], 0.5, 0.0)];
        assert!(verdict(2, &taking_turns, &[pipe(1, 50, 50, 0, 1)]).starts_with("unclear: "));
    }
}
