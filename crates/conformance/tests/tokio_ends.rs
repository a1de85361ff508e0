//! Ends on tokio: anonymous pipes and FIFOs, against ends of ours and plain ones.

use std::io::ErrorKind;
use std::time::Duration;

use millstream_conformance::fifo::{Name, Ours, Plain};
use millstream_conformance::pattern::{bytes, read_stream, write_all, write_stream};
use millstream_conformance::process::fork;
use millstream_conformance::task::start;
use millstream_conformance::{alone, error_of, fifo::Hand, ours};
use millstream_pipe::tokio::{AsyncReader, AsyncWriter};
use millstream_pipe::{PIPE_BUF, Reader, Writer, pipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(work)
}

/// An anonymous pipe, and a FIFO whose ends were on their ring before.
fn each_kind(mut body: impl FnMut(Reader, Writer)) {
    let (reader, writer) = pipe().unwrap();
    body(reader, writer);
    let name = Name::new().unwrap();
    let (reader, writer) = millstream_conformance::fifo::acquainted(&name);
    body(reader.0, writer.0);
}

alone! {
    fn a_stream_goes_from_one_task_to_another() {
        each_kind(|reader, writer| {
            run(async {
                let (mut reader, mut writer) = (AsyncReader::new(reader).unwrap(), AsyncWriter::new(writer).unwrap());
                let stream = bytes(0..3_000_000);
                let mut read = Vec::new();
                let written = stream.clone();
                let writing = tokio::spawn(async move {
                    for piece in written.chunks(7001) {
                        writer.write_all(piece).await.unwrap();
                    }
                    writer.shutdown().await.unwrap();
                });
                assert_eq!(reader.read_to_end(&mut read).await.unwrap(), stream.len());
                assert!(read == stream);
                writing.await.unwrap();
                assert_eq!(reader.read(&mut [0]).await.unwrap(), 0, "the end again");
            });
        });
    }

    fn an_end_on_tokio_and_one_that_blocks_share_a_pipe() {
        each_kind(|reader, writer| {
            let writing = start(move || write_stream(&ours::Writer(writer), 0..2_000_000, 3000));
            let read = run(async {
                let (mut reader, mut read) = (AsyncReader::new(reader).unwrap(), Vec::new());
                reader.read_to_end(&mut read).await.unwrap();
                read
            });
            writing.join();
            assert!(read == bytes(0..2_000_000));
        });
        each_kind(|reader, writer| {
            let reading = start(move || read_stream(&ours::Reader(reader), 0, 5000));
            run(async {
                let mut writer = AsyncWriter::new(writer).unwrap();
                writer.write_all(&bytes(0..2_000_000)).await.unwrap();
            });
            assert_eq!(reading.join(), 2_000_000);
        });
    }

    fn small_writes_come_whole() {
        each_kind(|reader, writer| {
            run(async {
                let mut reader = AsyncReader::new(reader).unwrap();
                let mut other = AsyncWriter::new(writer.try_clone().unwrap()).unwrap();
                let mut writer = AsyncWriter::new(writer).unwrap();
                let write = |id: u8, writer: AsyncWriter| async move {
                    let mut writer = writer;
                    for _ in 0..500 {
                        assert_eq!(writer.write(&[id; PIPE_BUF]).await.unwrap(), PIPE_BUF);
                    }
                };
                assert_eq!(other.write(&[]).await.unwrap() + writer.write(&[]).await.unwrap(), 0);
                let writing = [tokio::spawn(write(1, writer)), tokio::spawn(write(2, other))];
                for _ in 0..1000 {
                    let mut page = [0; PIPE_BUF];
                    reader.read_exact(&mut page).await.unwrap();
                    assert!(page.iter().all(|&byte| byte == page[0]));
                }
                for task in writing {
                    task.await.unwrap();
                }
            });
        });
    }

    fn a_read_that_is_dropped_has_taken_nothing() {
        each_kind(|reader, writer| {
            run(async {
                let (mut reader, mut writer) = (AsyncReader::new(reader).unwrap(), AsyncWriter::new(writer).unwrap());
                let mut buffer = [0; 8];
                for _ in 0..100 {
                    {
                        let mut reading = std::pin::pin!(reader.read(&mut buffer));
                        // Polled once, and nothing is there.
                        let polled = std::future::poll_fn(|context| {
                            std::task::Poll::Ready(reading.as_mut().poll(context).is_pending())
                        });
                        assert!(polled.await);
                    }
                    writer.write_all(b"drop").await.unwrap();
                    assert_eq!(reader.read(&mut buffer).await.unwrap(), 4);
                }
            });
        });
    }

    fn a_reader_that_goes_ends_a_write_that_waits() {
        each_kind(|reader, writer| {
            run(async {
                let mut writer = AsyncWriter::new(writer).unwrap();
                let capacity = writer.get_ref().capacity().unwrap();
                writer.write_all(&vec![0; capacity]).await.unwrap();
                let closing = start(move || {
                    std::thread::sleep(Duration::from_millis(20));
                    drop(reader);
                });
                let error = writer.write_all(&[0; PIPE_BUF]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                closing.join();
            });
        });
    }

    fn a_killed_writer_is_the_end() {
        each_kind(|reader, writer| {
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(reader);
                write_all(&ours::Writer(writer), b"its last");
                std::thread::sleep(Duration::from_secs(1000));
            });
            drop(writer);
            let mut child = Some(child);
            run(async {
                let (mut reader, mut text) = (AsyncReader::new(reader).unwrap(), [0; 8]);
                reader.read_exact(&mut text).await.unwrap();
                assert_eq!(&text, b"its last");
                child.take().unwrap().kill();
                assert_eq!(reader.read(&mut text).await.unwrap(), 0);
            });
        });
    }

    fn plain_programs_are_at_the_other_end_of_a_fifo() {
        let name = Name::new().unwrap();
        let reader = Ours::reader(name.path(), true).unwrap();
        let plain = Plain::writer(name.path(), false).unwrap();
        let writing = start(move || write_stream(&plain, 0..1_000_000, 2000));
        let read = run(async {
            let (mut reader, mut read) = (AsyncReader::new(reader.0).unwrap(), Vec::new());
            reader.read_to_end(&mut read).await.unwrap();
            read
        });
        writing.join();
        assert!(read == bytes(0..1_000_000));
    }

    fn what_comes_back_is_the_end_and_does_not_block() {
        each_kind(|reader, writer| {
            run(async {
                let reader = AsyncReader::new(reader).unwrap().into_inner();
                let writer = AsyncWriter::new(writer).unwrap().into_inner();
                assert_eq!(
                    error_of(std::io::Read::read(&mut &reader, &mut [0])),
                    rustix::io::Errno::AGAIN
                );
                drop(writer);
            });
        });
    }
}
