//! The age format: keys of every kind, files with something wrong anywhere, and that nothing secret is said.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_net::{Kind, Next, find};
use millstream_transforms::ALL;

use super::{done, run, stage_of};

/// Files with two identities, with the second of them, and with a passphrase.
pub(crate) struct Files {
    pub(crate) both: String,
    second: String,
    passphrase: String,
    other: String,
    recipients: String,
}

const SECRETS: [&str; 2] = [
    "AGE-SECRET-KEY-1PWHTX27V0G4SE8WEUYMMQRU35P2DM8NHNF4Q4W22XXK9RHN3NDAQKNZH0A",
    "AGE-SECRET-KEY-1M03K0ZJW2384FXE3K5XWQ9VSD3EXQ246432P0U3Q9EKQN3PPAVZSDWSTQR",
];
const RECIPIENTS: [&str; 2] = [
    "age1v99gekrlflr9qa3p9cht700wp503t8xw7v778eqspagx2yzpn53sazn93w",
    "age1c4zxzl6nf5y33580x2a0500jlw0kwngrvqpjc4ee8850n8ny0a3qs7kp8t",
];
const PASSPHRASE: &str = "correct horse battery staple";
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;

fn file(name: &str, content: &str) -> String {
    let path = format!("{}/age-{}-{name}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    fs::write(&path, content).unwrap();
    path
}

pub(crate) static FILES: LazyLock<Files> = LazyLock::new(|| Files {
    both: file("both", &format!("# two of them\n\n{}\n  {}\r\n", SECRETS[0], SECRETS[1])),
    second: file("second", SECRETS[1]),
    passphrase: file("passphrase", &format!("{PASSPHRASE}\n")),
    other: file("other", "another one"),
    recipients: file("recipients", &format!("# both\n{}\n{}\n", RECIPIENTS[0], RECIPIENTS[1])),
});

/// Uses with the names of the files filled in.
pub(crate) fn filled(line: &str) -> String {
    line.replace("BOTH", &FILES.both).replace("PASSPHRASE", &FILES.passphrase)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn armored(file: &[u8], end_of_line: &str) -> Vec<u8> {
    let text = STANDARD.encode(file);
    let lines = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap());
    let all =
        ["-----BEGIN AGE ENCRYPTED FILE-----"].into_iter().chain(lines).chain(["-----END AGE ENCRYPTED FILE-----"]);
    all.flat_map(|line| [line, end_of_line]).collect::<String>().into_bytes()
}

/// Whether this is what may come out: all of it, or less by what was written in the step that failed.
fn is_released(output: &[u8], authenticated: &[u8]) -> bool {
    authenticated.starts_with(output) && authenticated.len() - output.len() <= ROOM
}

/// Bytes of output that a step finds room for.
const ROOM: usize = 4096;

/// What came out before the end or the fault.
fn released(line: &str, input: &[u8]) -> (Vec<u8>, Result<(), String>) {
    let (mut output, mut from, mut room) = (Vec::new(), 0, vec![0; ROOM]);
    let Kind::Rewrite(mut transform) = stage_of(line).kind else { unreachable!("it rewrites") };
    loop {
        let end = input.len().min(from + 5000);
        match transform.step(&input[from..end], &mut room, end == input.len()) {
            Err(fault) => return (output, Err(fault.to_string())),
            Ok(step) => {
                from += step.consumed;
                output.extend(&room[..step.produced]);
                if step.next == Next::Done {
                    return (output, Ok(()));
                }
            }
        }
    }
}

fn wrong(line: &str, input: &[u8]) -> String {
    run(line, input, &Default::default()).map(|bytes| bytes.len()).expect_err(line)
}

#[test]
fn every_recipient_decrypts_what_was_encrypted() {
    let Files { both, second, passphrase, recipients, .. } = &*FILES;
    let [first_of_two, second_of_two] = RECIPIENTS;
    for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 77] {
        let text = bytes(size);
        for (pack, unpack) in [
            (format!("age -r {second_of_two}"), format!("unage -i {second}")),
            (format!("age -r {first_of_two}"), format!("unage -i {second} -i {both}")),
            (format!("age -R {recipients}"), format!("unage -i {second}")),
            (format!("age -i {both} -r {first_of_two}"), format!("unage -i {second}")),
            (format!("age -w 3 -p {passphrase}"), format!("unage -p {passphrase}")),
            // Cargo sets it.
            ("age -w 3 -P CARGO_PKG_NAME".into(), "unage -P CARGO_PKG_NAME".into()),
        ] {
            let packed = done(&pack, &text);
            let chunks = size.div_ceil(CHUNK).max(1);
            let header = packed.len() - size - chunks * TAG;
            assert!((100..900).contains(&header), "{pack}: a header of {header} bytes");
            assert!(done(&unpack, &packed) == text, "{pack} | {unpack}: {size} bytes");
            assert!(packed != done(&pack, &text), "{pack}: two files have the same key");
            for end_of_line in ["\n", "\r\n"] {
                assert!(done(&unpack, &armored(&packed, end_of_line)) == text, "{pack}, armor: {size} bytes");
            }
        }
    }
}

