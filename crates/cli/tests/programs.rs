//! Programs of every kind: dynamic C programs that make pipes in each possible way, static ones, other architectures,
//! other C libraries, and those that the loader treats specially.

mod common;

use std::fs;
use std::process::Command;

use common::{PIPE_SIZES, Scratch, Seen, millstream, output, set_mode};

fn run_c(source: &str, options: &[&str]) -> Seen {
    let scratch = Scratch::new();
    let program = scratch.c_program("program", source, options);
    let bare = output(&mut Command::new(&program));
    let seen = output(&mut millstream(["run", "--pipe-size", "256K", "--", &program]));
    let counted = output(&mut millstream(["run", "--pipe-size", "256K", "--stats-file", "/dev/null", "--", &program]));
    assert_eq!(seen, counted);
    assert_eq!((bare.code, bare.signal, bare.stderr), (seen.code, seen.signal, seen.stderr.clone()), "{seen:?}");
    seen
}

#[test]
fn pipe_and_pipe2_and_popen_make_large_pipes() {
    let seen = run_c(
        r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            int a[2], b[2];
            if (pipe(a) || pipe2(b, O_CLOEXEC | O_NONBLOCK)) return 1;
            FILE *r = popen("exec cat /dev/null", "r"), *w = popen("exec cat >/dev/null", "w");
            printf("%d %d %d %d\n", fcntl(a[0], F_GETPIPE_SZ), fcntl(b[1], F_GETPIPE_SZ),
                fcntl(fileno(r), F_GETPIPE_SZ), fcntl(fileno(w), F_GETPIPE_SZ));
            printf("%d %d %d\n", fcntl(a[0], F_GETFD), fcntl(b[0], F_GETFD), fcntl(b[0], F_GETFL) & O_NONBLOCK ? 1 : 0);
            return pclose(r) || pclose(w);
        }"#,
        &[],
    );
    assert_eq!(seen.stdout, "262144 262144 262144 262144\n0 1 1\n");
}

#[test]
fn popen_carries_the_data_and_the_status() {
    let seen = run_c(
        r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        int main(void) {
            char line[64];
            FILE *r = popen("seq 300000; exit 5", "r");
            long sum = 0;
            while (fgets(line, sizeof line, r)) sum += atol(line);
            printf("%ld %d\n", sum, WEXITSTATUS(pclose(r)));
            fflush(stdout);
            FILE *w = popen("wc -l", "w");
            for (int i = 0; i < 300000; i++) fprintf(w, "%d\n", i);
            return pclose(w);
        }"#,
        &[],
    );
    assert_eq!(seen.stdout, "45000150000 5\n300000\n");
}

#[test]
fn errors_are_those_of_the_kernel() {
    let seen = run_c(
        r#"
        #define _GNU_SOURCE
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/resource.h>
        #include <unistd.h>
        #define SHOW(call) do { errno = 77; int result = call; printf("%d %d\n", result, errno); } while (0)
        int main(void) {
            int ends[2] = {-7, -7};
            SHOW(pipe((int *)8));
            SHOW(pipe2(ends, 0x10));
            SHOW(pipe(ends));
            struct rlimit limit = {4, 4};
            setrlimit(RLIMIT_NOFILE, &limit);
            ends[0] = ends[1] = -7;
            SHOW(pipe(ends));
            printf("%d %d\n", ends[0], ends[1]);
            SHOW(execve("/nonexistent", (char *[]){"x", 0}, (char *[]){0}));
            SHOW(execv("/etc", (char *[]){"x", 0}));
            SHOW(execvp("no-such-program", (char *[]){"x", 0}));
            SHOW(execve((char *)8, (char *[]){"x", 0}, (char *[]){0}));
            return 0;
        }"#,
        &[],
    );
    // EFAULT 14, EINVAL 22, errno untouched by success, EMFILE 24, ENOENT 2, EACCES 13.
    assert_eq!(seen.stdout, "-1 14\n-1 22\n0 77\n-1 24\n-7 -7\n-1 2\n-1 13\n-1 2\n-1 14\n");
}

