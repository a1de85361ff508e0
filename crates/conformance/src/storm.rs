//! The storm: sixty-four writers and sixty-four readers of one FIFO, ours and plain programs, and an account of every
//! record. For a given time they open and close the FIFO, pause, and are stopped and killed at random.
//!
//! ```text
//! storm ── master ─┬─ 64 writers   write records, each with its writer's number and its own
//!                  ├─ 64 readers   enter what they read into the account
//!                  └─ holds one side open, or both, so that no byte is lost when all others have closed
//! ```
//!
//! The master replaces a process that has ended. Every second or two it changes which sides it holds open, how many
//! processes are plain, and how often it kills and stops one. In the end it kills no more: the writers finish, and the
//! readers read to the end of the stream.
//!
//! The account then says of each written record whether it was read, and none was read twice. The missing records are
//! at most those that killed processes had in hand:
//!
//! - what a reader had asked for in the call in which it was killed;
//! - a page for one of ours that was killed while it wrote or closed, since it may have been flushing that to the FIFO;
//! - nothing for a process that was killed between two calls.
//!
//! Each reader has seen the records of each writer in order and whole. Nothing is left behind: no process, descriptor,
//! memory, file, nor a mark on the FIFO.
//!
//! What a life does follows from the seed and its number; when each is killed, from the seed and the time.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use millstream_sys::transfer;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, setpgid, waitid,
};

use crate::fifo::{Hand, Name, Plain};
use crate::isolated::tasks_of;
use crate::left::{left_behind, open_files};
use crate::pattern::Random;
use crate::process::{Child, die_with_parent, fork, private_directories};
use crate::{End as _, PIPE_BUF, ReadEnd, kernel};

mod account;
mod life;

pub use account::Mistake;

use account::{Account, COUNTS, Call, Count, LIVES};
use life::{AT_ONCE, Life, World, enter};

/// Without a record moved or a process ended for so long it counts as hanging. The time in which this process itself was
/// not run does not count.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two rounds of replacing the processes that have ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// What happens follows from it.
    pub seed: u64,
    /// How long processes come and go; what is left then needs a little longer.
    pub time: Duration,
    /// Writers at a time, and readers at a time.
    pub side: usize,
    /// How many of a hundred are plain programs; if not said, now more and now fewer.
    pub plain_percent: Option<usize>,
    /// Whether processes are killed.
    pub kills: bool,
    /// A mistake to make.
    pub mistake: Option<Mistake>,
}

/// Has it storm, and tells how it went; whether everything was as it should be.
///
/// # Panics
/// When there are no more processes, or no memory.
pub fn run(storm: &Storm) -> bool {
    if rustix::process::geteuid().is_root() {
        private_directories(1 << 20);
    }
    let (account, began) = (Arc::new(Account::new()), Instant::now());
    let theirs = account.clone();
    let (master, ()) = fork((), |()| {
        die_with_parent();
        let _ = setpgid(None, None);
        set_child_subreaper(Some(getpid())).expect("to be given the children of the dead");
        let before = open_files();
        rage(storm, &theirs);
        drop(theirs);
        let left = left_behind(&before);
        assert!(left.is_empty(), "left behind: {left:?}");
    });
    watch(&master, &account, began);
    // It has not been waited for, so the number is still its group's: what it may have left behind.
    let _ = kill_process_group(master.id, Signal::KILL);
    let is_fine = master.wait().exit_status() == Some(0);
    println!("storm: {:.0} s, seed {}", began.elapsed().as_secs_f64(), storm.seed);
    COUNTS.iter().for_each(|&(count, name)| println!("  {name}: {}", account.get(count)));
    println!("storm: {}", if is_fine { "every record is accounted for, nothing is left" } else { "FAILED" });
    if !is_fine {
        eprintln!("storm: much the same again: --seed {} --seconds {}", storm.seed, storm.time.as_secs());
    }
    is_fine
}

/// Shows how far it is until the master has ended.
fn watch(master: &Child, account: &Account, began: Instant) {
    let every = Duration::from_secs(if std::io::stderr().is_terminal() { 2 } else { 30 });
    let mut shown = Instant::now();
    while !has_ended(master) {
        sleep(Duration::from_millis(20));
        if shown.elapsed() >= every {
            shown = Instant::now();
            let [lives, records, kills] = [Count::Lives, Count::Read, Count::Kills].map(|count| account.get(count));
            eprintln!("{:4.0} s  {lives} lives  {records} records  {kills} killed", began.elapsed().as_secs_f64());
        }
    }
}

/// Whether a child has ended.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child.id), options).expect("a child").is_some()
}

/// What the master keeps open itself, as a plain program that neither reads nor writes.
#[derive(Default)]
struct Held {
    reader: Option<kernel::Reader>,
    _writer: Option<kernel::Writer>,
}