#[test]
fn changed_byte_is_detected_and_output_is_authenticated() {
    let (text, pack, unpack) = (bytes(2 * CHUNK + 5000), filled("age -i BOTH"), filled("unage -i BOTH"));
    let packed = done(&pack, &text);
    let payload = packed.len() - text.len() - 3 * TAG;
    let places = (0..payload).chain((payload..packed.len()).step_by(4001));
    for place in places.chain(packed.len() - TAG..packed.len()) {
        let mut spoiled = packed.clone();
        spoiled[place] ^= 1 << (place % 8);
        let (output, end) = released(&unpack, &spoiled);
        assert!(end.is_err(), "byte {place} of {} can be changed", packed.len());
        let whole = place.saturating_sub(payload) / (CHUNK + TAG) * CHUNK;
        assert!(is_released(&output, &text[..whole]), "byte {place}: {} bytes came out", output.len());
    }
}

#[test]
fn truncated_file_is_detected() {
    let (text, pack, unpack) = (bytes(2 * CHUNK), filled("age -i BOTH"), filled("unage -i BOTH"));
    let packed = done(&pack, &text);
    let payload = packed.len() - text.len() - 2 * TAG;
    let around = |place: usize| place - 1..=place + 1;
    let places = (0..=payload).chain(around(payload + TAG)).chain(around(payload + CHUNK + TAG));
    for place in places.chain([payload + CHUNK, packed.len() - TAG, packed.len() - 1]) {
        let (output, end) = released(&unpack, &packed[..place]);
        let error = end.expect_err("an end that is cut off");
        assert!(error.contains("truncated") || place == 0, "{place} bytes: {error}");
        let whole = place.saturating_sub(payload) / (CHUNK + TAG) * CHUNK;
        assert!(is_released(&output, &text[..whole]), "{place} bytes: {} came out", output.len());
    }
    let armor = armored(&packed, "\n");
    for place in (0..armor.len() - 1).step_by(997).chain([armor.len() - 2]) {
        assert!(released(&unpack, &armor[..place]).1.is_err(), "{place} bytes of {}", armor.len());
    }
    let chunks: Vec<&[u8]> = packed[payload..].chunks(CHUNK + TAG).collect();
    for order in [&[1][..], &[1, 0], &[0, 0, 1], &[0, 1, 1], &[0, 1, 0]] {
        let moved: Vec<u8> = order.iter().flat_map(|&chunk| chunks[chunk]).copied().collect();
        let (output, end) = released(&unpack, &[&packed[..payload], &moved].concat());
        assert!(end.is_err() && text.starts_with(&output), "chunks {order:?}");
    }
}