#[test]
fn fortified_reads_are_checked_as_ever() {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        int main(void) {
            char small[8]; int ends[2];
            pipe(ends); write(ends[1], "0123456789", 10);
            size_t size = atoi(getenv("SIZE"));
            printf("%zd\n", read(ends[0], small, size));
            return 0;
        }"#;
    let scratch = Scratch::new();
    let program = scratch.c_program("program", source, &["-O2", "-D_FORTIFY_SOURCE=2", "-w"]);
    for (size, code, signal) in [("5", Some(0), None), ("9", None, Some(6))] {
        for options in [&["--no-ring"][..], &["--no-ring", "--stats-file", "/dev/null"], &["--stats-file", "/dev/null"]]
        {
            let arguments = [&["run"], options, &["--", &program]].concat();
            let seen = output(millstream(arguments).env("SIZE", size));
            assert_eq!((seen.code, seen.signal), (code, signal), "{options:?} {seen:?}");
        }
    }
}

#[test]
fn a_thread_that_is_cancelled_in_a_read_ends() {
    let seen = run_c(
        r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        #include <sys/uio.h>
        static int ends[2];
        static void cleaned(void *what) { printf("cleaned %s\n", (char *)what); fflush(stdout); }
        static void *reader(void *what) {
            char byte;
            pthread_cleanup_push(cleaned, what);
            read(ends[0], &byte, 1);
            pthread_cleanup_pop(0);
            return 0;
        }
        static void *vector_reader(void *what) {
            char byte;
            struct iovec part = {&byte, 1};
            pthread_cleanup_push(cleaned, what);
            readv(ends[0], &part, 1);
            pthread_cleanup_pop(0);
            return 0;
        }
        int main(void) {
            pthread_t thread; void *result;
            pipe(ends);
            // The first call looks for the function of glibc, the second has it.
            for (int call = 0; call < 2; call++) {
                pthread_create(&thread, 0, reader, "read"); usleep(50000); pthread_cancel(thread); pthread_join(thread, &result);
                printf("%d\n", result == PTHREAD_CANCELED);
                pthread_create(&thread, 0, vector_reader, "readv"); usleep(50000); pthread_cancel(thread); pthread_join(thread, &result);
                printf("%d\n", result == PTHREAD_CANCELED);
            }
            return 0;
        }"#,
        &["-pthread", "-w"],
    );
    assert_eq!(seen.stdout, "cleaned read\n1\ncleaned readv\n1\n".repeat(2));
}

#[test]
fn every_way_to_start_a_program_starts_it() {
    let seen = run_c(
        r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <spawn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char **environ;
        static char *arguments[] = {"echo", "said", 0};
        #define CHILD(how) do { fflush(stdout); if (fork() == 0) { how; _exit(99); } wait(&status); \
            printf("%s: %d\n", #how, WEXITSTATUS(status)); } while (0)
        int main(void) {
            int status; pid_t pid;
            int fd = open("/bin/echo", O_RDONLY | O_CLOEXEC);
            setvbuf(stdout, 0, _IOLBF, 0);
            CHILD(execv("/bin/echo", arguments));
            CHILD(execve("/bin/echo", arguments, environ));
            CHILD(execve("/bin/echo", arguments, (char *[]){0}));
            CHILD(execve("/bin/echo", arguments, 0));
            CHILD(execvp("echo", arguments));
            CHILD(execvpe("echo", arguments, environ));
            CHILD(execl("/bin/echo", "echo", "said", (char *)0));
            CHILD(execlp("echo", "echo", "said", (char *)0));
            CHILD(fexecve(fd, arguments, environ));
            status = posix_spawn(&pid, "/bin/echo", 0, 0, arguments, environ); waitpid(pid, 0, 0); printf("%d\n", status);
            status = posix_spawnp(&pid, "echo", 0, 0, arguments, environ); waitpid(pid, 0, 0); printf("%d\n", status);
            printf("%d\n", posix_spawnp(&pid, "no-such-program", 0, 0, arguments, environ));
            fflush(stdout);
            if (vfork() == 0) { execve("/bin/echo", arguments, environ); _exit(99); }
            wait(&status);
            return system("exit 4") >> 8;
        }"#,
        &["-w"],
    );
    assert_eq!(seen.stdout.matches("said\n").count(), 12, "{seen:?}");
    assert_eq!(seen.stdout.matches(": 0\n").count(), 9, "{seen:?}");
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(4), ""));
}

