//! `millstream top` in a real terminal: tmux, whose screen is captured as people see it.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, Seen, children, data_home, millstream, output, program, wait_for};

/// `sleep | cat`, ended with the test. One of these has the sleeping program as its bound, however busy the machine is.
struct Pipeline(Child);

impl Pipeline {
    fn new() -> Pipeline {
        use std::os::unix::process::CommandExt;
        let mut shell = Command::new("bash");
        shell.args(["-c", "sleep 1000 | cat"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let pipeline = Pipeline(shell.process_group(0).spawn().unwrap());
        let runs = || {
            let seen = output(&mut millstream(["top", "--once", "--interval", "0.1", &pipeline.pid()]));
            seen.stdout.contains("sleep") && seen.stdout.contains("cat")
        };
        wait_for("the pipeline", runs);
        pipeline
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// A terminal with a shell in it.
struct Terminal {
    scratch: Scratch,
}

impl Terminal {
    fn new(columns: u32, rows: u32) -> Terminal {
        let terminal = Terminal { scratch: Scratch::new() };
        let size = [columns.to_string(), rows.to_string()];
        let shell = "env PS1='ready> ' bash --norc --noprofile -i";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], shell]);
        terminal.wait_for("ready>");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Seen {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.scratch.path("tmux")).args(arguments);
        for name in ["LD_PRELOAD", "MILLSTREAM_RUN", "TMUX", "NO_COLOR"] {
            command.env_remove(name);
        }
        let seen = output(command.env("XDG_DATA_HOME", data_home()));
        assert_eq!(seen.code, Some(0), "{arguments:?}: {seen:?}");
        seen
    }

    /// Types a line.
    fn run(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).stdout
    }

    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts `top` and waits until it has looked often enough to tell.
    fn top(&self, before: &str, options: &str) -> String {
        self.run(&format!("{before} {} top {options}; echo status=$?", program()));
        self.wait_for("bounded it: it waited")
    }

    /// Whether the second screen is shown, and whether the cursor is.
    fn flags(&self) -> String {
        self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).stdout.trim().to_owned()
    }

    /// Asks for the status of what has ended. Not before: `top` would take the letters for keys.
    fn ask_status(&self) {
        wait_for("the first screen", || self.flags() == "0 1");
        self.run("echo status=$?");
    }

    /// After `top` has ended with this status everything is as it was.
    #[track_caller]
    fn expect_end(&self, status: i32) {
        self.wait_for(&format!("status={status}"));
        assert_eq!(self.flags(), "0 1");
        self.run("clear; stty -a");
        let settings = self.wait_until("the settings", |screen| screen.contains("echok") && screen.contains("icanon"));
        assert!(!settings.contains("-icanon") && !settings.contains("-echo "), "{settings}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut server = Command::new("tmux");
        let _ = server.arg("-S").arg(self.scratch.path("tmux")).arg("kill-server").status();
    }
}

#[test]
fn screen_has_sixty_columns_and_all_comes_back_with_q() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(60, 16));
    terminal.run("echo here before");
    terminal.wait_for("\nhere before");
    let screen = terminal.top("", &pipeline.pid());
    assert_eq!(terminal.flags(), "1 0");
    assert!(!screen.contains("here before"), "{screen}");
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].contains("PROGRAM") && lines[0].contains("WRITING"), "{screen}");
    assert!(lines[1].contains("sleep") && lines[2].contains("cat"), "{screen}");
    assert!(lines[3].starts_with("pipe 1 (sleep > cat): -, full 0 %, empty"), "{screen}");
    // The sentence has more than 60 letters and goes on in the next line, between words.
    let sentence = lines.iter().position(|line| line.contains("bounded it")).unwrap();
    assert!(lines[sentence + 1].starts_with("  ") && lines[sentence].len() <= 60, "{screen}");
    assert!(lines[15].starts_with("every 1 s: q quit, space pause, +/- time"), "{screen}");
    terminal.press("q");
    let screen = terminal.wait_for("status=0");
    // What stood there, and the last look.
    assert!(screen.contains("pipe 1 (sleep > cat)"), "{screen}");
    terminal.expect_end(0);
}

#[test]
fn keys_pause_and_change_the_time_of_a_look() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(80, 16));
    terminal.top("", &pipeline.pid());
    for (key, status) in
        [("+", "every 2 s:"), ("-", "every 1 s:"), ("-", "every 0.5 s:"), ("Space", "paused:"), ("+", "paused:")]
    {
        terminal.press(key);
        terminal.wait_for(status);
    }
    // While it is paused the end of the pipeline is not seen.
    drop(pipeline);
    terminal.press("x");
    assert!(terminal.screen().contains("sleep"));
    terminal.press("Space");
    terminal.wait_for("no pipe goes from one program to another");
    terminal.wait_for("every 1 s:");
    terminal.press("q");
    terminal.expect_end(0);
}

