//! What is special to millstream's ends: at any moment they can be exported as plain descriptors for foreign programs,
//! and no byte is lost or out of place. Programs with millstream attach them again.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use millstream_conformance::ours::{Ours, Reader, Writer};
use millstream_conformance::pattern::{
    self, check, fill, read_exact, read_stream, read_to_end, write_all, write_stream,
};
use millstream_conformance::process::{Child, fork};
use millstream_conformance::socket::{receive, send};
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_asleep};
use millstream_conformance::{End, Implementation, PIPE_BUF, ReadEnd, WriteEnd, alone, error_of, kernel};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

const TOTAL: u64 = 1 << 20;

fn pipe() -> (Reader, Writer) {
    Ours::pipe().unwrap()
}

/// A program that reads the stream from `position` on from its standard input.
fn program_reading(reader: Reader, script: &str) -> std::process::Child {
    let input = reader.0.into_fd().unwrap();
    Command::new("sh").args(["-c", script]).stdin(input).stdout(Stdio::piped()).spawn().unwrap()
}

/// A program that writes to the pipe as its standard output.
fn program_writing(writer: Writer, script: &str) -> std::process::Child {
    let output = writer.0.into_fd().unwrap();
    Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(output).spawn().unwrap()
}

fn output_of(program: std::process::Child) -> Vec<u8> {
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    output.stdout
}

fn attach_reader(descriptor: OwnedFd) -> Reader {
    Reader(millstream_pipe::Reader::attach(descriptor).unwrap())
}

fn attach_writer(descriptor: OwnedFd) -> Writer {
    Writer(millstream_pipe::Writer::attach(descriptor).unwrap())
}

/// A child at the other end of a socket, which has no pipe of ours.
fn socket_child(body: impl FnOnce(UnixStream)) -> (Child, UnixStream) {
    let sockets = UnixStream::pair().unwrap();
    let (child, (here, there)) = fork(sockets, |(here, there)| {
        drop(here);
        body(there);
    });
    drop(there);
    (child, here)
}