/// We look names up without the loader, whose error is the program's own.
#[test]
fn a_pending_error_of_the_loader_stays() {
    let seen = run_c(
        r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            dlopen("/nonexistent.so", RTLD_NOW);
            pclose(popen(":", "r"));
            write(1, "", 0);
            printf("%d\n", dlerror() != NULL);
            return 0;
        }"#,
        &["-w"],
    );
    assert_eq!(seen.stdout, "1\n");
}

#[test]
fn a_program_built_with_address_sanitizer_runs() {
    let scratch = Scratch::new();
    let hello = scratch.c_program("hello", HELLO, &["-fsanitize=address"]);
    for command in [&["--", &hello][..], &["-c", &format!("{hello} | cat")]] {
        let seen = output(&mut millstream([&["run"], command].concat()));
        assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), ("hello\n", "", Some(0)));
    }
}

/// Looking at what is to be executed must not wake the writer of a FIFO.
#[test]
fn executing_a_fifo_does_not_open_it() {
    let scratch = Scratch::new();
    let fifo = scratch.path("fifo");
    assert_eq!(output(Command::new("mkfifo").args(["-m", "777"]).arg(&fifo)).code, Some(0));
    let mut writer = Command::new("sh").args(["-c", &format!("echo x >{}", fifo.display())]).spawn().unwrap();
    let execute = "import os, sys, time\ntime.sleep(0.2)\ntry: os.execv(sys.argv[1], ['x'])\nexcept PermissionError: print('refused')";
    let seen = output(millstream(["run", "--", "python3", "-c", execute]).arg(&fifo));
    assert_eq!(seen.stdout, "refused\n", "{seen:?}");
    assert!(writer.try_wait().unwrap().is_none(), "the writer was let go");
    writer.kill().unwrap();
    writer.wait().unwrap();
}

#[test]
fn an_environment_too_large_to_copy_is_passed_on_whole() {
    let mut command = millstream(["run", "-c", "env | grep -c '^FILL'"]);
    for index in 0..600 {
        command.env(format!("FILL{index}"), "x");
    }
    assert_eq!(output(&mut command).stdout, "600\n");
}

/// The library is kept out of the small program's environment; what the user put there stays.
#[test]
fn programs_that_make_no_pipes_run_without_the_library() {
    let scratch = Scratch::new();
    let copy = scratch.path("environ");
    let at_a_pipe = "/bin/cat /proc/self/environ | tr '\\0' '\\n' | grep -E 'MINE|LD_PRELOAD|MILLSTREAM'";
    let at_none = format!("/bin/cat /proc/self/environ >{0}; tr '\\0' '\\n' <{0} >{0}.text", copy.display());
    let at_none = format!("{at_none}; grep -E 'MINE|LD_PRELOAD|MILLSTREAM' {}.text", copy.display());
    for arguments in [["run", "--no-ring", "-c", at_a_pipe].as_slice(), &["run", "-c", &at_none]] {
        let seen = output(millstream(arguments).env("MINE", "1"));
        assert_eq!(seen.stdout, "MINE=1\n", "{arguments:?}");
    }
    // At a pipe it moves the bytes.
    let seen = output(&mut millstream(["run", "-c", at_a_pipe]));
    assert_eq!(seen.stdout.contains("libmillstream_preload.so"), cfg!(target_arch = "x86_64"), "{seen:?}");
    let mapped = output(&mut millstream([
        "run",
        "-c",
        "python3 -c 'print(open(\"/proc/self/maps\").read().count(\"millstream\") > 0)'",
    ]));
    assert_eq!(mapped.stdout, "True\n");
}

