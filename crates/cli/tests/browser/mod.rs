//! A headless browser, driven over a pipe by the DevTools protocol: JSON messages, each ended by a zero byte.
//! <https://chromedevtools.github.io/devtools-protocol/>

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long an answer may take before the test says that there is none. A watchdog, not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running browser with one page; both end with it.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    sent: u64,
    /// What the browser told without being asked.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts it, its files in `profile`.
    pub(crate) fn start(profile: &Path) -> Browser {
        // The protocol wants descriptors 3 and 4, which a shell can make of the pipes that std makes.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 >/dev/null 2>&1 </dev/null", "sh", &installed()])
            .args(["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-extensions"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-pings"])
            .arg("--disable-dev-shm-usage")
            // Its sandbox refuses to run as root.
            .args(is_root().then_some("--no-sandbox"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { break };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser { child, commands, messages, session: None, sent: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.next(method);
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    fn next(&mut self, waited_for: &str) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        message.unwrap_or_else(|error| panic!("the browser gave no answer to {waited_for}: {error}"))
    }

    /// Opens a file and waits until all of it is there.
    pub(crate) fn open(&mut self, page: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next("Page.navigate");
            self.events.push(event);
        }
    }

    /// Gives the page a width, and a look.
    pub(crate) fn look(&mut self, width: u32, scheme: &str, is_phone: bool) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Whether scripts of pages run from now on.
    pub(crate) fn allow_scripts(&mut self, are_allowed: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !are_allowed}));
    }

    /// What an expression gives in the page. The protocol may ask even where the page's own scripts may not run.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// A picture of the whole page.
    pub(crate) fn screenshot(&mut self, to: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        // Higher pictures are more than a graphics library takes.
        let height = size["height"].as_f64().unwrap().min(16_000.0);
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1});
        let shot = self.call("Page.captureScreenshot", json!({"clip": clip, "captureBeyondViewport": true}));
        std::fs::write(to, base64(shot["data"].as_str().unwrap())).unwrap();
    }

    /// The page as it is printed.
    pub(crate) fn print(&mut self) -> Vec<u8> {
        base64(self.call("Page.printToPDF", json!({"printBackground": true}))["data"].as_str().unwrap())
    }

    /// What went wrong in the page: errors of scripts, what the policy refused, and requests for anything but the page.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // An answer comes after everything that was told before it.
        self.call("Runtime.evaluate", json!({"expression": "0"}));
        let is_wrong = |event: &&Value| match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" | "Log.entryAdded" | "Audits.issueAdded" | "Runtime.consoleAPICalled" => true,
            "Network.requestWillBeSent" => event["params"]["type"] != "Document",
            _ => false,
        };
        self.events.iter().filter(is_wrong).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It is asked first: killed, it would leave helpers behind that still write to its files for a moment.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..1000 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The browser that is installed here.
fn installed() -> String {
    let named = std::env::var("MILLSTREAM_BROWSER").ok();
    let known = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"].map(str::to_owned);
    let path = std::env::var("PATH").unwrap_or_default();
    let is_there = |name: &String| path.split(':').any(|directory| Path::new(directory).join(name).is_file());
    named.or_else(|| known.into_iter().find(is_there)).unwrap_or_else(|| {
        panic!("no browser to look at pages with: install chromium (on Debian: apt-get install chromium), or name one in MILLSTREAM_BROWSER")
    })
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// RFC 4648, section 4.
fn base64(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|digit| *digit != b'=').map(value).collect();
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit)) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
