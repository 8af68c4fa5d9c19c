//! What the kernel counts, to stand beside what was declared and what is really held.

use std::fs;

/// Resident memory of this process, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Pages of memory of its own (`RssAnon`): what counts when a container runs out of memory.
    pub anonymous: u64,
    /// All resident pages (`VmRSS`): with files that are mapped and shared memory.
    pub all: u64,
}

/// Reads `/proc/self/status`. `None` where there is none, or where it lacks the lines.
///
/// Never `memory.current` of a cgroup: that counts page cache too, which the kernel can take back, and so stands at
/// the limit in every container that reads files (apache/datafusion-comet#5993).
pub fn resident() -> Option<Resident> {
    parse(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(status: &str) -> Option<Resident> {
    let kib = |key: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Resident {
        anonymous: kib("RssAnon:")? << 10,
        all: kib("VmRSS:")? << 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_status_become_bytes() {
        let status = "Name:\tx\nVmHWM:\t    9999 kB\nVmRSS:\t    2048 kB\nRssAnon:\t     512 kB\n";
        assert_eq!(
            parse(status),
            Some(Resident {
                anonymous: 512 << 10,
                all: 2048 << 10
            })
        );
        assert_eq!(parse("Name:\tx\nVmRSS:\t 1 kB\n"), None);
    }

    #[test]
    fn anonymous_pages_are_some_of_all_pages() {
        let now = resident().expect("Linux has the file");
        assert!(now.anonymous > 0 && now.anonymous <= now.all, "{now:?}");
    }
}