/// What these write is a few lines, whatever reads it.
#[test]
fn a_tool_that_says_little_runs_without_the_library_even_at_a_pipe() {
    let scratch = Scratch::new();
    let seen = scratch.path("environ");
    let other = scratch.path("cp");
    // By another process: what is open for writing anywhere cannot be executed, and a test beside this one might fork.
    assert!(Command::new("cp").arg("/bin/cp").arg(&other).status().unwrap().success());
    let environment_of = |cp: &str, options: &[&str]| {
        let script = format!("{cp} /proc/self/environ {} | /bin/cat", seen.display());
        let run = output(millstream(["run"]).args(options).args(["-c", &script]));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        fs::read_to_string(&seen).unwrap()
    };
    for known in ["/bin/cp", "/usr/bin/cp"] {
        let seen = environment_of(known, &[]);
        assert!(
            !seen.contains("libmillstream_") && !seen.contains("MILLSTREAM_RUN") && seen.contains("PATH="),
            "{seen}"
        );
    }
    let has_library = |seen: String| seen.contains("libmillstream_preload") && seen.contains("MILLSTREAM_RUN");
    let can_attach = cfg!(target_arch = "x86_64");
    // What is attached after one byte is worth it, another program may do anything, and a run that counts wants to see all.
    assert_eq!(has_library(environment_of("/bin/cp", &["--ring-after", "1"])), can_attach);
    assert_eq!(has_library(environment_of(other.to_str().unwrap(), &[])), can_attach);
    let stats = scratch.path("stats").display().to_string();
    assert_eq!(has_library(environment_of("/bin/cp", &["--stats-file", &stats])), can_attach);
}