// To programs that know nothing of us.
alone! {
    fn a_program_reads_what_waited_and_what_comes_later() {
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..10_000));
        let program = program_reading(reader, "cat");
        let task = start(move || write_stream(&writer, 10_000..TOTAL, 7000));
        let output = output_of(program);
        assert_eq!(output.len() as u64, TOTAL);
        check(0, &output);
        task.join();
    }

    fn a_program_reads_only_what_waited() {
        let (reader, writer) = pipe();
        write_all(&writer, b"flour");
        drop(writer);
        assert_eq!(output_of(program_reading(reader, "tr a-z A-Z")), b"FLOUR");
    }

    fn a_program_reads_a_full_pipe() {
        let (reader, writer) = pipe();
        let filled = fill(&writer, 0);
        drop(writer);
        let output = output_of(program_reading(reader, "cat"));
        assert_eq!(output.len(), filled);
        check(0, &output);
    }

    fn a_program_reads_only_what_comes_later() {
        let (reader, writer) = pipe();
        let program = program_reading(reader, "cat");
        write_all(&writer, b"later");
        drop(writer);
        assert_eq!(output_of(program), b"later");
    }

    fn a_program_reads_the_rest_of_a_stream_that_was_begun_here() {
        let (reader, writer) = pipe();
        let task = start(move || write_stream(&writer, 0..TOTAL, 7000));
        check(0, &read_exact(&reader, 300_000));
        let output = output_of(program_reading(reader, "cat"));
        check(300_000, &output);
        assert_eq!(output.len() as u64, TOTAL - 300_000);
        task.join();
    }

    fn a_program_gets_its_end_while_a_writer_sleeps_on_the_full_pipe() {
        let (reader, writer) = pipe();
        let task = start_and_wait_until_asleep(move || assert_eq!(writer.write(&pattern::bytes(0..TOTAL)).unwrap(), TOTAL as usize));
        let output = output_of(program_reading(reader, "cat"));
        assert_eq!(output.len() as u64, TOTAL);
        check(0, &output);
        task.join();
    }

    fn a_program_writes_after_what_was_written_here() {
        let (reader, writer) = pipe();
        write_all(&writer, b"ours ");
        let mut program = program_writing(writer, "printf theirs");
        assert_eq!(read_to_end(&reader), b"ours theirs");
        assert!(program.wait().unwrap().success());
    }

    fn a_program_writes_while_a_reader_sleeps_on_the_empty_pipe() {
        let (reader, writer) = pipe();
        let task = start_and_wait_until_asleep(move || read_to_end(&reader));
        let mut program = program_writing(writer, "printf one; sleep 0.1; printf two");
        assert_eq!(task.join(), b"onetwo");
        assert!(program.wait().unwrap().success());
    }

    fn a_program_writes_more_than_the_pipe_holds() {
        let (reader, writer) = pipe();
        write_all(&writer, &[b'0'; 3000]);
        let mut program = program_writing(writer, "head -c 1000000 /dev/zero");
        let bytes = read_to_end(&reader);
        assert_eq!(bytes.len(), 1_003_000);
        assert!(bytes[..3000].iter().all(|&byte| byte == b'0') && bytes[3000..].iter().all(|&byte| byte == 0));
        assert!(program.wait().unwrap().success());
    }

    fn programs_and_we_write_in_turn() {
        let (reader, writer) = pipe();
        let mut wanted = Vec::new();
        for turn in 0..10 {
            write_all(&writer, format!("ours {turn} ").as_bytes());
            let clone = writer.try_clone().unwrap();
            assert!(program_writing(clone, &format!("printf 'theirs {turn} '")).wait().unwrap().success());
            wanted.extend(format!("ours {turn} theirs {turn} ").into_bytes());
        }
        drop(writer);
        assert_eq!(read_to_end(&reader), wanted);
    }

    fn programs_and_we_read_in_turn() {
        let (reader, writer) = pipe();
        for turn in 0..10 {
            write_all(&writer, format!("ours {turn}\ntheirs {turn}\n").as_bytes());
            assert_eq!(read_exact(&reader, 7), format!("ours {turn}\n").as_bytes());
            // `read` of a shell takes no byte more than the line.
            let program = program_reading(reader.try_clone().unwrap(), "read line; echo \"$line\"");
            assert_eq!(output_of(program), format!("theirs {turn}\n").as_bytes());
        }
    }

    fn a_program_in_the_middle_of_two_pipes() {
        let (first_reader, first_writer) = pipe();
        let (second_reader, second_writer) = pipe();
        write_all(&first_writer, b"before ");
        let mut program = Command::new("tr")
            .args(["a-z", "A-Z"])
            .stdin(first_reader.0.into_fd().unwrap())
            .stdout(second_writer.0.into_fd().unwrap())
            .spawn()
            .unwrap();
        write_all(&first_writer, b"after");
        drop(first_writer);
        assert_eq!(read_to_end(&second_reader), b"BEFORE AFTER");
        assert!(program.wait().unwrap().success());
    }

    fn a_program_that_leaves_early_breaks_the_pipe() {
        let (reader, writer) = pipe();
        let program = program_reading(reader, "head -c 5");
        let mut position = 0;
        let refused = loop {
            match writer.write(&pattern::bytes(position..position + 3000)) {
                Ok(count) => position += count as u64,
                refused => break refused,
            }
        };
        assert_eq!(error_of(refused), Errno::PIPE);
        check(0, &output_of(program));
    }

    fn a_program_that_is_killed_ends_the_stream() {
        let (reader, writer) = pipe();
        let mut program = program_writing(writer, "printf words; exec sleep 3600");
        assert_eq!(read_exact(&reader, 5), b"words");
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
        program.kill().unwrap();
        assert_eq!(task.join(), 0);
        program.wait().unwrap();
    }

    fn a_program_that_is_no_longer_there_when_the_pipe_is_read() {
        let (reader, writer) = pipe();
        assert!(program_writing(writer, "printf 'last words'").wait().unwrap().success());
        assert_eq!(read_to_end(&reader), b"last words");
    }
}

