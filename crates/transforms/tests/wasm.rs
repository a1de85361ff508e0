//! Transforms as WebAssembly modules: the same bytes as the native ones, however the stream is cut, and modules that misbehave.

mod wasm_modules;

use std::fs;

use millstream_net::{Kind, Network, Next, Options, Plan, Stage, check, find, run};
use millstream_transforms::ALL;
use wasm_modules::{directory, from_bare_c, from_c, template};

fn stage(words: &[&str]) -> Stage {
    let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
    find(ALL, &words[0]).unwrap().build(&words[1..]).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// What comes out of a stage that gets its input in pieces of these sizes, one after the other and again, or where it fails.
fn driven(stage: Stage, input: &[u8], pieces: &[usize]) -> Result<Vec<u8>, usize> {
    let (mut output, mut offset) = (Vec::new(), 0);
    let mut pieces = pieces.iter().cycle();
    match stage.kind {
        Kind::InPlace(_, mut transform) => {
            while offset < input.len() {
                let mut piece = input[offset..].iter().copied().take(*pieces.next().unwrap()).collect::<Vec<u8>>();
                transform.apply(offset as u64, &mut piece).map_err(|_| offset)?;
                offset += piece.len();
                output.extend(piece);
            }
            transform.finish().map_err(|_| offset)?;
        }
        Kind::Rewrite(mut transform) => loop {
            let size = *pieces.next().unwrap();
            let end = input.len().min(offset + size);
            let mut room = vec![0; 4096 + size % 1000];
            let step = transform.step(&input[offset..end], &mut room, end == input.len());
            let step = step.map_err(|_| offset)?;
            offset += step.consumed;
            output.extend(&room[..step.produced]);
            if step.next == Next::Done {
                break;
            }
        },
        _ => unreachable!("none of these stages is another"),
    }
    Ok(output)
}

/// The same cases again: `MILLSTREAM_SEED=N` in the environment.
fn seed() -> u64 {
    std::env::var("MILLSTREAM_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"))
}

#[test]
fn a_module_gives_the_bytes_of_the_native_transform_however_the_stream_is_cut() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for case in 0..48 {
        let bytes: Vec<u8> = (0..random.usize(..20_000)).map(|_| random.u8(..)).collect();
        let pieces: Vec<usize> = (0..random.usize(1..20)).map(|_| random.usize(1..7000)).collect();
        let step = random.u8(..).to_string();
        let digits = driven(stage(&["hex"]), &bytes, &[5000]).unwrap();
        // A digit that is none, somewhere, or one too few.
        let mut wrong = digits.clone();
        if let Some(digit) = wrong.get_mut(bytes.len()) {
            *digit = *bytes.last().unwrap();
        }
        let odd = &digits[..digits.len().saturating_sub(1)];
        for (native, module, argument, input) in [
            (&["rot13"][..], "rot13", None, &bytes[..]),
            (&["increment", &step], "increment", Some(&*step), &bytes),
            (&["hex"], "hex", None, &bytes),
            (&["unhex"], "unhex", None, &digits),
            (&["unhex"], "unhex", None, &wrong),
            (&["unhex"], "unhex", None, odd),
        ] {
            let file = template(module);
            let words: Vec<&str> = ["wasm", &file].into_iter().chain(argument).collect();
            let (ours, theirs) = (driven(stage(native), input, &pieces), driven(stage(&words), input, &pieces));
            let len = input.len();
            assert!(ours == theirs, "case {case} of MILLSTREAM_SEED={seed}: {native:?} of {len} bytes in {pieces:?}");
        }
    }
}

fn in_memory(line: &str, input: &[u8]) -> Result<Vec<u8>, String> {
    let network = Network::from_line(line).unwrap();
    run::in_memory(&network, ALL, input, &Options::default()).map_err(|failure| failure.to_string())
}