/// As much as there is to read tells how much a filter writes.
#[test]
fn a_filter_of_little_runs_without_the_library_and_one_of_much_has_it() {
    let scratch = Scratch::new();
    let (little, much) = (scratch.file("little", "text\n"), scratch.file("much", &("x".repeat(10 << 20) + "\n")));
    let [one, other] = ["one", "other"].map(|name| scratch.file(name, &("x".repeat(5 << 20) + "\n")));
    // sed writes its environment behind each line.
    let has_library = |options: &[&str], script: &str| {
        let script = script.replace("SED", "/bin/sed 'r /proc/self/environ'");
        let run = output(millstream(["run"]).args(options).args(["--shell", "/bin/bash", "-c", &script]));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{script}");
        assert!(run.stdout.contains("PATH="), "{script}");
        run.stdout.contains("libmillstream_preload")
    };
    for bounded in [
        format!("SED {little} | /bin/cat"),
        format!("SED {one} | /bin/cat"),
        format!("SED {little} no-file /dev/null 2>/dev/null | /bin/cat"),
        format!("/bin/sed -e 'r /proc/self/environ' {little} | /bin/cat"),
        format!("/bin/sed -ne 'p;r /proc/self/environ' {little} | /bin/cat"),
        format!("SED <{little} | /bin/cat"),
        // The pipe that stands on its input is in use, but not read.
        format!("sleep 0.1 | SED {little} | /bin/cat"),
        // Larger, but at no pipe.
        format!("SED {much} >{much}.out; /bin/cat {much}.out"),
        format!("mkfifo {much}.fifo; /bin/cat {much}.fifo & SED {much} >{much}.fifo; wait"),
    ] {
        assert!(!has_library(&[], &bounded), "{bounded}");
    }
    for unbounded in [
        format!("SED {much} | /bin/cat"),
        format!("SED {one} {other} | /bin/cat"),
        format!("SED <{much} | /bin/cat"),
        format!("echo text | SED {little} - | /bin/cat"),
        // Which of these words are files is not looked at.
        format!("/bin/sed -e'r /proc/self/environ' {much} </dev/null | /bin/cat"),
        format!("/bin/sed --expression='r /proc/self/environ' {much} </dev/null | /bin/cat"),
        format!("/bin/grep -ahr PATH= /proc/self/environ {little} </dev/null | /bin/cat"),
        "SED /proc/self/status | /bin/cat".to_owned(), // of unknown size
        "SED </proc/self/status | /bin/cat".to_owned(),
    ] {
        assert_eq!(has_library(&[], &unbounded), cfg!(target_arch = "x86_64"), "{unbounded}");
    }
    let at_once = format!("SED {little} | /bin/cat");
    assert_eq!(has_library(&["--ring-after", "1"], &at_once), cfg!(target_arch = "x86_64"));
    // The same for what is left in a pipe, and for a line that a shell has just written into one.
    let waits = "
import os, sys
reader, writer = os.pipe()
if sys.argv[1] != '0':
    os.write(writer, b'x' * (int(sys.argv[1]) - 1) + b'\\n')
elif os.fork() == 0:
    while open(f'/proc/{os.getppid()}/comm').read() != 'sed\\n':
        pass
    os.write(writer, b'text\\n')
    os._exit(0)
os.dup2(reader, 0)
if sys.argv[2] == 'left':
    os.close(writer)
else:
    os.set_inheritable(writer, True)
os.execv('/bin/sed', ['sed', '-e', 'r /proc/self/environ', '-e', 'q'])";
    let with_waiting = |options: &[&str], bytes: &str, writer: &str| {
        let run = output(millstream(["run"]).args(options).args(["--", "python3", "-c", waits, bytes, writer]));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        run.stdout.contains("libmillstream_preload")
    };
    for (bytes, writer) in [("5", "left"), ("4095", "left"), ("5", "there"), ("4095", "there")] {
        assert!(!with_waiting(&[], bytes, writer), "{bytes} {writer}");
        assert_eq!(with_waiting(&["--ring-after", "1"], bytes, writer), cfg!(target_arch = "x86_64"));
    }
    for (bytes, writer) in [("4096", "left"), ("4096", "there"), ("0", "there")] {
        assert_eq!(with_waiting(&[], bytes, writer), cfg!(target_arch = "x86_64"), "{bytes} {writer}");
    }
}

/// The functions behind ours are the next in the order of loading, as the loader would find them, whether or not it says where its list is.
#[test]
fn a_library_of_the_program_that_stands_in_front_of_glibc_is_called_too() {
    let scratch = Scratch::new();
    let front = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <spawn.h>
        #include <stdio.h>
        #define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))
        FILE *popen(const char *command, const char *mode) { printf("popen\n"); fflush(stdout); return NEXT(popen)(command, mode); }
        int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                         char *const arguments[], char *const environment[]) {
            printf("posix_spawnp\n"); fflush(stdout);
            return NEXT(posix_spawnp)(pid, file, actions, attributes, arguments, environment);
        }"#;
    let front = scratch.c_program("libfront.so", front, &["-shared", "-fPIC", "-w"]);
    let program = r#"
        #define _GNU_SOURCE
        #include <spawn.h>
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char **environ;
        int main(void) {
            char line[16], *echo[] = {"echo", "spawned", NULL}, *other[] = {"sh", "-c", "echo executed", NULL};
            pid_t child;
            FILE *stream = popen("echo opened", "r");
            printf("%s", fgets(line, sizeof line, stream)); fflush(stdout);
            pclose(stream);
            if (posix_spawnp(&child, "echo", NULL, NULL, echo, environ) == 0) waitpid(child, NULL, 0);
            if (posix_spawn(&child, "/bin/echo", NULL, NULL, echo, environ) == 0) waitpid(child, NULL, 0);
            execvpe("sh", other, environ);
            return 1;
        }"#;
    let directory = std::path::Path::new(&front).parent().unwrap().display().to_string();
    let options = ["-w", "-Wl,--no-as-needed", &front, &format!("-Wl,-rpath,{directory}")];
    let program = scratch.c_program("program", program, &options);
    let wanted = "popen\nopened\nposix_spawnp\nspawned\nspawned\nexecuted\n";
    assert_eq!(output(&mut std::process::Command::new(&program)).stdout, wanted);
    for options in [&["run"][..], &["run", "--no-ring"], &["run", "--stats-file", "/dev/null"]] {
        for binds_at_once in [None, Some("1")] {
            let mut command = millstream(options);
            command.args(["--", &program]);
            if let Some(value) = binds_at_once {
                command.env("LD_BIND_NOW", value);
            }
            let seen = output(&mut command);
            assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), (wanted, "", Some(0)), "{options:?}");
        }
    }
}