/// The next look is an hour away: what is drawn again is the last one.
#[test]
fn new_size_is_followed_at_once() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(120, 20));
    terminal.top("", &format!("--interval 3 {}", pipeline.pid()));
    terminal.press("Space");
    let sentence = "it waited for a time, a disk, a network or a lock, while pipe 1 was empty";
    terminal.wait_until("one line", |screen| screen.contains("paused:") && screen.contains(sentence));
    terminal.tmux(&["resize-window", "-x", "60", "-y", "20"]);
    let screen = terminal.wait_until("two lines", |screen| screen.contains("bounded it") && !screen.contains(sentence));
    assert!(screen.replace("\n ", "").contains(sentence), "{screen}");
    terminal.tmux(&["resize-window", "-x", "60", "-y", "5"]);
    let screen = terminal.wait_for("... 3 more lines");
    assert!(screen.lines().next().unwrap().contains("PROGRAM") && screen.contains("paused:"), "{screen}");
    terminal.tmux(&["resize-window", "-x", "20", "-y", "20"]);
    terminal.wait_until("short rows", |screen| {
        screen.contains("READ~") || screen.contains("PID~") || screen.contains("~\n")
    });
    terminal.tmux(&["resize-window", "-x", "120", "-y", "20"]);
    terminal.wait_for(sentence);
    terminal.press("q");
    terminal.expect_end(0);
}

#[test]
fn looks_that_are_counted_end_by_themselves() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(100, 16));
    terminal.run(&format!("{} top --count 2 --interval 0.2 {}; echo status=$?", program(), pipeline.pid()));
    let screen = terminal.wait_for("status=0");
    assert!(screen.contains("bounded it") && screen.contains("PROGRAM"), "{screen}");
    terminal.expect_end(0);
}

#[test]
fn signals_and_interrupts_give_the_terminal_back() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(80, 20));
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        terminal.run(&format!("clear; {} top {}", program(), pipeline.pid()));
        terminal.wait_for("bounded it");
        assert_eq!(terminal.flags(), "1 0");
        match signal {
            "INT" => terminal.press("C-c"),
            "QUIT" => terminal.press("C-\\"),
            signal => {
                let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]).stdout;
                let top = children(shell.trim().parse().unwrap()).pop().unwrap().to_string();
                assert_eq!(output(Command::new("kill").args([&format!("-{signal}"), &top])).code, Some(0));
            }
        }
        terminal.ask_status();
        terminal.expect_end(status);
    }
}

#[test]
fn without_keys_it_ends_by_an_interrupt() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(80, 20));
    terminal.run(&format!("{} top {} </dev/null", program(), pipeline.pid()));
    terminal.wait_for("every 1 s: Ctrl-C quits");
    terminal.press("C-c");
    terminal.ask_status();
    terminal.expect_end(130);
}

#[test]
fn stopped_top_leaves_the_screen_to_the_shell_and_comes_back() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(80, 16));
    terminal.run(&format!("{} top {}", program(), pipeline.pid()));
    terminal.wait_for("bounded it");
    terminal.press("C-z");
    terminal.wait_for("Stopped");
    assert_eq!(terminal.flags(), "0 1");
    terminal.run("stty -a | grep -c ' -icanon'; echo shell");
    terminal.wait_for("\n0\nshell");
    terminal.run("fg");
    terminal.wait_until("its screen", |screen| screen.contains("every 1 s:") && !screen.contains("shell"));
    assert_eq!(terminal.flags(), "1 0");
    terminal.press("q");
    terminal.ask_status();
    terminal.expect_end(0);
}

#[test]
fn nothing_stands_out_with_no_color() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(80, 16));
    for (before, stands_out) in [("", true), ("NO_COLOR=1", false)] {
        terminal.top(before, &pipeline.pid());
        let screen = terminal.tmux(&["capture-pane", "-p", "-e"]).stdout;
        assert_eq!(screen.contains("\x1b["), stands_out, "{screen:?}");
        terminal.press("q");
        terminal.expect_end(0);
    }
}

#[test]
fn dumb_terminal_gets_lines() {
    let (pipeline, terminal) = (Pipeline::new(), Terminal::new(100, 30));
    terminal.run(&format!("TERM=dumb {} top --count 2 --interval 0.2 {}; echo status=$?", program(), pipeline.pid()));
    let screen = terminal.wait_for("status=0");
    assert_eq!(screen.matches("bounded it").count(), 2, "{screen}");
}