#[test]
fn modules_stand_between_native_transforms() {
    let input: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let [rot13, unhex, increment, hex] = ["rot13", "unhex", "increment", "hex"].map(template);
    let line = format!(
        "wasm {rot13} | rot13 | wasm {increment} 200 | increment 56 | wasm {hex} | unhex | hex | wasm memory=2M {unhex}"
    );
    assert!(in_memory(&line, &input).unwrap() == input);
    assert_eq!(in_memory(&format!("wasm {increment}"), b""), Ok(Vec::new()));
    assert_eq!(in_memory(&format!("hex | wasm {unhex} | head -c 5"), &input).unwrap(), &input[..5]);
    let odd = in_memory(&format!("wasm {unhex}"), b"6162 6");
    assert_eq!(odd, Err(format!("wasm {unhex}: at byte 6 of its input: the last digit has no partner")));
}

#[test]
fn the_copies_into_a_module_and_out_of_it_are_counted() {
    let files = [directory().join("copies-in"), directory().join("copies-out")].map(|path| path.display().to_string());
    fs::write(&files[0], [b'6'; 100_000]).unwrap();
    let line =
        format!("read '{}' | wasm {} | wasm {} | write '{}'", files[0], template("rot13"), template("unhex"), files[1]);
    let outcome = run::run(&Network::from_line(&line).unwrap(), ALL, &Options::default()).unwrap();
    let copied: Vec<u64> = outcome.stages.iter().map(|stage| stage.bytes_copied).collect();
    assert_eq!(copied, [100_000, 200_000, 200_000, 50_000]);
}

#[test]
fn the_memory_of_modules_counts() {
    let line = format!("wasm memory=2M {0} | wasm memory=3M {0}", template("rot13"));
    let network = Network::from_line(&line).unwrap();
    let checked = check::check(&network, ALL).unwrap();
    let plan = |memory| Plan::of(&checked, &Options { memory, threads: 1, timeout: None });
    assert_eq!(plan(64 << 20).unwrap().kept_bytes, [0, 2 << 20, 3 << 20, 0]);
    let error = plan(5 << 20).unwrap_err().to_string();
    assert!(error.contains("and 5242880 bytes that its stages keep"), "{error}");
    assert!(plan((5 << 20) + (64 << 10)).unwrap().memory() <= (5 << 20) + (64 << 10));
}

/// The sentence for a use of `wasm` that is refused before a byte moves.
fn refused(words: &str) -> String {
    let network = Network::from_line(&format!("wasm {words}")).unwrap();
    check::check(&network, ALL).unwrap_err().to_string()
}