/// What is exported for statistics is a jump where there are none: the function behind returns to the program.
#[test]
fn function_that_counts_leaves_no_frame_without_statistics() {
    let scratch = Scratch::new();
    let front = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <unistd.h>
        #include <sys/uio.h>
        ssize_t writev(int fd, const struct iovec *parts, int count) {
            Dl_info caller;
            int is_main = dladdr(__builtin_return_address(0), &caller) && caller.dli_saddr == dlsym(RTLD_DEFAULT, "main");
            errno = 77;
            return fd == 5 && count == 7 ? is_main : -2;
        }"#;
    let front = scratch.c_program("libfront.so", front, &["-shared", "-fPIC", "-w"]);
    let program = r#"
        #include <errno.h>
        #include <stdio.h>
        #include <sys/uio.h>
        int main(void) {
            struct iovec parts[7] = {0};
            long first = writev(5, parts, 7), second = writev(5, parts, 7);
            printf("%ld %ld %d\n", first, second, errno);
            return first < 0;
        }"#;
    let directory = std::path::Path::new(&front).parent().unwrap().display().to_string();
    let options = ["-w", "-rdynamic", "-Wl,--no-as-needed", &front, &format!("-Wl,-rpath,{directory}")];
    let program = scratch.c_program("program", program, &options);
    assert_eq!(output(&mut Command::new(&program)).stdout, "1 1 77\n");
    for (options, wanted) in [
        (&["run"][..], "1 1 77\n"),
        (&["run", "--no-ring"], "1 1 77\n"),
        (&["run", "--stats-file", "/dev/null"], "0 0 77\n"),
        (&["run", "--no-ring", "--stats-file", "/dev/null"], "0 0 77\n"),
    ] {
        // With this the loader binds all names as the program starts, and leaves no trace of its list for lazy binding.
        for binds_at_once in [false, true] {
            let mut command = millstream(options);
            command.args(["--", &program]);
            if binds_at_once {
                command.env("LD_BIND_NOW", "1");
            }
            let seen = output(&mut command);
            assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), (wanted, "", Some(0)), "{options:?}");
        }
    }
}

#[test]
fn a_static_program_in_the_middle_of_a_pipeline() {
    let scratch = Scratch::new();
    let sizes = scratch.c_program("sizes", PIPE_SIZES, &["-static"]);
    let copy = scratch.c_program(
        "copy",
        "#include <unistd.h>\nint main(void) { char b[70000]; ssize_t n; while ((n = read(0, b, sizeof b)) > 0) write(1, b, n); return 0; }\n",
        &["-static", "-w"],
    );
    let seen = output(&mut millstream([
        "run",
        "--pipe-size",
        "256K",
        "-c",
        &format!("seq 200000 | {copy} | tail -n 1; {sizes} 0 </dev/null; : | {sizes} 0 1 | cat"),
    ]));
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("200000\n-1\n262144\n262144\n", ""));
}

