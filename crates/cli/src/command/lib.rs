//! `homefree lib`.

use crate::failure::Failure;
use crate::library;
use clap::Args;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

/// Print the path of the library that records, for those who set LD_PRELOAD themselves
///
/// The library is carried inside this program and unpacked when asked for: to
/// $XDG_CACHE_HOME/homefree, ~/.cache/homefree or /tmp/homefree-UID, whichever serves first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{STATUS}"))]
pub struct Lib {
    /// The library that counts bytes (`homefree run --ledger`) instead
    #[arg(long)]
    ledger: bool,
    /// The allocator (`homefree run`) instead
    #[arg(long, conflicts_with = "ledger")]
    alloc: bool,
}

const EXAMPLES: &str = "\
Examples:
  LD_PRELOAD=$(homefree lib) ./server
  LD_PRELOAD=$(homefree lib) HOMEFREE_OUTPUT=/tmp/server.hfp ./server";

const STATUS: &str = "\
Variables (all optional):
  HOMEFREE_OUTPUT        path of the first process's profile
  HOMEFREE_DIR           folder for profiles; the current one if unset
  HOMEFREE_STACKS        auto, fp, dwarf or none
  HOMEFREE_DEPTH         frames kept of a stack, 1 to 128; 64 if unset
  HOMEFREE_FREE_STACKS   cross or all
  HOMEFREE_SAMPLE        mean bytes between samples; every event if unset
  HOMEFREE_CHILDREN      follow or ignore: processes that the program starts

Exit status:
  0  the path was printed
  3  no place was found to unpack the library to";

impl Lib {
    /// Prints the path.
    pub fn run(self) -> Result<u8, Failure> {
        let which = match (self.ledger, self.alloc) {
            (true, _) => &library::LEDGER,
            (_, true) => &library::ALLOCATOR,
            _ => &library::RECORDER,
        };
        let path = library::unpack(which)?;
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        super::written(std::io::stdout().write_all(&line))
    }
}
