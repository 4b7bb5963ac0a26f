//! A file, or standard input, unpacked if it is packed.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use tokio::sync::mpsc;

use crate::cli::bar::style;

/// What every gzip file starts with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// What is read, and how far it has been, on a terminal.
pub(super) struct Input {
    reader: Box<dyn Read + Send>,
    pub(super) bar: ProgressBar,
}

/// What is read of it, in its order; an error is the last.
pub(super) type Pieces = mpsc::Receiver<io::Result<Vec<u8>>>;

impl Input {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // It draws on standard error, and nothing unless that is a terminal.
        if path == Path::new("-") {
            let bar = ProgressBar::new_spinner();
            bar.set_style(style("{spinner} {bytes} ({bytes_per_sec})"));
            return Self::of(io::stdin(), bar);
        }
        let file = File::open(path)?;
        let bar = ProgressBar::new(file.metadata()?.len());
        bar.set_style(style("{bar:40} {percent}% of {total_bytes}, {eta} left"));
        Self::of(file, bar)
    }

    fn of(source: impl Read + Send + 'static, bar: ProgressBar) -> io::Result<Self> {
        bar.enable_steady_tick(Duration::from_millis(200));
        let mut source = bar.wrap_read(source);
        let mut start = Vec::with_capacity(GZIP.len());
        source.by_ref().take(GZIP.len() as u64).read_to_end(&mut start)?;
        let is_packed = start == GZIP;
        let whole = Cursor::new(start).chain(source);
        let reader: Box<dyn Read + Send> =
            if is_packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self { reader, bar })
    }

    /// What is read, by a thread of its own: it waits where nobody can stop it.
    pub(super) fn pieces(self) -> Pieces {
        let mut reader = self.reader;
        let (read, pieces) = mpsc::channel(4);
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let piece = match reader.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => {
                        piece.truncate(length);
                        Ok(piece)
                    }
                    Err(error) => Err(error),
                };
                let is_over = piece.is_err();
                if read.blocking_send(piece).is_err() || is_over {
                    return;
                }
            }
        });
        pieces
    }
}