#[test]
fn error_in_a_file_names_its_position() {
    let Files { second, passphrase, other, .. } = &*FILES;
    let (identity, pass) = (format!("unage -i {second}"), format!("unage -p {passphrase}"));
    let (to_first, text) = (format!("age -r {}", RECIPIENTS[0]), bytes(2 * CHUNK + 1));
    let to_second = done(&format!("age -r {}", RECIPIENTS[1]), &text);
    let payload = to_second.len() - text.len() - 3 * TAG;
    let with_pass = done(&format!("age -w 12 -p {passphrase}"), &text);
    let mut second_chunk = to_second.clone();
    second_chunk[payload + CHUNK + TAG + 7] ^= 1;
    // Before the payload: the line with the code ends two bytes before the nonce.
    let mut code = to_second.clone();
    // A letter of base64 again: with one that is none there would be no code, which is another fault.
    code[payload - 16 - 10] = if code[payload - 16 - 10] == b'A' { b'B' } else { b'A' };
    let mark = payload - 16 - 48;
    for (line, input, at, error) in [
        (&identity, &b"age-encryption.org/v2\n"[..], 0, "this is no age file: it does not begin with"),
        (&identity, b"plain", 0, "this is no age file"),
        (&identity, b"", 0, "the age file is empty"),
        (
            &identity,
            b"age-encryption.org/v1\nx\n--- x\n",
            22,
            "the header of the age file is corrupt: a recipient or the",
        ),
        (
            &identity,
            b"age-encryption.org/v1\n-> X25519  a\nb\n--- x\n",
            22,
            "the header of the age file is corrupt: words",
        ),
        (
            &identity,
            b"age-encryption.org/v1\n-> a b\nb\xff\n--- x\n",
            29,
            "the header of the age file is corrupt: this line",
        ),
        (&identity, b"age-encryption.org/v1\n-> a b\nYQ==\n--- x\n", 29, "the header of the age file is corrupt: this"),
        (
            &identity,
            b"age-encryption.org/v1\n-> a b\nYQ\n--- x\n",
            32,
            "the header of the age file is corrupt: there is no",
        ),
        (
            &identity,
            &done(&to_first, b""),
            0,
            "the file was encrypted to others: of its 1 recipients 1 are of the kind",
        ),
        (&identity, &with_pass, 0, "the file was encrypted with a passphrase: -p FILE or -P VARIABLE"),
        (&pass, &to_second, 0, "the file was encrypted to recipients, not with a passphrase: -i FILE"),
        (&format!("unage -p {other}"), &with_pass, 22, "the passphrase is another, or the header"),
        (
            &format!("unage -w 11 -p {passphrase}"),
            &with_pass,
            22,
            "the passphrase costs 2^12 times 1 KiB of memory, and 2^11",
        ),
        (&identity, &code, mark, "the header of the age file is corrupt: it is not the one"),
        (&identity, &second_chunk, payload + CHUNK + TAG, "the age file is corrupt, in the chunk that begins here"),
        (
            &identity,
            &to_second[..payload + 100],
            payload,
            "the age file is corrupt, in the chunk that begins here, or it ends",
        ),
        (
            &identity,
            &to_second[..payload + CHUNK + TAG],
            payload + CHUNK + TAG,
            "the age file ends too early: it is truncated",
        ),
        (
            &identity,
            &[&to_second[..], b"x"].concat(),
            payload + 2 * (CHUNK + TAG),
            "the age file is corrupt, in the chunk",
        ),
        (&identity, b"-----BEGIN PGP MESSAGE-----\n", 0, "the age armor is corrupt: it does not begin with"),
    ] {
        let found = wrong(line, input);
        let expected = format!("{line}: at byte {at} of its input: {error}");
        assert!(found.starts_with(&expected), "{expected}\n{found}");
    }
    // The place in the text: 64 letters and an end of line for 48 bytes.
    for (end_of_line, columns) in [("\n", 65), ("\r\n", 66)] {
        let place = payload + CHUNK + TAG;
        let at = 33 + columns - 64 + 1 + place / 48 * columns + place % 48 / 3 * 4;
        let found = wrong(&identity, &armored(&second_chunk, end_of_line));
        assert!(
            found.starts_with(&format!("{identity}: at byte {at} of its input: the age file is corrupt")),
            "{at}: {found}"
        );
    }
}

#[test]
fn invalid_key_is_refused_and_not_shown() {
    let Files { both, passphrase, recipients, .. } = &*FILES;
    let several = file("several", &format!("{PASSPHRASE}\n{PASSPHRASE}\n"));
    let broken = file("broken", &SECRETS[0].replace("PWHTX", "PWHTY"));
    for (line, error) in [
        ("age".into(), "the keys are missing"),
        ("unage".into(), "the keys are missing"),
        (format!("age {}", RECIPIENTS[0]), "is no option of it"),
        (format!("unage -r {}", RECIPIENTS[0]), "is no option of it"),
        ("age -r".into(), "a value has to follow '-r'"),
        ("age -r age1nobody".into(), "'age1nobody' is no recipient: one is age1 and 58 letters"),
        (format!("age -r {}", RECIPIENTS[0].replace("v99", "v9g")), "is no recipient"),
        ("age -r 'ssh-ed25519 AAAA'".into(), "is a key of SSH, which is not supported"),
        (format!("age -r {}", SECRETS[0]), "an identity is secret, and must not stand where"),
        (format!("unage -i {}", SECRETS[0].to_lowercase()), "an identity is secret, and must not stand where"),
        (format!("age -R {both}"), "line 3 of '"),
        (format!("unage -i {recipients}"), "line 2 of '"),
        (format!("unage -i {broken}"), "line 1 of '"),
        ("unage -i /dev/null".into(), "'/dev/null' cannot be read: it is no regular file"),
        ("unage -i nowhere".into(), "'nowhere' cannot be read: No such file"),
        (format!("unage -i {both} -p {passphrase}"), "a passphrase cannot be combined with anything else"),
        (format!("age -p {passphrase} -P CARGO_PKG_NAME"), "there can be one passphrase only"),
        (format!("age -w 12 -i {both}"), "-w is the work that a passphrase costs, and there is none"),
        (format!("age -w 23 -p {passphrase}"), "N is a number from 1 to 22, not '23'"),
        ("age -P MILLSTREAM_HAS_NO_SUCH".into(), "the environment variable 'MILLSTREAM_HAS_NO_SUCH' is not set"),
        (format!("age -p {several}"), "has several lines, and a passphrase is one"),
    ] {
        let found = wrong(&line, b"");
        assert!(found.contains(error) && found.contains("used as"), "{line}\n{error}\n{found}");
        for secret in SECRETS.iter().chain([&PASSPHRASE]) {
            let tail = &secret[secret.len() - 10..];
            assert!(!found.to_lowercase().contains(&tail.to_lowercase()), "{found}");
        }
    }
}

