//! What the environment asks for. Every variable is optional; a bad value counts as none.

use homefree_thread::environment::{number, variable as var};
use homefree_thread::sys;

/// Settings of this process, as its environment has them at the start.
pub(crate) struct Settings {
    /// Folder for pages; none: nothing is published.
    pub(crate) folder: Option<&'static [u8]>,
    pub(crate) run_id: u64,
    /// Count events.
    pub(crate) counts: bool,
    /// Hard limit, bytes.
    pub(crate) limit: Option<u64>,
    /// Children publish too.
    pub(crate) follow: bool,
}

/// Reads them.
pub(crate) fn settings() -> Settings {
    let follow = var(b"HOMEFREE_LEDGER_CHILDREN") != Some(b"ignore");
    let launcher = number(b"HOMEFREE_LEDGER_LAUNCHER", 10);
    let ours = follow || launcher.is_none() || launcher == Some(u64::from(sys::parent_id()));
    Settings {
        folder: var(b"HOMEFREE_LEDGER_DIR").filter(|v| v.starts_with(b"/") && ours),
        run_id: number(b"HOMEFREE_LEDGER_RUN", 16).unwrap_or(0),
        counts: var(b"HOMEFREE_LEDGER_COUNTS") == Some(b"1"),
        limit: number(b"HOMEFREE_LEDGER_LIMIT", 10).filter(|&bytes| bytes > 0),
        follow,
    }
}