/// A static shell is out of reach, but the dynamic programs that it connects enlarge the pipes they find.
#[test]
fn pipes_made_by_a_static_program_are_enlarged_by_the_dynamic_ones_on_them() {
    let scratch = Scratch::new();
    let sizes = scratch.c_program("sizes", PIPE_SIZES, &["-static"]);
    let shell = scratch.c_program(
        "shell",
        r#"
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int count, char **arguments) {
            int ends[2];
            pipe(ends);
            if (fork() == 0) { dup2(ends[0], 0); execl("/usr/bin/python3", "python3", "-c",
                "import os, sys; os.execv(sys.argv[1], [sys.argv[1], '0'])", arguments[1], (char *)0); }
            wait(0);
            return 0;
        }"#,
        &["-static", "-w"],
    );
    assert_eq!(output(&mut millstream(["run", "--pipe-size", "256K", "--", &shell, &sizes])).stdout, "262144\n");
}

/// `fcntl` is where a thread can be cancelled, and its own clean-up runs then.
#[test]
fn a_thread_that_waits_in_fcntl_can_be_cancelled() {
    let seen = run_c(
        r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <pthread.h>
        #include <signal.h>
        #include <stdio.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int file, begun[2];
        static struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
        static void clean_up(void *what) { puts(what); }
        static void *wait_for_it(void *none) {
            pthread_cleanup_push(clean_up, "cleaned up");
            write(begun[1], "", 1);
            printf("%d\n", fcntl(file, F_SETLKW, &lock));
            pthread_cleanup_pop(0);
            return none;
        }
        int main(void) {
            char byte;
            file = memfd_create("locked", 0);
            if (file < 0 || pipe(begun)) return 1;
            pid_t child = fork();
            if (child == 0) {
                if (fcntl(file, F_SETLK, &lock) == 0) write(begun[1], "", 1);
                for (;;) pause();
            }
            read(begun[0], &byte, 1);
            pthread_t thread;
            void *left;
            if (pthread_create(&thread, 0, wait_for_it, 0)) return 2;
            read(begun[0], &byte, 1);
            usleep(20000);
            pthread_cancel(thread);
            pthread_join(thread, &left);
            puts(left == PTHREAD_CANCELED ? "cancelled" : "returned");
            kill(child, SIGKILL);
            return waitpid(child, 0, 0) != child;
        }"#,
        &["-pthread", "-w"],
    );
    assert_eq!(seen.stdout, "cleaned up\ncancelled\n");
}

const HELLO: &str = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";

/// Started by `millstream` itself, by a shell, and past our `exec` functions by `execl`.
fn hello_from_everywhere(hello: &str, scratch: &Scratch) -> Vec<Seen> {
    let execl =
        format!("#include <unistd.h>\nint main(void) {{ execl(\"{hello}\", \"hello\", (char *)0); return 1; }}\n");
    let execl = scratch.c_program("execl", &execl, &[]);
    let script = format!("{hello} | cat");
    let mut seen = Vec::new();
    for options in [&[][..], &["--stats-file", "/dev/null"]] {
        for command in [&["--", hello][..], &["-c", &script], &["--", "env", hello], &["--", &execl]] {
            seen.push(output(&mut millstream([&["run"], options, command].concat())));
        }
    }
    seen
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_of_another_architecture_just_run() {
    let scratch = Scratch::new();
    let hello = scratch.c_program("hello", HELLO, &["-m32"]);
    let seen = hello_from_everywhere(&hello, &scratch);
    for (index, seen) in seen.into_iter().enumerate() {
        assert_eq!((seen.stdout.as_str(), seen.code), ("hello\n", Some(0)));
        // execl is out of our reach: the loader of the 32-bit program says that it ignores the library.
        let is_execl = index % 4 == 3;
        assert_eq!(seen.stderr.is_empty(), !is_execl, "{index}: {}", seen.stderr);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_of_another_c_library_just_run() {
    let scratch = Scratch::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <poll.h>
        #include <stdio.h>
        #include <sys/select.h>
        #include <unistd.h>
        int main(void) {
            int ends[2]; char byte;
            if (pipe(ends) || write(ends[1], "x", 1) != 1) return 1;
            struct pollfd asked = {.fd = ends[0], .events = POLLIN};
            fd_set set;
            FD_ZERO(&set);
            FD_SET(ends[0], &set);
            if (poll(&asked, 1, 0) != 1 || select(ends[0] + 1, &set, 0, 0, 0) != 1) return 2;
            if (fcntl(ends[0], F_GETFL) != O_RDONLY || fcntl(ends[0], F_SETPIPE_SZ, 8192) != 8192) return 3;
            if (read(ends[0], &byte, 1) != 1) return 4;
            pclose(popen(":", "r"));
            puts("hello");
            return 0;
        }"#;
    let hello = scratch.compile("musl-gcc", "hello", source, &["-w"]);
    for seen in hello_from_everywhere(&hello, &scratch) {
        assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), ("hello\n", "", Some(0)));
    }
}

#[test]
fn a_setuid_program_just_runs() {
    let scratch = Scratch::new();
    let source = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d %d\\n\", getuid(), geteuid()); return 0; }\n";
    scratch.c_program("who", source, &[]);
    let who = scratch.path("who");
    assert_eq!(output(Command::new("chown").arg("1:1").arg(&who)).code, Some(0), "this test needs root");
    set_mode(&who, 0o6755);
    let installed = scratch.installed();
    let seen = output(
        Command::new("setpriv").args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(installed).args([
            "run",
            "-c",
            &format!("{} | cat", who.display()),
        ]),
    );
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), ("65534 1\n", "", Some(0)));
}