#[test]
fn unsuitable_module_is_refused_before_a_byte_moves() {
    let file = |name: &str, content: &[u8]| {
        let path = directory().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let rot13 = template("rot13");
    let large = file("large", b"\0asm");
    fs::File::options().write(true).open(&large).unwrap().set_len((16 << 20) + 1).unwrap();
    let apply = "uint32_t millstream_apply(uint64_t o, uint8_t *b, uint32_t n) { return n; }\n";
    let step = "int32_t millstream_step(struct millstream_step *s) { return 1; }\n";
    let with_allocate = |allocate: &str| {
        from_bare_c(&format!(
            "#define OWN(name) __attribute__((export_name(#name)))\nOWN(millstream_abi) int abi(void) {{ return 1; }}\n\
             OWN(millstream_allocate) unsigned allocate(unsigned bytes) {{ {allocate} }}\n\
             OWN(millstream_apply) int apply(long long o, int b, int n) {{ return n; }}\n"
        ))
    };
    for (words, error) in [
        (String::new(), "FILE is missing; it is used as: wasm [fuel=N] [memory=SIZE] FILE [ARG...]"),
        ("nowhere.wasm".into(), "'nowhere.wasm': cannot be read: No such file or directory"),
        ("/dev/zero".into(), "cannot be read: it is no regular file"),
        ("/".into(), "cannot be read: it is no regular file"),
        (format!("fuel=0 {rot13}"), "fuel is a number from 1 to"),
        (format!("memory=1K {rot13}"), "memory is a number of bytes from 65536 to"),
        (format!("memory=x {rot13}"), "such as 64K or 10M, not 'x'"),
        (format!("{rot13} word"), "the module takes no arguments, so 'word' means nothing here"),
        (format!("{} 256", template("increment")), "N is a number from 0 to 255, not '256'"),
        (large, "has more than 16777216 bytes, too many for a module"),
        (file("text", b"no module"), "is no WebAssembly module: it does not begin with"),
        (file("short", &fs::read(&rot13).unwrap()[..40]), "is no valid WebAssembly module: "),
        (
            file("code", &[b"\0asm\x01\0\0\0\x0a\xe9\x07", &[0; 1001][..]].concat()),
            "is no valid WebAssembly module: its code section has no functions",
        ),
        (file("empty", b"\0asm\x01\0\0\0"), "the module exports no memory of the name memory"),
        (from_bare_c(""), "the module exports no function millstream_abi"),
        (
            from_bare_c("__attribute__((export_name(\"millstream_abi\"))) int abi(void) { return 2; }"),
            "the module is made for version 2 of what modules export, and this is version 1",
        ),
        (with_allocate("return 0;"), "the module gives 131072 bytes at address 0, which are not in its memory of"),
        (with_allocate("return 0xfffff000;"), "the module gives 131072 bytes at address 4294963200, which are not in"),
        (with_allocate("return 65536;"), "the module gives 131072 bytes at address 65536, which are not in"),
        (from_c(""), "the module exports neither millstream_apply nor millstream_step"),
        (from_c(&[apply, step].concat()), "the module exports both millstream_apply and millstream_step"),
        (
            from_c(&[apply, "void clock(void); int32_t millstream_finish(void) { clock(); return 0; }"].concat()),
            "the module imports 'env.clock'",
        ),
        (
            from_c("__attribute__((export_name(\"millstream_apply\"))) int apply(void) { return 0; }"),
            "the function millstream_apply of the module has another type than it should have",
        ),
        (
            format!(
                "fuel=100000 {}",
                from_c(&[apply, "int32_t millstream_start(const char *a, uint32_t n) { for (;;) ; }"].concat())
            ),
            "the module used all of its fuel, 100000, in one call: it may run for ever; fuel=N allows more",
        ),
        (from_c(&[apply, "__attribute__((used)) uint8_t many[32 << 20];"].concat()), "the module does not start: "),
    ] {
        let found = refused(&words);
        assert!(found.starts_with("wasm: ") && found.contains(error), "{error}\n{found}");
    }
}

#[test]
fn misbehaving_module_stops_the_network_with_a_message() {
    let apply = |body: &str| format!("uint32_t millstream_apply(uint64_t o, uint8_t *b, uint32_t n) {{ {body} }}");
    let step = |body: &str| format!("int32_t millstream_step(struct millstream_step *s) {{ {body} }}");
    for (source, error) in [
        (apply("for (;;) ;"), "the module used all of its fuel, 5000000, in one call"),
        (apply("__builtin_trap();"), "the module was stopped: "),
        (apply("return *(volatile uint8_t *)0xfffffff0;"), "the module was stopped: "),
        (
            apply("for (;;) __builtin_wasm_memory_grow(0, 1);"),
            "the module wants more memory than 1048576 bytes; memory=SIZE allows more",
        ),
        (
            format!(
                "uint32_t deep(volatile uint32_t *up) {{ volatile uint32_t here = *up; return deep(&here) + here; }}{}",
                apply("volatile uint32_t x = n; return deep(&x);")
            ),
            "the module was stopped: ",
        ),
        (apply("return n + 1;"), "the module says that it worked on 1001 bytes, and was given 1000"),
        (apply("return -1;"), "the module says that it worked on 4294967295 bytes"),
        (apply("return 0;"), "the module does not take this byte"),
        (apply("millstream_say(\"a\\x1b[1mb\\n\"); return 0;"), "a [1mb"),
        (apply("millstream_say((char *)0xfffffff0); return 0;"), "the module does not take this byte"),
        (apply("return n; } int32_t millstream_finish(void) { return 1;"), "the module does not take this end"),
        (
            step("s->consumed = s->input_len + 1; return 0;"),
            "the module says that it consumed 1001 bytes, and was given 1000",
        ),
        (
            step("s->produced = s->output_room + 1; return 0;"),
            "the module says that it produced 131073 bytes, and had room for 131072",
        ),
        (step("return 7;"), "the module answered 7, and there are only the answers 0, 1 and 2"),
        (step("return 0;"), "the transform neither reads nor writes, and wants to go on"),
        (step("s->consumed = -1; return 2;"), "the module says that it consumed 4294967295 bytes"),
    ] {
        let file = from_c(&source);
        let line = format!("wasm fuel=5000000 memory=1M {file}");
        let found = in_memory(&format!("short 1000 | head -c 3000 | {line}"), &[b'x'; 5000]).unwrap_err();
        let offset = if error.contains("this end") { 3000 } else { 0 };
        let start = format!("{line}: at byte {offset} of its input: {error}");
        assert!(found.starts_with(&start), "{start}\n{found}");
        fs::remove_file(file).unwrap();
    }
    let late = from_c(&apply("if (o + n <= 2000) return n; millstream_say(\"late\"); return 7;"));
    let found = in_memory(&format!("short 1000 | wasm {late}"), &[b'x'; 5000]).unwrap_err();
    assert_eq!(found, format!("wasm {late}: at byte 2007 of its input: late"));
}

#[test]
fn module_that_writes_for_ever_is_stopped() {
    let step = |body: &str| from_c(&format!("int32_t millstream_step(struct millstream_step *s) {{ {body} }}"));
    let forever = "s->produced = s->output_room; return 0;";
    for (body, offset) in [
        (format!("s->consumed = s->input_len; if (!s->ends) return 0; {forever}"), 5000),
        (forever.into(), 0),
        // A byte a call, which is hardly any work.
        ("s->produced = 1; return 0;".into(), 0),
        (format!("if (s->input_len == 4000 && !s->ends) {{ s->consumed = 3999; return 0; }} {forever}"), 0),
    ] {
        let file = step(&body);
        let line = format!("wasm fuel=100000 memory=1M {file}");
        let found = in_memory(&line, &[b'x'; 5000]).unwrap_err();
        let error = "the module used all of its fuel, 100000, in calls that read nothing: it may run for ever";
        let start = format!("{line}: at byte {offset} of its input: {error}");
        assert!(found.starts_with(&start), "{body}\n{start}\n{found}");
    }
    // One that has much to write in the end, and then has written it.
    let late = step(
        "static int left = 1000; s->consumed = s->input_len; if (!s->ends) return 0; s->produced = 4096; return --left == 0;",
    );
    assert_eq!(in_memory(&format!("wasm fuel=5000000 {late}"), &[b'x'; 5000]).unwrap().len(), 4_096_000);
    // A byte that is read fills the tank.
    let each = step("if (!s->input_len) return s->ends; s->consumed = 1; s->produced = 4000; return 0;");
    assert_eq!(in_memory(&format!("wasm fuel=5000 {each}"), &[b'x'; 500]).unwrap().len(), 2_000_000);
}

/// The same transform in each of the three ways: native, as a module, as a command.
#[test]
fn a_transform_gives_the_same_bytes_native_as_a_module_and_as_a_command() {
    let samples: [Vec<u8>; 4] = [
        Vec::new(),
        b"x".to_vec(),
        b"The Quick\nBrown Fox\n".repeat(4000),
        (0..300_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
    ];
    let python = |change: &str| {
        format!("exec python3 -c 'import sys; b = sys.stdin.buffer.read(); sys.stdout.buffer.write({change})'")
    };
    for (before, native, module, command) in [
        ("", "rot13", "rot13", "exec tr a-zA-Z n-za-mN-ZA-M".to_owned()),
        ("", "increment 7", "increment", python("bytes((c + 7) % 256 for c in b)")),
        ("", "hex", "hex", python("b.hex().encode()")),
        ("hex | ", "unhex", "unhex", python("bytes.fromhex(b.decode())")),
    ] {
        let argument = native.strip_prefix("increment").unwrap_or_default();
        let module = format!("wasm {}{argument}", template(module));
        for sample in &samples {
            let expected = in_memory(&format!("{before}{native}"), sample).unwrap();
            for stage in [native, &module, &command] {
                for cut in ["", "short 4099 | "] {
                    // Nothing to cut.
                    if !cut.is_empty() && sample.len() < 4099 {
                        continue;
                    }
                    let found = in_memory(&format!("{before}{cut}{stage}"), sample).unwrap();
                    assert!(found == expected, "{before}{cut}{stage}: {} bytes", sample.len());
                }
            }
        }
    }
}