impl Held {
    /// One side, and then readers see ends of the stream, or writers lack readers; or both.
    fn open(path: &Path, random: &mut Random) -> Held {
        let _both = Plain::both(path).expect("the FIFO");
        let sides = random.within(0..3);
        let reader = (sides != 0).then(|| Plain::reader(path, true).expect("a reader"));
        Held { reader, _writer: (sides != 1).then(|| Plain::writer(path, true).expect("a writer")) }
    }
}

fn rage(storm: &Storm, account: &Account) {
    let name = Name::new().expect("a FIFO");
    let mut random = Random::from_seed(storm.seed);
    let record = [16, 24, 100, 100, 512, 1000, 3000, PIPE_BUF][random.within(0..8)];
    let world = World { path: name.path(), account, seed: storm.seed, record, mistake: storm.mistake };
    let mut crew = Crew {
        world,
        held: Held::default(),
        random,
        lives: 0,
        writers: Vec::new(),
        readers: Vec::new(),
        allowed: 0,
        still: Still::new(),
    };
    let began = Instant::now();
    while crew.goes_on(storm, began) {
        crew.blow(storm, began);
    }
    crew.calm_down(storm);
    crew.make_up_account();
}

/// How it storms for a while.
struct Weather {
    /// So many at a time: in a lull the processes of one side end and are not replaced.
    writers: usize,
    readers: usize,
    plain_percent: usize,
    /// Between two kills, and between two stops.
    kill_every: Duration,
    stop_every: Duration,
    until: Duration,
}

/// A process.
struct Member {
    child: Child,
    life: usize,
    is_ours: bool,
    /// Since when it has been stopped.
    stopped: Option<Instant>,
}

struct Crew<'a> {
    world: World<'a>,
    held: Held,
    random: Random,
    lives: usize,
    writers: Vec<Member>,
    readers: Vec<Member>,
    /// Records that the killed may have taken along.
    allowed: usize,
    still: Still,
}

