//! Prometheus text, exposition format 0.0.4.

use crate::Ledger;
use crate::families::{Family, Kind, Sink, Value};
use crate::snapshot::Snapshot;
use std::fmt::{self, Write};
use std::string::String;

impl Ledger {
    /// All figures as Prometheus text, for a page that is scraped
    /// (`Content-Type: text/plain; version=0.0.4; charset=utf-8`).
    ///
    /// The ledger's own come from one exact reading (`allocated − freed` is `current`), scopes from just before it;
    /// resident and reserved memory, the cgroup and PSI are read right after, and left out where the system has
    /// them not. Allocations and frees are left out where nothing counts them ([`crate::Bytes`]).
    pub fn prometheus(&self) -> String {
        let mut out = String::with_capacity(8 << 10);
        // A string takes everything.
        let _ = self.write_prometheus(&mut out);
        out
    }

    /// As [`Ledger::prometheus`].
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_prometheus(&self, out: &mut impl Write) -> fmt::Result {
        write(&Snapshot::take(), out)
    }
}

pub(crate) fn write(snapshot: &Snapshot, out: &mut dyn Write) -> fmt::Result {
    let mut page = Page {
        out,
        result: Ok(()),
    };
    snapshot.tell(&mut page);
    page.result
}

struct Page<'a> {
    out: &'a mut dyn Write,
    /// The first error; nothing is written after it.
    result: fmt::Result,
}

impl Page<'_> {
    fn put(&mut self, text: fmt::Arguments<'_>) {
        if self.result.is_ok() {
            self.result = self.out.write_fmt(text);
        }
    }
}

impl Sink for Page<'_> {
    fn family(&mut self, family: &'static Family) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let Family { name, help, .. } = family;
        // No help of ours has a backslash or a newline in it.
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(
        &mut self,
        family: &'static Family,
        label: Option<(&'static str, &str)>,
        value: Value,
    ) {
        self.put(format_args!("{}", family.name));
        if let Some((key, text)) = label {
            self.put(format_args!("{{{key}=\"{}\"}}", Escaped(text)));
        }
        match value {
            Value::Whole(number) => self.put(format_args!(" {number}\n")),
            Value::Real(number) => self.put(format_args!(" {number}\n")),
        }
    }
}

/// A label's value: backslashes, quotes and newlines are written as `\\`, `\"`, `\n`. Other control characters, which some
/// readers refuse or take for the end of a line, are written out: a NUL reads `\u{0}`.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(|c: char| c.is_control() || matches!(c, '\\' | '"')) {
            out.write_str(&rest[..at])?;
            let mut after = rest[at..].chars();
            match after.next() {
                Some('\\') => out.write_str("\\\\")?,
                Some('"') => out.write_str("\\\"")?,
                Some('\n') => out.write_str("\\n")?,
                Some(other) => write!(out, "\\{}", other.escape_unicode())?,
                None => {}
            }
            rest = after.as_str();
        }
        out.write_str(rest)
    }
}
