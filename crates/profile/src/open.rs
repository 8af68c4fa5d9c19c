//! Opening a profile: the header, then page by page.

use crate::decode::Tables;
use homefree_wire::{Error, Header, HeaderValue, PAGE, state};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Why a file could not be opened as a profile. Its message names the file, what happened, and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read at all.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not a profile that this version reads.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// In which way they are not.
        source: Error,
    },
    /// The header is there, but makes no sense.
    #[error("{}: the header is damaged (page size {page_size}, version {version}); nothing can be read from it, record again", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Page size it claims.
        page_size: u32,
        /// Version it claims.
        version: u32,
    },
}

/// Something in a profile that could not be read, while the rest could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: WarningKind,
}

/// What a [`Warning`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarningKind {
    /// The file ends early.
    Truncated {
        /// Whole pages there are.
        page: u64,
        /// Pages there should be.
        of: u64,
    },
    /// Pages that are not what they say.
    Damaged {
        /// How many.
        pages: u64,
        /// The first of them.
        first: u64,
    },
    /// The header does not know how many pages there are; all of the file was read.
    PageCountUnknown,
    /// The file could not grow any more while recording, so that later events at new sites were only counted.
    Full,
    /// Events of threads for which there was no room: in none of the figures.
    Unattached {
        /// How many.
        events: u64,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match self.kind {
            WarningKind::Truncated { page, of } => write!(
                f,
                "truncated after page {page} of {of}; what the lost pages counted is missing below"
            ),
            WarningKind::Damaged { pages: 1, first } => {
                write!(f, "page {first} is damaged and was skipped")
            }
            WarningKind::Damaged { pages, first } => write!(
                f,
                "{pages} damaged pages were skipped, the first is page {first}"
            ),
            WarningKind::PageCountUnknown => {
                write!(f, "the header is damaged; all pages found were read")
            }
            WarningKind::Full => write!(
                f,
                "the file could not grow while recording (disk full?); later events at new sites are counted as lost"
            ),
            WarningKind::Unattached { events } => write!(
                f,
                "{events} events of threads for which the file had no room are in none of the figures"
            ),
        }
    }
}

/// One profile, decoded into memory.
#[derive(Debug)]
pub struct Profile {
    pub(crate) path: PathBuf,
    pub(crate) header: HeaderValue,
    pub(crate) tables: Tables,
    pub(crate) truncated: bool,
    warnings: Vec<Warning>,
}

impl Profile {
    /// Reads a profile, or as much of it as can be read; see [`Profile::warnings`] for the rest. The
    /// file may still be written to.
    ///
    /// # Errors
    /// When not even the header can be read: [`OpenError`].
    pub fn open(path: &Path) -> Result<Profile, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        Profile::read(path, BufReader::with_capacity(256 * PAGE, file))
    }

    /// Like [`Profile::open`], from any source; `path` is only a name in messages.
    ///
    /// # Errors
    /// As [`Profile::open`].
    pub fn read(path: &Path, mut from: impl Read) -> Result<Profile, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let mut page = [0u8; PAGE];
        let len = fill(&mut from, &mut page).map_err(io)?;
        let header = Header::check(&page[..len]).map_err(|source| OpenError::Format {
            path: path.to_owned(),
            source,
        })?;
        if header.page_size as usize != PAGE || header.version == 0 {
            return Err(OpenError::Header {
                path: path.to_owned(),
                page_size: header.page_size,
                version: header.version,
            });
        }

        let mut tables = Tables::default();
        let (mut damaged, mut first_damaged) = (0, 0);
        let mut at = 1u64;
        let wanted = if header.pages == 0 {
            u64::MAX
        } else {
            header.pages
        };
        while at < wanted {
            if fill(&mut from, &mut page).map_err(io)? < PAGE {
                break;
            }
            if !tables.add(&page) {
                damaged += 1;
                if damaged == 1 {
                    first_damaged = at;
                }
            }
            at += 1;
        }

        let truncated = header.pages > at;
        let kinds = [
            truncated.then_some(WarningKind::Truncated {
                page: at,
                of: header.pages,
            }),
            (header.pages == 0).then_some(WarningKind::PageCountUnknown),
            (damaged > 0).then_some(WarningKind::Damaged {
                pages: damaged,
                first: first_damaged,
            }),
            (header.full > 0).then_some(WarningKind::Full),
            (header.unattached > 0).then_some(WarningKind::Unattached {
                events: header.unattached,
            }),
        ];
        let warnings = kinds
            .into_iter()
            .flatten()
            .map(|kind| Warning {
                path: path.to_owned(),
                kind,
            })
            .collect();
        Ok(Profile {
            path: path.to_owned(),
            header,
            tables,
            truncated,
            warnings,
        })
    }

    /// What could not be read. Empty for a whole file.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// True where pages are missing or damaged, so that counts may be.
    pub(crate) fn incomplete(&self) -> bool {
        self.warnings.iter().any(|w| match w.kind {
            WarningKind::Truncated { .. }
            | WarningKind::Damaged { .. }
            | WarningKind::PageCountUnknown => true,
            WarningKind::Full | WarningKind::Unattached { .. } => false,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Process id of the program, in its own pid namespace.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// The launcher's run that this profile belongs to; 0 where there was none.
    pub fn run_id(&self) -> u64 {
        self.header.run_id
    }

    /// True when the program ended in order; false while it runs, or when it was killed.
    pub fn ended(&self) -> bool {
        self.header.state == state::ENDED
    }

    /// Command line, or the executable's path where that is not known; may be empty.
    pub fn command(&self) -> String {
        if self.tables.cmdline.is_empty() {
            self.tables.exe.clone()
        } else {
            self.tables.cmdline.clone()
        }
    }

    /// Time from the start to the last look at the clock, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        let h = &self.header;
        h.last_monotonic_ns.saturating_sub(h.start_monotonic_ns)
    }

    /// Length of a tick in nanoseconds; `None` where the clock was read only once.
    pub(crate) fn tick_ns(&self) -> Option<f64> {
        let ticks = self
            .header
            .last_ticks
            .checked_sub(self.header.start_ticks)
            .filter(|&t| t > 0)?;
        let tick = self.duration_ns() as f64 / ticks as f64;
        // Outside of these a damaged header is more likely than such a clock.
        (1e-3..1e6).contains(&tick).then_some(tick)
    }
}

/// Fills `page` as far as there are bytes; returns how many there were.
fn fill(from: &mut impl Read, page: &mut [u8; PAGE]) -> io::Result<usize> {
    let mut len = 0;
    while len < PAGE {
        match from.read(&mut page[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(len)
}
