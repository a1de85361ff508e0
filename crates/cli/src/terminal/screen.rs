//! All of a terminal's screen, drawn again and again, and given back as it was (ECMA-48, and xterm's second screen).

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millstream_sys::terminal;

/// One for the process, because the code that reports a panic must find it.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Puts the second screen before the one with what stands there.
pub(crate) fn enter() -> io::Result<()> {
    IS_ENTERED.store(true, Relaxed);
    write("\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J")
}

/// Brings back what stood there, and the terminal to what it was. Does nothing where no screen was entered.
pub(crate) fn leave() {
    if IS_ENTERED.swap(false, Relaxed) {
        // A terminal that has gone needs nothing.
        let _ = write("\x1b[?25h\x1b[?1049l");
        terminal::give_back();
    }
}

/// Draws these lines, of which none is longer than the screen is wide, and no more than it has rows.
pub(crate) fn draw(lines: &[String]) -> io::Result<()> {
    // Each line is erased as it is replaced: an empty screen in between would flicker.
    let text: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
    write(&format!("\x1b[H{}\x1b[J", text.join("\r\n")))
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Set in the process that is to panic.
    const PANICS: &str = "MILLSTREAM_TEST_PANICS_ON_SCREEN";
    const NAME: &str = "terminal::screen::tests::panic_gives_the_terminal_back_before_it_is_told";

    #[test]
    fn panic_gives_the_terminal_back_before_it_is_told() {
        if std::env::var_os(PANICS).is_some() {
            millstream_command::failure::report_bugs(super::leave);
            let _terminal = millstream_sys::terminal::Terminal::take().unwrap();
            super::enter().unwrap();
            let _ = std::thread::spawn(|| panic!("on the screen")).join();
            return;
        }
        let own = std::env::current_exe().unwrap();
        let script = format!("stty -a; {PANICS}=1 {} --exact {NAME} --nocapture; stty -a", own.display());
        let output = Command::new("script").args(["-qec", &script, "/dev/null"]).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let (screen, after) = shown.split_once("\x1b[?1049l").unwrap_or_else(|| panic!("{shown}"));
        assert!(screen.contains("\x1b[?1049h") && after.contains("this is a bug of millstream"), "{shown}");
        let settings = |text: &str| text.rsplit_once("speed").map(|(_, settings)| settings.replace("\r\n", " "));
        let (before, after) = (settings(screen.split('\x1b').next().unwrap()), settings(after));
        assert!(before.as_ref().is_some_and(|before| before.contains(" icanon") && before.contains(" echo ")));
        assert_eq!(before.map(|text| text[..300].to_owned()), after.map(|text| text[..300].to_owned()));
    }
}