impl Crew<'_> {
    /// Until the time is over, and a mistake that was asked for is made.
    fn goes_on(&self, storm: &Storm, began: Instant) -> bool {
        let is_due = storm.mistake.is_some() && !self.world.account.is_mistaken();
        (is_due || began.elapsed() < storm.time) && self.lives + 2 * storm.side < LIVES
    }

    /// One kind of weather.
    fn blow(&mut self, storm: &Storm, began: Instant) {
        let weather = self.weather(storm);
        // The new ones are there before the old ones go.
        self.held = Held::open(self.world.path, &mut self.random);
        let start = Instant::now();
        let (mut killed, mut stopped) = (start, start);
        while start.elapsed() < weather.until && self.goes_on(storm, began) {
            self.fill_up(weather.writers, weather.readers, weather.plain_percent);
            self.collect();
            if storm.kills && killed.elapsed() >= weather.kill_every {
                killed = Instant::now();
                self.kill_one(true);
                self.kill_one(false);
            }
            if stopped.elapsed() >= weather.stop_every {
                stopped = Instant::now();
                self.stop_one();
            }
            self.continue_after(Duration::from_millis(30));
            sleep(LOOK_EVERY);
        }
    }

    fn weather(&mut self, storm: &Storm) -> Weather {
        let random = &mut self.random;
        let ms = |number| Duration::from_millis(number as u64);
        // The first weather has no lull.
        let lull = if self.lives == 0 { usize::MAX } else { random.within(0..6) };
        Weather {
            writers: if lull == 0 { 0 } else { storm.side },
            readers: if lull == 1 { 0 } else { storm.side },
            plain_percent: storm.plain_percent.unwrap_or([0, 0, 10, 30, 50, 75][random.within(0..6)]),
            kill_every: ms([2, 5, 20, 200][random.within(0..4)]),
            stop_every: ms([20, 100, 10_000][random.within(0..3)]),
            until: ms(random.within(500..2000)),
        }
    }

    fn fill_up(&mut self, writers: usize, readers: usize, plain_percent: usize) {
        while self.writers.len() < writers || self.readers.len() < readers {
            let is_writer = self.writers.len() < writers;
            let is_ours = self.random.within(0..100) >= plain_percent;
            let life = self.lives;
            self.lives += 1;
            self.world.account.add(Count::Lives, 1);
            let held = std::mem::take(&mut self.held);
            let world = self.world;
            let (child, held) = fork(held, |held| {
                die_with_parent();
                drop(held);
                let life = Life::new(world, life);
                if is_writer { life.write(is_ours) } else { life.read(is_ours) }
            });
            self.held = held;
            let member = Member { child, life, is_ours, stopped: None };
            if is_writer { self.writers.push(member) } else { self.readers.push(member) }
        }
    }

    /// Waits for the processes that have ended; fails if one of them has failed.
    fn collect(&mut self) {
        for side in [&mut self.writers, &mut self.readers] {
            for index in (0..side.len()).rev() {
                if has_ended(&side[index].child) {
                    side.swap_remove(index).child.succeed();
                }
            }
        }
        self.still.look(self.world.account, self.lives - self.writers.len() - self.readers.len());
    }

    fn kill_one(&mut self, is_writer: bool) {
        let side = if is_writer { &mut self.writers } else { &mut self.readers };
        if side.is_empty() {
            return;
        }
        let Member { child, life, is_ours, .. } = side.swap_remove(self.random.within(0..side.len()));
        child.signal(Signal::KILL);
        let status = child.wait();
        if !is_killed(status) {
            assert_eq!(status.exit_status(), Some(0), "life {life} ended with {status:?}");
            return;
        }
        let account = self.world.account;
        account.add(Count::Kills, 1);
        let page = PIPE_BUF / self.world.record;
        let (taken, given_back) = match account.was_in(life) {
            Call::None => return,
            Call::Read(records) => (records, 0),
            Call::Write | Call::Close => (0, if is_ours { page } else { 0 }),
        };
        account.add(Count::KillsInCalls, 1);
        self.allowed += taken + given_back;
    }

    fn stop_one(&mut self) {
        let side = if self.random.within(0..2) == 0 { &mut self.writers } else { &mut self.readers };
        if side.is_empty() {
            return;
        }
        let index = self.random.within(0..side.len());
        side[index].child.signal(Signal::STOP);
        side[index].stopped = Some(Instant::now());
        self.world.account.add(Count::Stops, 1);
    }

    fn continue_after(&mut self, time: Duration) {
        for member in self.writers.iter_mut().chain(&mut self.readers) {
            if member.stopped.is_some_and(|since| since.elapsed() >= time) {
                member.child.signal(Signal::CONT);
                member.stopped = None;
            }
        }
    }

    /// The writers finish while there are readers, and then the readers read to the end.
    fn calm_down(&mut self, storm: &Storm) {
        self.world.account.set_over();
        self.continue_after(Duration::ZERO);
        let kept = Plain::reader(self.world.path, true).expect("a reader");
        self.held = Held { reader: Some(kept), _writer: None };
        while !self.writers.is_empty() {
            let plain_percent = storm.plain_percent.unwrap_or(50);
            self.fill_up(0, 8, plain_percent);
            self.collect();
            sleep(LOOK_EVERY);
        }
        while !self.readers.is_empty() {
            // Ends the wait of a reader in `open`.
            drop(Plain::writer(self.world.path, true));
            self.collect();
            sleep(10 * LOOK_EVERY);
        }
        let kept = self.held.reader.take().expect("it was kept");
        let (mut buffer, mut last) = (vec![0; AT_ONCE * self.world.record], HashMap::new());
        loop {
            match kept.read(&mut buffer).expect("without writers a read does not wait") {
                0 => break,
                count => enter(&self.world, &buffer[..count], &mut last),
            }
        }
        assert_eq!(kept.bytes_readable().expect("a number"), 0);
        let marks = transfer::marks(&kept.0, 100).expect("a FIFO");
        assert!(marks.is_empty(), "left behind: {marks:?}");
    }

    fn make_up_account(&self) {
        let account = self.world.account;
        let mut lost = Vec::new();
        for life in 0..self.lives {
            let (written, read) = (account.written(life), account.read(life));
            // Killed in a write that had been done.
            let at_most = written + usize::from(account.was_in(life) == Call::Write);
            assert_eq!(read.checked_shr(at_most as u32).unwrap_or(0), 0, "more came of {life} than it has written");
            lost.extend((0..written).filter(|&record| read >> record & 1 == 0).map(|record| (life, record)));
        }
        account.add(Count::Lost, lost.len() as u64);
        let first = &lost[..lost.len().min(20)];
        let (count, allowed) = (lost.len(), self.allowed);
        assert!(count <= allowed, "{count} records were lost, the killed had {allowed} in hand: {first:?}...");
    }
}

fn is_killed(status: WaitStatus) -> bool {
    status.terminating_signal() == Some(Signal::KILL.as_raw())
}

/// Whether anything happens at all.
struct Still {
    seen: (u64, usize),
    looked: Instant,
    still_for: Duration,
}

impl Still {
    fn new() -> Still {
        Still { seen: (0, 0), looked: Instant::now(), still_for: Duration::ZERO }
    }

    /// # Panics
    /// When nothing does.
    fn look(&mut self, account: &Account, ended: usize) {
        let now = (account.get(Count::Read) + account.get(Count::Written), ended);
        self.still_for += self.looked.elapsed().min(10 * LOOK_EVERY);
        self.looked = Instant::now();
        if now != self.seen {
            (self.seen, self.still_for) = (now, Duration::ZERO);
        }
        let group: Pid = getpid();
        assert!(self.still_for < PATIENCE, "it hangs\n{}", tasks_of(group));
    }
}
