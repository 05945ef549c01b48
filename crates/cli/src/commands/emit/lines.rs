//! Lines of a file or of standard input, read on a thread of its own, with a bound on their length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::thread;

use tidegate::Draft;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::line::Shape;

/// A line may be this long: the largest payload in the widest escape that is usual, and room for the rest.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Lines read ahead: bounds memory, and keeps the reader busy while a batch commits.
const AHEAD: usize = 2048;

/// One line.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u64,
    /// Without its line end; an error when it is too long or cannot be read.
    pub(crate) content: Result<Vec<u8>, Trouble>,
    /// Bytes of the input up to and with this line.
    pub(crate) bytes: u64,
}

impl Line {
    /// The event of this line, or why there is none.
    pub(crate) fn read(&self, shape: &Shape) -> Result<Draft, String> {
        match &self.content {
            Ok(text) => shape.read(text),
            Err(Trouble::TooLong) => Err(format!("is longer than {LINE_BYTES_MAX} bytes")),
            Err(Trouble::Unreadable(error)) => {
                Err(format!("cannot be read: {error}; nothing after it was read"))
            }
        }
    }
}

/// Why a line has no content.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Longer than [`LINE_BYTES_MAX`]; the next line follows.
    TooLong,
    /// Nothing follows.
    Unreadable(io::Error),
}

/// Where lines come from, and how many bytes there are in all, when that is known.
pub(crate) struct Input {
    reader: Box<dyn BufRead + Send>,
    pub(crate) bytes: Option<u64>,
}

impl Input {
    /// A file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::stdin());
        }
        let file = File::open(path)?;
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        Ok(Self {
            bytes: about.is_file().then_some(about.len()),
            reader: Box::new(BufReader::with_capacity(256 * 1024, file)),
        })
    }

    pub(crate) fn stdin() -> Self {
        Self {
            reader: Box::new(BufReader::new(io::stdin())),
            bytes: None,
        }
    }

    /// What the binary itself holds.
    pub(crate) fn shipped(text: &'static str) -> Self {
        Self {
            reader: Box::new(text.as_bytes()),
            bytes: Some(text.len() as u64),
        }
    }

    /// Starts reading. Empty lines are passed over; their numbers are not.
    pub(crate) fn lines(self) -> io::Result<Receiver<Line>> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        thread::Builder::new()
            .name("tidegate-input".into())
            .spawn(move || read_all(self.reader, &sender))?;
        Ok(receiver)
    }
}

fn read_all(mut reader: Box<dyn BufRead + Send>, lines: &Sender<Line>) {
    let mut bytes = 0;
    for number in 1.. {
        let content = match next_line(reader.as_mut(), &mut bytes) {
            Ok(None) => return,
            Ok(Some(content)) => content,
            Err(error) => Err(Trouble::Unreadable(error)),
        };
        if matches!(&content, Ok(text) if text.iter().all(u8::is_ascii_whitespace)) {
            continue;
        }
        let last = matches!(content, Err(Trouble::Unreadable(_)));
        if lines
            .blocking_send(Line {
                number,
                content,
                bytes,
            })
            .is_err()
            || last
        {
            return;
        }
    }
}

type Content = Result<Vec<u8>, Trouble>;

/// The next line, without line end and byte order mark.
fn next_line(reader: &mut (dyn BufRead + Send), bytes: &mut u64) -> io::Result<Option<Content>> {
    let first = *bytes == 0;
    let mut line = Vec::new();
    let mut limited = (&mut *reader).take(LINE_BYTES_MAX as u64 + 1);
    *bytes += limited.read_until(b'\n', &mut line)? as u64;
    if line.is_empty() {
        return Ok(None);
    }
    let ended = line.pop_if(|last| *last == b'\n').is_some();
    if !ended && line.len() > LINE_BYTES_MAX {
        *bytes += reader.skip_until(b'\n')? as u64;
        return Ok(Some(Err(Trouble::TooLong)));
    }
    line.pop_if(|last| *last == b'\r');
    if first && line.starts_with(b"\xef\xbb\xbf") {
        line.drain(..3);
    }
    Ok(Some(Ok(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &'static [u8]) -> Vec<(u64, Result<Vec<u8>, bool>)> {
        let (sender, mut receiver) = mpsc::channel(16);
        read_all(Box::new(input), &sender);
        drop(sender);
        let mut lines = Vec::new();
        while let Some(line) = receiver.blocking_recv() {
            lines.push((
                line.number,
                line.content.map_err(|e| matches!(e, Trouble::TooLong)),
            ));
        }
        lines
    }

    #[test]
    fn empty_lines_count_and_line_ends_and_marks_go() {
        let lines = read(b"\xef\xbb\xbfa\r\n\n  \nb");
        assert_eq!(lines, [(1, Ok(b"a".to_vec())), (4, Ok(b"b".to_vec()))]);
    }

    #[test]
    fn a_line_beyond_the_bound_is_skipped_whole() {
        let long: &'static [u8] = [vec![b'x'; LINE_BYTES_MAX + 10], b"\nnext\n".to_vec()]
            .concat()
            .leak();
        assert_eq!(read(long), [(1, Err(true)), (2, Ok(b"next".to_vec()))]);
    }
}
