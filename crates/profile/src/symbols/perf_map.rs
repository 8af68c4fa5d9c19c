//! `/tmp/perf-PID.map`: names of generated code, as node, java and others write them when asked to.

use super::Symbol;
use crate::records::text;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

pub(super) struct PerfMap {
    /// (start, end, name), by start; of overlapping ones the later line (the newer code) wins.
    ranges: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// The map of process `pid`, unless it was last written before `recorded_ns`: then it is that of
    /// an earlier process with the same id.
    pub fn of(pid: u32, recorded_ns: u64) -> Option<PerfMap> {
        let file = File::open(format!("/tmp/perf-{pid}.map")).ok()?;
        let written = file.metadata().ok()?.modified().ok()?;
        if written < UNIX_EPOCH + Duration::from_nanos(recorded_ns) {
            return None;
        }
        Some(PerfMap::parse(BufReader::new(file)))
    }

    /// Lines `START SIZE NAME`, hexadecimal; others are skipped.
    fn parse(mut from: impl BufRead) -> PerfMap {
        let mut ranges = Vec::new();
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let parsed = text(line.trim_ascii_end());
            ranges.extend(range(&parsed));
            line.clear();
        }
        // Stable: of equal starts the later line stays last, where the lookup finds it first.
        ranges.sort_by_key(|r| r.0);
        PerfMap { ranges }
    }

    pub fn symbols(&self, address: u64, intern: &mut dyn FnMut(String) -> Arc<str>) -> Vec<Symbol> {
        let after = self.ranges.partition_point(|r| r.0 <= address);
        // Code is moved and freed: look past a few shorter neighbours, not through everything.
        let near = self.ranges[..after].iter().rev().take(16);
        let found = near.into_iter().find(|r| address < r.1);
        let symbol = found.map(|(_, _, name)| Symbol {
            function: Some(intern(name.clone())),
            file: None,
            line: None,
            inlined: false,
        });
        symbol.into_iter().collect()
    }
}

fn range(line: &str) -> Option<(u64, u64, String)> {
    let mut parts = line.splitn(3, ' ');
    let mut number = || {
        let part = parts.next()?;
        u64::from_str_radix(part.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = parts.next()?.trim();
    (!name.is_empty()).then(|| (start, start.saturating_add(size), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_address_and_broken_ones_skipped() {
        let map = PerfMap::parse(
            &b"1000 20 LazyCompile:*foo /x.js:1\nnonsense\n0x1020 0x10 bar\nff 10\n\xff\xfe 1 x\n1000 8 newer\n"[..],
        );
        let name = |address| {
            let found = map.symbols(address, &mut |s| s.into());
            found
                .first()
                .and_then(|s| s.function.clone())
                .map(|f| f.to_string())
        };
        assert_eq!(name(0x1004).as_deref(), Some("newer"));
        assert_eq!(name(0x1010).as_deref(), Some("LazyCompile:*foo /x.js:1"));
        assert_eq!(name(0x102f).as_deref(), Some("bar"));
        assert_eq!(name(0x1030), None);
        assert_eq!(name(0), None);
    }
}