#[test]
fn the_inverse_has_the_same_keys_if_they_are_known() {
    let Files { both, passphrase, recipients, .. } = &*FILES;
    for (line, inverse) in [
        (format!("age -i {both}"), Some(format!("unage -i {both}"))),
        (format!("unage -i {both}"), Some(format!("age -i {both}"))),
        (format!("age -w 12 -p {passphrase}"), Some(format!("unage -p {passphrase}"))),
        (format!("age -w 21 -p {passphrase}"), Some(format!("unage -w 21 -p {passphrase}"))),
        (format!("unage -w 21 -p {passphrase}"), Some(format!("age -p {passphrase}"))),
        ("age -P CARGO_PKG_NAME".into(), Some("unage -P CARGO_PKG_NAME".into())),
        (format!("age -R {recipients}"), None),
    ] {
        assert_eq!(stage_of(&line).inverse, inverse, "{line}");
    }
    assert!(find(ALL, "age").is_some());
}

/// What `age` does with these bytes. A passphrase it takes from a terminal only, which Python pretends to be.
fn program(arguments: &[&str], passphrase: Option<&str>, input: &[u8]) -> Vec<u8> {
    const TERMINAL: &str = "
import os, pty, sys
source, target, passphrase = sys.argv[1:4]
pid, terminal = pty.fork()
if pid == 0:
    os.dup2(os.open(source, os.O_RDONLY), 0)
    os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.execvp('age', ['age'] + sys.argv[4:])
said = b''
try:
    while True:
        piece = os.read(terminal, 1000)
        if not piece:
            break
        said += piece
        if b'passphrase' in piece:
            os.write(terminal, passphrase.encode() + b'\\n')
except OSError:
    pass
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status:
    sys.exit(said.decode())
";
    let [source, target] = ["age-in", "age-out"].map(|name| file(name, ""));
    fs::write(&source, input).unwrap();
    let mut command = match passphrase {
        Some(passphrase) => {
            let mut command = Command::new("python3");
            command.args(["-c", TERMINAL, &source, &target, passphrase]);
            command
        }
        None => {
            let mut command = Command::new("age");
            command.stdin(fs::File::open(&source).unwrap()).stdout(fs::File::create(&target).unwrap());
            command
        }
    };
    let output = command.args(arguments).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "age {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    fs::read(&target).unwrap()
}

#[test]
fn age_reads_what_is_written_here_and_the_other_way_round() {
    let Files { both, second, passphrase, recipients, .. } = &*FILES;
    let pack = format!("age -R {recipients}");
    for size in [0, 5, CHUNK, 2 * CHUNK + 1] {
        let text = bytes(size);
        assert!(program(&["-d", "-i", second], None, &done(&pack, &text)) == text, "{pack} | age -d: {size} bytes");
        for armor in [&[][..], &["-a"]] {
            let packed = program(&[&["-R", recipients][..], armor].concat(), None, &text);
            assert!(done(&format!("unage -i {both}"), &packed) == text, "age {armor:?} | unage: {size} bytes");
        }
    }
    let (text, phrase) = (bytes(CHUNK + 9), Some(PASSPHRASE));
    assert!(program(&["-d"], phrase, &done(&format!("age -w 10 -p {passphrase}"), &text)) == text);
    assert!(done(&format!("unage -p {passphrase}"), &program(&["-p"], phrase, &text)) == text);
}