// As plain descriptors.
alone! {
    fn a_plain_descriptor_is_a_pipe_of_the_kernel() {
        let (reader, writer) = pipe();
        let (reader, writer) = (reader.0.into_fd().unwrap(), writer.0.into_fd().unwrap());
        for end in [&reader, &writer] {
            let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(end).unwrap().st_mode);
            assert_eq!(kind, rustix::fs::FileType::Fifo);
        }
        assert_eq!(rustix::io::write(&writer, b"plain"), Ok(5));
        assert_eq!(rustix::io::ioctl_fionread(&reader), Ok(5));
        let mut buffer = [0; 10];
        assert_eq!(rustix::io::read(&reader, &mut buffer), Ok(5));
    }

    fn a_plain_reader_has_every_byte_that_waits() {
        for waiting in [0, 1, 4095, 4096, 4097, 65_535, 65_536] {
            let (reader, writer) = pipe();
            write_stream(&writer, 0..waiting, 4096);
            let reader = kernel::Reader(reader.0.into_fd().unwrap());
            assert_eq!(reader.bytes_readable().unwrap() as u64, waiting);
            drop(writer);
            assert_eq!(read_stream(&reader, 0, 5000), waiting);
        }
    }

    fn more_bytes_wait_than_a_new_pipe_of_the_kernel_holds() {
        let (reader, writer) = pipe();
        writer.set_capacity(1 << 20).unwrap();
        let filled = fill(&writer, 0) as u64;
        let reader = kernel::Reader(reader.0.into_fd().unwrap());
        drop(writer);
        assert_eq!(read_stream(&reader, 0, 5000), filled);
    }

    fn a_plain_writer_comes_after_what_waits() {
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..5000));
        let writer = kernel::Writer(writer.0.into_fd().unwrap());
        write_all(&writer, &pattern::bytes(5000..9000));
        check(0, &read_exact(&reader, 6000));
        write_all(&writer, &pattern::bytes(9000..20_000));
        drop(writer);
        assert_eq!(read_stream(&reader, 6000, 700), 14_000);
    }

    fn a_plain_writer_keeps_its_flag_of_not_blocking() {
        let (reader, writer) = pipe();
        fill(&writer, 0);
        writer.set_nonblocking(true).unwrap();
        let writer = kernel::Writer(writer.0.into_fd().unwrap());
        assert_eq!(error_of(writer.write(&[0; PIPE_BUF])), Errno::AGAIN);
        drop(reader);
        assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
    }

    fn a_clone_of_ours_beside_a_plain_one_shares_the_stream() {
        let (reader, writer) = pipe();
        let plain = kernel::Writer(writer.try_clone().unwrap().0.into_fd().unwrap());
        for at in (0..TOTAL).step_by(2000) {
            let task = start({
                let ours = writer.try_clone().unwrap();
                move || write_all(&ours, &pattern::bytes(at..at + 1000))
            });
            task.join();
            write_all(&plain, &pattern::bytes(at + 1000..at + 2000));
            check(at, &read_exact(&reader, 2000));
        }
        drop(plain);
        reader.set_nonblocking(true).unwrap();
        assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    fn small_writes_of_ours_and_of_a_plain_end_stay_whole() {
        let (reader, writer) = pipe();
        let plain = kernel::Writer(writer.try_clone().unwrap().0.into_fd().unwrap());
        let ours = start(move || (0..3000).for_each(|_| assert_eq!(writer.write(&[1; 700]).unwrap(), 700)));
        let theirs = start(move || (0..3000).for_each(|_| assert_eq!(plain.write(&[2; 900]).unwrap(), 900)));
        let bytes = read_to_end(&reader);
        assert_eq!(bytes.len(), 3000 * (700 + 900));
        for run in bytes.chunk_by(|a, b| a == b) {
            assert_eq!(run.len() % if run[0] == 1 { 700 } else { 900 }, 0, "a small write was split");
        }
        ours.join();
        theirs.join();
    }

    fn an_end_becomes_plain_in_the_middle_of_a_stream_at_any_moment() {
        let mut random = pattern::Random(31);
        for _ in 0..30 {
            let (reader, writer) = pipe();
            let task = start(move || write_stream(&writer, 0..TOTAL / 4, 3000));
            let begun = random.within(0..200_000);
            check(0, &read_exact(&reader, begun));
            let reader = kernel::Reader(reader.0.into_fd().unwrap());
            assert_eq!(read_stream(&reader, begun as u64, 5000), TOTAL / 4 - begun as u64);
            task.join();
        }
    }

    fn a_plain_end_is_attached_again() {
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..1000));
        let writer = attach_writer(writer.0.into_fd().unwrap());
        write_all(&writer, &pattern::bytes(1000..2000));
        let reader = attach_reader(reader.0.into_fd().unwrap());
        check(0, &read_exact(&reader, 1500));
        write_all(&writer, &pattern::bytes(2000..20_000));
        drop(writer);
        assert_eq!(read_stream(&reader, 1500, 999), 20_000 - 1500);
    }

    fn an_end_that_is_given_away_and_attached_time_and_again_comes_back_to_the_ring() {
        let (reader, mut writer) = pipe();
        for round in 0..5_u64 {
            writer = attach_writer(writer.0.into_fd().unwrap());
            let at = round * 3000;
            write_all(&writer, &pattern::bytes(at..at + 3000));
            check(at, &read_exact(&reader, 3000));
            assert!(writer.0.has_ring(), "round {round}");
            assert_eq!(writer.0.statistics().bytes_through_kernel, 0, "round {round}");
        }
    }

    fn a_pipe_of_the_kernel_is_attached() {
        let (reader, writer) = kernel::Kernel::pipe().unwrap();
        write_all(&writer, &pattern::bytes(0..1000));
        let (reader, writer) = (attach_reader(reader.0), attach_writer(writer.0));
        let task = start(move || write_stream(&writer, 1000..TOTAL, 3000));
        assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
        task.join();
    }

    fn one_end_is_attached_and_the_other_is_plain() {
        let (reader, writer) = kernel::Kernel::pipe().unwrap();
        let reader = attach_reader(reader.0);
        let task = start(move || write_stream(&writer, 0..TOTAL, 3000));
        assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
        task.join();
        let (reader, writer) = kernel::Kernel::pipe().unwrap();
        let writer = attach_writer(writer.0);
        let task = start(move || write_stream(&writer, 0..TOTAL, 3000));
        assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
        task.join();
    }

    fn the_wrong_end_is_not_read_from_or_written_to() {
        let (reader, writer) = kernel::Kernel::pipe().unwrap();
        // Refused when it is attached, or when it is used.
        let read = millstream_pipe::Reader::attach(writer.0).and_then(|end| Reader(end).read(&mut [0]));
        assert_eq!(error_of(read), Errno::BADF);
        let written = millstream_pipe::Writer::attach(reader.0).and_then(|end| Writer(end).write(&[0]));
        assert_eq!(error_of(written), Errno::BADF);
    }

    fn attaching_wrong_end_is_refused_with_its_kind() {
        let (reader, writer) = pipe();
        let error = millstream_pipe::Reader::attach(writer.0.into_fd().unwrap()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("it is the pipe's write end"), "{error}");
        let error = millstream_pipe::Writer::attach(reader.0.into_fd().unwrap()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("it is the pipe's read end"), "{error}");
    }

    fn what_is_no_pipe_is_not_attached() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let error = millstream_pipe::Reader::attach(file()).unwrap_err();
        assert!(error.to_string().contains("no pipe"), "{error}");
        assert_eq!(error_of::<()>(Err(error)), Errno::INVAL);
        assert_eq!(error_of(millstream_pipe::Writer::attach(file())), Errno::INVAL);
    }
}