/// What every program of a run maps: small, needing no other library, offering no names but those it stands in front of.
#[test]
fn the_library_is_as_small_as_it_must_be() {
    let directory = std::path::Path::new(common::program()).with_file_name("lib/millstream");
    // By these three our own program takes part in the ring.
    let promised = 3;
    // Functions that can do something with a pipe, by all their names; those that move bytes; and those that give pointers to them.
    let guarded = millstream_sys::fate::GUARDED
        + ["read", "__read", "write", "__write", "__read_chk"].len()
        + ["dlsym", "dlvsym"].len();
    let pipes = ["pipe", "pipe2"].len();
    let library = directory.join(millstream_sys::settings::LIBRARY);
    assert!(fs::metadata(&library).unwrap().len() < 112 << 10);
    let dynamic = output(Command::new("readelf").arg("-dW").arg(&library)).stdout;
    assert!(!dynamic.contains("NEEDED"), "{dynamic}");
    let segments = output(Command::new("readelf").arg("-lW").arg(&library)).stdout;
    assert_eq!(segments.matches("LOAD ").count(), 2, "{segments}");
    // Most of what loading costs is the copy of each page that is written to.
    let data: Vec<&str> =
        segments.lines().filter(|line| line.contains("LOAD ")).nth(1).unwrap().split_whitespace().collect();
    let number = |at: usize| u64::from_str_radix(data[at].trim_start_matches("0x"), 16).unwrap();
    let (start, len) = (number(2), number(5));
    assert!((start % 4096 + len).div_ceil(4096) <= 1, "{segments}");
    // Each address in the data is written by the loader as a program starts, and each name is looked up.
    let relocations = output(Command::new("readelf").arg("-rW").arg(&library)).stdout;
    assert!(relocations.matches("_RELATIVE").count() <= 24, "{relocations}");
    assert_eq!(relocations.matches("_GLOB_DAT").count(), 1, "{relocations}");
    assert!(!segments.contains(" TLS ") && !segments.contains("RWE"), "{segments}");
    let symbols = output(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(&library)).stdout;
    let offered = symbols.lines().filter(|line| line.contains(" FUNC ") && !line.contains(" UND ")).count();
    assert!(offered <= guarded + promised + pipes, "{symbols}");
    assert!(!symbols.contains("GLIBC_"), "versions tie it to one glibc: {symbols}");
}