// Over a socket.
alone! {
    fn reader_travels_over_socket_to_foreign_process() {
        let (child, socket) = socket_child(|socket| {
            assert_eq!(read_stream(&kernel::Reader(receive(&socket)), 0, 5000), TOTAL);
        });
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..10_000));
        send(&socket, reader.0.into_fd().unwrap());
        write_stream(&writer, 10_000..TOTAL, 3000);
        drop(writer);
        child.succeed();
    }

    fn writer_travels_over_socket_to_foreign_process() {
        let (child, socket) = socket_child(|socket| {
            write_stream(&kernel::Writer(receive(&socket)), 10_000..TOTAL, 3000);
        });
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..10_000));
        send(&socket, writer.0.into_fd().unwrap());
        assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
        child.succeed();
    }

    fn a_reader_travels_over_a_socket_and_is_attached() {
        let (child, socket) = socket_child(|socket| {
            assert_eq!(read_stream(&attach_reader(receive(&socket)), 0, 5000), TOTAL);
        });
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..10_000));
        send(&socket, reader.0.into_fd().unwrap());
        write_stream(&writer, 10_000..TOTAL, 3000);
        drop(writer);
        child.succeed();
    }

    fn a_writer_travels_over_a_socket_and_is_attached() {
        let (child, socket) = socket_child(|socket| {
            write_stream(&attach_writer(receive(&socket)), 10_000..TOTAL, 3000);
        });
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..10_000));
        send(&socket, writer.0.into_fd().unwrap());
        assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
        child.succeed();
    }

    /// As long as it is in the socket it is open.
    fn an_end_under_way_keeps_the_stream_open() {
        let (first, second) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe();
        send(&first, writer.0.into_fd().unwrap());
        let task = start_and_wait_until_asleep(move || read_to_end(&reader));
        let writer = attach_writer(receive(&second));
        wait_until_asleep(task.id);
        assert!(!task.is_finished());
        write_all(&writer, b"arrived");
        drop(writer);
        assert_eq!(task.join(), b"arrived");
    }

    fn an_end_that_is_lost_under_way_is_closed() {
        let (first, second) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe();
        write_all(&writer, b"words");
        send(&first, writer.0.into_fd().unwrap());
        drop((first, second));
        assert_eq!(read_to_end(&reader), b"words");
    }

    fn writer_takes_turns_with_writer_attached_elsewhere() {
        // The turns are given over the same socket.
        let (child, mut socket) = socket_child(|mut socket| {
            let writer = attach_writer(receive(&socket));
            for at in (1000..TOTAL).step_by(2000) {
                socket.read_exact(&mut [0]).unwrap();
                write_all(&writer, &pattern::bytes(at..at + 1000));
                socket.write_all(&[0]).unwrap();
            }
        });
        let (reader, writer) = pipe();
        let mine = writer.try_clone().unwrap();
        send(&socket, writer.0.into_fd().unwrap());
        let task = start(move || read_stream(&reader, 0, 5000));
        for at in (0..TOTAL - 1000).step_by(2000) {
            write_all(&mine, &pattern::bytes(at..at + 1000));
            socket.write_all(&[0]).unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }
        child.succeed();
        drop(mine);
        assert!(task.join() >= TOTAL - 2000);
    }

    fn killed_process_has_closed_attached_end() {
        let (child, mut socket) = socket_child(|mut socket| {
            let writer = attach_writer(receive(&socket));
            write_all(&writer, b"words");
            socket.write_all(&[0]).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(3600));
        });
        let (reader, writer) = pipe();
        send(&socket, writer.0.into_fd().unwrap());
        socket.read_exact(&mut [0]).unwrap();
        child.kill();
        assert_eq!(read_to_end(&reader), b"words");
    }
}
